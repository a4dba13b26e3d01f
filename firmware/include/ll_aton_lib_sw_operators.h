/* SPDX-License-Identifier: Apache-2.0
 * The runtime interface that a network.c is written against: names and fields, our own words.
 *
 * Moves of data on the CPU. Steps are bytes between neighbours along an axis; starts, ends and
 * steps of a slice are elements, the end not included.
 */
#ifndef LL_ATON_LIB_SW_OPERATORS_H
#define LL_ATON_LIB_SW_OPERATORS_H

#include "ll_aton_lib.h"

int LL_ATON_LIB_Slice(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_steps,
                      const LL_Buffer_InfoTypeDef *output, const uint32_t *output_steps,
                      uint32_t rank, const int32_t *starts, const int32_t *ends,
                      const int32_t *steps);
int LL_ATON_LIB_Transpose(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_steps,
                          const LL_Buffer_InfoTypeDef *output, const uint32_t *output_steps,
                          const uint8_t *perm);
int LL_ATON_LIB_SW_SpaceToDepth(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_steps,
                                const LL_Buffer_InfoTypeDef *output,
                                const uint32_t *output_steps, uint32_t block_h,
                                uint32_t block_w);
int LL_ATON_LIB_SW_DepthToSpace(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_steps,
                                const LL_Buffer_InfoTypeDef *output,
                                const uint32_t *output_steps, uint32_t block_h,
                                uint32_t block_w, uint32_t mode);

#endif
