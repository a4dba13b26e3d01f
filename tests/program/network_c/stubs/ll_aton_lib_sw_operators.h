/* SPDX-License-Identifier: Apache-2.0
 * Just enough declarations of the runtime interface to compile a network.c in tests. */
#ifndef STUB_LL_ATON_LIB_SW_OPERATORS_H
#define STUB_LL_ATON_LIB_SW_OPERATORS_H

#include "ll_aton_lib.h"

int LL_ATON_LIB_Slice(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_steps,
                      const LL_Buffer_InfoTypeDef *output, const uint32_t *output_steps,
                      uint32_t rank, const int32_t *starts, const int32_t *ends,
                      const int32_t *steps);

#endif
