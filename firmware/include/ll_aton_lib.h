/* SPDX-License-Identifier: Apache-2.0
 * The runtime interface that a network.c is written against: names and fields, our own words.
 *
 * Moves of data that the firmware does with two stream engines. `dma_in` and `dma_out` are their
 * numbers. A call starts the move; the epochs that it needs are inserted behind the caller's.
 */
#ifndef LL_ATON_LIB_H
#define LL_ATON_LIB_H

#include "ll_aton.h"

/* Runtimes of generation 3 and later want to know for whom they work. */
#if NPUSCOPE_DIALECT != 3
#define NPUSCOPE_TAIL
#define NPUSCOPE_TAIL_VALUE
/* Called by network.c in the older runtime, by the library alone in later ones. */
#define NPUSCOPE_OUTPUTS(name) LL_ATON_LIB_DMA_Outputs_##name
#else
#define NPUSCOPE_TAIL , const NN_Instance_TypeDef *nn_instance
#define NPUSCOPE_TAIL_VALUE , nn_instance
#define NPUSCOPE_OUTPUTS(name) __LL_ATON_LIB_DMA_Outputs_##name
#endif

typedef LL_Buffer_InfoTypeDef LL_LIB_TensorInfo_TypeDef;
typedef LL_Buffer_InfoTypeDef LL_LIB_TensorShape_TypeDef;
/* What a pad is made of stays between the library's own functions. */
typedef struct __ll_pad_sw_params __ll_pad_sw_params_t;

int LL_ATON_LIB_Concat(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                       const LL_Buffer_InfoTypeDef *output, unsigned int axis, int dma_in,
                       int dma_out NPUSCOPE_TAIL);
int LL_ATON_LIB_Cast(const LL_Buffer_InfoTypeDef *input, const LL_Buffer_InfoTypeDef *output,
                     int dma_in, int dma_out NPUSCOPE_TAIL);
int LL_ATON_LIB_Softmax(const LL_Buffer_InfoTypeDef *input, const LL_Buffer_InfoTypeDef *output,
                        unsigned int axis, int legacy);
int LL_ATON_LIB_DMA_ImageToRow(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                               const LL_Buffer_InfoTypeDef *output, unsigned int block_h,
                               unsigned int block_w, unsigned int stride_h, unsigned int stride_w,
                               int dma_in, int dma_out NPUSCOPE_TAIL);
int LL_ATON_LIB_DMA_RowToImage(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                               const LL_Buffer_InfoTypeDef *output, unsigned int block_h,
                               unsigned int block_w, unsigned int stride_h, unsigned int stride_w,
                               int dma_in, int dma_out NPUSCOPE_TAIL);
int LL_ATON_LIB_DMA_SpaceToDepth(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                                 const LL_Buffer_InfoTypeDef *output, unsigned int block_h,
                                 unsigned int block_w, int dma_in, int dma_out NPUSCOPE_TAIL);
int LL_ATON_LIB_DMA_DepthToSpace(const LL_Buffer_InfoTypeDef *inputs, unsigned int ninputs,
                                 const LL_Buffer_InfoTypeDef *output, unsigned int block_h,
                                 unsigned int block_w, int dma_in, int dma_out NPUSCOPE_TAIL);
int LL_ATON_LIB_DMA_Transpose(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_steps,
                              const LL_Buffer_InfoTypeDef *output, const uint32_t *output_steps,
                              const uint8_t *target, const uint8_t *perm, int dma_in,
                              int dma_out NPUSCOPE_TAIL);

int NPUSCOPE_OUTPUTS(Flat_Copy)(const LL_Buffer_InfoTypeDef *input,
                                const LL_Buffer_InfoTypeDef *outputs, unsigned int noutputs,
                                int dma_in, int dma_out NPUSCOPE_TAIL);
int NPUSCOPE_OUTPUTS(Channel_Split_Aton)(const LL_Buffer_InfoTypeDef *input,
                                         const LL_Buffer_InfoTypeDef *outputs,
                                         unsigned int noutputs, unsigned int leading_dims,
                                         int dma_in, int dma_out NPUSCOPE_TAIL);
int NPUSCOPE_OUTPUTS(Channel_Split_Batched)(const LL_Buffer_InfoTypeDef *input,
                                            const LL_Buffer_InfoTypeDef *outputs,
                                            unsigned int noutputs, int dma_in,
                                            int dma_out NPUSCOPE_TAIL);
int LL_ATON_LIB_DMA_Outputs_Slice_SplitLike(const LL_Buffer_InfoTypeDef *input,
                                            const LL_Buffer_InfoTypeDef *output,
                                            int32_t out_bytes, int32_t width_bytes,
                                            int32_t height, int32_t line_offset, int8_t nbits,
                                            int dma_in, int dma_out NPUSCOPE_TAIL);
int LL_ATON_LIB_DMA_Pad_Memset(void *output, int32_t constant, size_t count,
                               __ll_pad_sw_params_t *parameters);
int LL_ATON_LIB_DMA_Pad_Filling(__ll_pad_sw_params_t *parameters);

#endif
