/* SPDX-License-Identifier: Apache-2.0
 * Coefficients of an arithmetic unit: 512 entries of A, B and C in its own memory. */
#ifndef NPU_ARITHMETIC_H
#define NPU_ARITHMETIC_H

#include "npu.h"

#define NPU_ARITH_ENTRIES 512u

/* Whether the widths of all three vectors are known ones. */
bool npu_arithmetic_widths(const LL_Arithacc_InitTypeDef *conf);
/* Copies the vectors into the unit of this page; a missing one is its scalar, repeated. */
void npu_arithmetic_load(uint32_t page, const LL_Arithacc_InitTypeDef *conf, uint32_t entries);

#endif
