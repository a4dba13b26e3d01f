/* SPDX-License-Identifier: Apache-2.0
 * Functions that the firmware lends to an image. The order is part of the interface. */
#ifndef NPUSCOPE_CALLBACKS_H
#define NPUSCOPE_CALLBACKS_H

#include "ll_aton_caches_interface.h"
#include "ll_aton_lib.h"

typedef void npuscope_range_function(uintptr_t address, uint32_t bytes);

typedef struct {
  void (*assert_function)(const char *file, int line, const char *function,
                          const char *expression);
  void (*library_error)(int code, int line, const char *function);

  npuscope_range_function *mcu_clean, *mcu_invalidate, *mcu_clean_invalidate;
  npuscope_range_function *npu_clean, *npu_clean_invalidate;

  __typeof__(LL_ATON_LIB_Concat) *concat;
  __typeof__(LL_ATON_LIB_Cast) *cast;
  __typeof__(LL_ATON_LIB_Softmax) *softmax;
  __typeof__(LL_ATON_LIB_DMA_ImageToRow) *image_to_row;
  __typeof__(LL_ATON_LIB_DMA_SpaceToDepth) *space_to_depth;
  __typeof__(LL_ATON_LIB_DMA_RowToImage) *row_to_image;
  __typeof__(LL_ATON_LIB_DMA_DepthToSpace) *depth_to_space;
  __typeof__(NPUSCOPE_OUTPUTS(Flat_Copy)) *flat_copy;
  __typeof__(LL_ATON_LIB_DMA_Outputs_Slice_SplitLike) *slice_split_like;
  __typeof__(NPUSCOPE_OUTPUTS(Channel_Split_Aton)) *channel_split_aton;
  __typeof__(NPUSCOPE_OUTPUTS(Channel_Split_Batched)) *channel_split_batched;
  __typeof__(LL_ATON_LIB_DMA_Pad_Memset) *pad_memset;
  __typeof__(LL_ATON_LIB_DMA_Pad_Filling) *pad_filling;
  __typeof__(LL_ATON_LIB_DMA_Transpose) *transpose;
} npuscope_callbacks;

_Static_assert(sizeof(npuscope_callbacks) == 21 * sizeof(void *), "21 functions");

#endif
