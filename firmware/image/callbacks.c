/* SPDX-License-Identifier: Apache-2.0
 * What an image asks its firmware to do: caches, and moves by stream engines.
 *
 * The firmware's functions keep R9, which holds the image's RAM base, as every function must that
 * is compiled for the same procedure call standard: nothing has to be saved here.
 */
#include "image.h"

/* A loader that gave no function: a move fails, a cache operation is not needed. */
#define MISSING (-1)

#define LEND_RANGE(name, member)                                            \
  void name(uintptr_t address, uint32_t bytes) {                            \
    const npuscope_callbacks *given = npuscope_rt_context.callbacks;        \
    if (given != NULL && given->member != NULL) given->member(address, bytes); \
  }

#define LEND_MOVE(name, member, parameters, arguments)               \
  int name parameters {                                              \
    const npuscope_callbacks *given = npuscope_rt_context.callbacks; \
    if (given == NULL || given->member == NULL) return MISSING;      \
    return given->member arguments;                                  \
  }

#define TENSOR const LL_Buffer_InfoTypeDef *

void __assert_func(const char *file, int line, const char *function, const char *expression);
void __ll_lib_error(int code, int line, const char *function);

/* Nothing sensible can follow a failed assertion. */
void __assert_func(const char *file, int line, const char *function, const char *expression) {
  const npuscope_callbacks *given = npuscope_rt_context.callbacks;
  if (given != NULL && given->assert_function != NULL)
    given->assert_function(file, line, function, expression);
  for (volatile int stopped = 1; stopped;) {
  }
}

void __ll_lib_error(int code, int line, const char *function) {
  const npuscope_callbacks *given = npuscope_rt_context.callbacks;
  if (given != NULL && given->library_error != NULL) given->library_error(code, line, function);
}

LEND_RANGE(LL_ATON_Cache_MCU_Clean_Range, mcu_clean)
LEND_RANGE(LL_ATON_Cache_MCU_Invalidate_Range, mcu_invalidate)
LEND_RANGE(LL_ATON_Cache_MCU_Clean_Invalidate_Range, mcu_clean_invalidate)
LEND_RANGE(LL_ATON_Cache_NPU_Clean_Range, npu_clean)
LEND_RANGE(LL_ATON_Cache_NPU_Clean_Invalidate_Range, npu_clean_invalidate)

LEND_MOVE(LL_ATON_LIB_Concat, concat,
          (TENSOR inputs, unsigned int ninputs, TENSOR output, unsigned int axis, int dma_in,
           int dma_out NPUSCOPE_TAIL),
          (inputs, ninputs, output, axis, dma_in, dma_out NPUSCOPE_TAIL_VALUE))

LEND_MOVE(LL_ATON_LIB_Cast, cast,
          (TENSOR input, TENSOR output, int dma_in, int dma_out NPUSCOPE_TAIL),
          (input, output, dma_in, dma_out NPUSCOPE_TAIL_VALUE))

LEND_MOVE(LL_ATON_LIB_Softmax, softmax,
          (TENSOR input, TENSOR output, unsigned int axis, int legacy),
          (input, output, axis, legacy))

LEND_MOVE(LL_ATON_LIB_DMA_ImageToRow, image_to_row,
          (TENSOR inputs, unsigned int ninputs, TENSOR output, unsigned int block_h,
           unsigned int block_w, unsigned int stride_h, unsigned int stride_w, int dma_in,
           int dma_out NPUSCOPE_TAIL),
          (inputs, ninputs, output, block_h, block_w, stride_h, stride_w, dma_in,
           dma_out NPUSCOPE_TAIL_VALUE))

LEND_MOVE(LL_ATON_LIB_DMA_RowToImage, row_to_image,
          (TENSOR inputs, unsigned int ninputs, TENSOR output, unsigned int block_h,
           unsigned int block_w, unsigned int stride_h, unsigned int stride_w, int dma_in,
           int dma_out NPUSCOPE_TAIL),
          (inputs, ninputs, output, block_h, block_w, stride_h, stride_w, dma_in,
           dma_out NPUSCOPE_TAIL_VALUE))

LEND_MOVE(LL_ATON_LIB_DMA_SpaceToDepth, space_to_depth,
          (TENSOR inputs, unsigned int ninputs, TENSOR output, unsigned int block_h,
           unsigned int block_w, int dma_in, int dma_out NPUSCOPE_TAIL),
          (inputs, ninputs, output, block_h, block_w, dma_in, dma_out NPUSCOPE_TAIL_VALUE))

LEND_MOVE(LL_ATON_LIB_DMA_DepthToSpace, depth_to_space,
          (TENSOR inputs, unsigned int ninputs, TENSOR output, unsigned int block_h,
           unsigned int block_w, int dma_in, int dma_out NPUSCOPE_TAIL),
          (inputs, ninputs, output, block_h, block_w, dma_in, dma_out NPUSCOPE_TAIL_VALUE))

LEND_MOVE(LL_ATON_LIB_DMA_Transpose, transpose,
          (TENSOR input, const uint32_t *input_steps, TENSOR output, const uint32_t *output_steps,
           const uint8_t *target, const uint8_t *perm, int dma_in, int dma_out NPUSCOPE_TAIL),
          (input, input_steps, output, output_steps, target, perm, dma_in,
           dma_out NPUSCOPE_TAIL_VALUE))

LEND_MOVE(NPUSCOPE_OUTPUTS(Flat_Copy), flat_copy,
          (TENSOR input, TENSOR outputs, unsigned int noutputs, int dma_in,
           int dma_out NPUSCOPE_TAIL),
          (input, outputs, noutputs, dma_in, dma_out NPUSCOPE_TAIL_VALUE))

LEND_MOVE(NPUSCOPE_OUTPUTS(Channel_Split_Aton), channel_split_aton,
          (TENSOR input, TENSOR outputs, unsigned int noutputs, unsigned int leading_dims,
           int dma_in, int dma_out NPUSCOPE_TAIL),
          (input, outputs, noutputs, leading_dims, dma_in, dma_out NPUSCOPE_TAIL_VALUE))

LEND_MOVE(NPUSCOPE_OUTPUTS(Channel_Split_Batched), channel_split_batched,
          (TENSOR input, TENSOR outputs, unsigned int noutputs, int dma_in,
           int dma_out NPUSCOPE_TAIL),
          (input, outputs, noutputs, dma_in, dma_out NPUSCOPE_TAIL_VALUE))

LEND_MOVE(LL_ATON_LIB_DMA_Outputs_Slice_SplitLike, slice_split_like,
          (TENSOR input, TENSOR output, int32_t out_bytes, int32_t width_bytes, int32_t height,
           int32_t line_offset, int8_t nbits, int dma_in, int dma_out NPUSCOPE_TAIL),
          (input, output, out_bytes, width_bytes, height, line_offset, nbits, dma_in,
           dma_out NPUSCOPE_TAIL_VALUE))

LEND_MOVE(LL_ATON_LIB_DMA_Pad_Memset, pad_memset,
          (void *output, int32_t constant, size_t count, __ll_pad_sw_params_t *parameters),
          (output, constant, count, parameters))

LEND_MOVE(LL_ATON_LIB_DMA_Pad_Filling, pad_filling, (__ll_pad_sw_params_t *parameters),
          (parameters))
