/* SPDX-License-Identifier: Apache-2.0
 * Just enough declarations of the runtime interface to compile a network.c in tests. */
#ifndef STUB_LL_ATON_LIB_H
#define STUB_LL_ATON_LIB_H

#include "ll_aton.h"

#if STUB_RUNTIME == 2
#define STUB_TAIL
#else
#define STUB_TAIL , const NN_Instance_TypeDef *nn_instance
#endif

int LL_ATON_LIB_Concat(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                       const LL_Buffer_InfoTypeDef *output, unsigned int axis, int dma_in,
                       int dma_out STUB_TAIL);
int LL_ATON_LIB_DMA_SpaceToDepth(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                                 const LL_Buffer_InfoTypeDef *output, unsigned int block_h,
                                 unsigned int block_w, int dma_in, int dma_out STUB_TAIL);
int LL_ATON_LIB_DMA_DepthToSpace(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                                 const LL_Buffer_InfoTypeDef *output, unsigned int block_h,
                                 unsigned int block_w, int dma_in, int dma_out STUB_TAIL);
int LL_ATON_LIB_DMA_Transpose(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_steps,
                              const LL_Buffer_InfoTypeDef *output, const uint32_t *output_steps,
                              const uint8_t *target, const uint8_t *perm, int dma_in,
                              int dma_out STUB_TAIL);

#endif
