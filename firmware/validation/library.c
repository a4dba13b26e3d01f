/* SPDX-License-Identifier: Apache-2.0
 * The table of functions for images, and what the moves share. */
#include "library.h"

#include "callbacks.h"
#include "npuscope_memory.h"
#include "npuscope_npu.h"
#include "npuscope_platform.h"

uint8_t *library_data(const LL_Buffer_InfoTypeDef *info) {
  return info->addr_base.p + info->offset_start;
}

uint32_t library_bytes(const LL_Buffer_InfoTypeDef *info) {
  return info->offset_end - info->offset_start;
}

/* The innermost axis; neighbours on both sides are moved as one. */
static void copy_line(const library_copy *copy, uint8_t *to, const uint8_t *from) {
  const uint32_t last = copy->rank - 1, bytes = copy->element_bytes;
  if (copy->from_step[last] == bytes && copy->to_step[last] == bytes) {
    memcpy(to, from, bytes * copy->count[last]);
    return;
  }
  for (uint32_t i = 0; i < copy->count[last]; i++)
    memcpy(to + i * copy->to_step[last], from + i * copy->from_step[last], bytes);
}

/* Steps an odometer over all axes but the last; false after the last line. */
static bool next_line(const library_copy *copy, uint32_t *index) {
  for (uint32_t axis = copy->rank - 1; axis-- > 0;) {
    if (++index[axis] < copy->count[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

static uint32_t distance(const library_copy *copy, const uint32_t *index, const uint32_t *steps) {
  uint32_t bytes = 0;
  for (uint32_t axis = 0; axis + 1 < copy->rank; axis++) bytes += index[axis] * steps[axis];
  return bytes;
}

void library_do(const library_copy *copy, uint8_t *to, const uint8_t *from) {
  uint32_t index[LIBRARY_MOST_AXES] = {0};
  for (uint32_t axis = 0; axis < copy->rank; axis++)
    if (!copy->count[axis]) return;
  do {
    copy_line(copy, to + distance(copy, index, copy->to_step),
              from + distance(copy, index, copy->from_step));
  } while (next_line(copy, index));
}

static void take_sizes(const LL_Buffer_InfoTypeDef *info, library_tensor *tensor) {
  const uint32_t missing = 4u - info->ndims;
  for (uint32_t i = 0; i < 4; i++) tensor->size[i] = i < missing ? 1 : info->shape[i - missing];
}

/* All channels of a pixel together, or all pixels of a channel. */
bool library_view(const LL_Buffer_InfoTypeDef *info, library_tensor *tensor) {
  if (!info->shape || !info->ndims || info->ndims > 4 || info->nbits < 8) return false;
  take_sizes(info, tensor);
  const uint32_t bytes = info->nbits / 8u;
  const uint32_t rows = tensor->size[1], columns = tensor->size[2], channels = tensor->size[3];
  const bool is_last = info->batch == channels || info->batch == 0 || channels == 1;
  if (!is_last && info->batch != 1) return false;
  tensor->element_bytes = bytes;
  tensor->data = library_data(info);
  tensor->step[0] = rows * columns * channels * bytes;
  tensor->step[1] = columns * bytes * (is_last ? channels : 1);
  tensor->step[2] = bytes * (is_last ? channels : 1);
  tensor->step[3] = bytes * (is_last ? 1 : rows * columns);
  return true;
}

static void clean_invalidate_data(uintptr_t address, uint32_t size) {
  npuscope_clean_data_cache(address, size);
  npuscope_invalidate_data_cache(address, size);
}

const struct ll_aton_reloc_callback *library_callbacks(void) {
  static const npuscope_callbacks functions = {
      .assert_function = npuscope_image_asserts,
      .library_error = npuscope_image_errs,
      .mcu_clean = npuscope_clean_data_cache,
      .mcu_invalidate = npuscope_invalidate_data_cache,
      .mcu_clean_invalidate = clean_invalidate_data,
      .npu_clean = npuscope_clean_npu_cache,
      .npu_clean_invalidate = npuscope_clean_invalidate_npu_cache,
      .concat = LL_ATON_LIB_Concat,
      .cast = LL_ATON_LIB_Cast,
      .softmax = LL_ATON_LIB_Softmax,
      .image_to_row = LL_ATON_LIB_DMA_ImageToRow,
      .space_to_depth = LL_ATON_LIB_DMA_SpaceToDepth,
      .row_to_image = LL_ATON_LIB_DMA_RowToImage,
      .depth_to_space = LL_ATON_LIB_DMA_DepthToSpace,
      .flat_copy = NPUSCOPE_OUTPUTS(Flat_Copy),
      .slice_split_like = LL_ATON_LIB_DMA_Outputs_Slice_SplitLike,
      .channel_split_aton = NPUSCOPE_OUTPUTS(Channel_Split_Aton),
      .channel_split_batched = NPUSCOPE_OUTPUTS(Channel_Split_Batched),
      .pad_memset = LL_ATON_LIB_DMA_Pad_Memset,
      .pad_filling = LL_ATON_LIB_DMA_Pad_Filling,
      .transpose = LL_ATON_LIB_DMA_Transpose,
  };
  _Static_assert(sizeof functions == sizeof(struct ll_aton_reloc_callback), "one interface");
  return (const struct ll_aton_reloc_callback *)&functions;
}
