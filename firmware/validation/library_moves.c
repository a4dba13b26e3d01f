/* SPDX-License-Identifier: Apache-2.0
 * Concatenation, transposition, and blocks of pixels that become channels or the reverse. */
#include "library.h"

#include "npuscope_memory.h"

#define CHANNELS 3u

typedef LL_Buffer_InfoTypeDef info_t;

/* The caller counts axes as N, C, H, W. */
static uint32_t axis_here(uint32_t axis) {
  static const uint8_t places[] = {0, CHANNELS, 1, 2};
  return axis < 4 ? places[axis] : CHANNELS;
}

static bool copy_part(const library_tensor *part, const library_tensor *whole, uint32_t axis,
                      uint32_t first) {
  library_copy copy = {.rank = 4, .element_bytes = part->element_bytes};
  if (part->element_bytes != whole->element_bytes) return false;
  if (part->size[axis] > whole->size[axis] - first) return false;
  for (uint32_t i = 0; i < 4; i++) {
    if (i != axis && part->size[i] != whole->size[i]) return false;
    copy.count[i] = part->size[i];
    copy.from_step[i] = part->step[i];
    copy.to_step[i] = whole->step[i];
  }
  library_do(&copy, whole->data + first * whole->step[axis], part->data);
  return true;
}

int LL_ATON_LIB_Concat(const info_t *inputs, unsigned int ninputs, const info_t *output,
                       unsigned int axis, int dma_in, int dma_out NPUSCOPE_TAIL) {
  library_tensor part, whole;
  uint32_t first = 0;
  IGNORE_ENGINES;
  if (!library_view(output, &whole)) return LIBRARY_NOT_VALID;
  for (unsigned int i = 0; i < ninputs; i++) {
    if (!library_view(&inputs[i], &part) || !copy_part(&part, &whole, axis_here(axis), first))
      return LIBRARY_NOT_VALID;
    first += part.size[axis_here(axis)];
  }
  return LIBRARY_OK;
}

/* `target` tells for each axis of the input which one of the output it becomes. */
int LL_ATON_LIB_DMA_Transpose(const info_t *input, const uint32_t *input_steps,
                              const info_t *output, const uint32_t *output_steps,
                              const uint8_t *target, const uint8_t *perm, int dma_in,
                              int dma_out NPUSCOPE_TAIL) {
  library_copy copy = {.rank = input->ndims, .element_bytes = input->nbits / 8u};
  IGNORE_ENGINES;
  (void)perm;
  if (!copy.rank || copy.rank > LIBRARY_MOST_AXES || !copy.element_bytes) return LIBRARY_NOT_VALID;
  for (uint32_t axis = 0; axis < copy.rank; axis++) {
    if (target[axis] >= copy.rank) return LIBRARY_NOT_VALID;
    copy.count[axis] = input->shape[axis];
    copy.from_step[axis] = input_steps[axis];
    copy.to_step[axis] = output_steps[target[axis]];
  }
  library_do(&copy, library_data(output), library_data(input));
  return LIBRARY_OK;
}

typedef struct {
  uint32_t rows, columns, down, right; /* size of a block, and how far it is to the next */
} blocks_t;

/* An image of small pixels, and one whose pixels hold the channels of a whole block. */
static bool fit(const library_tensor *image, const library_tensor *deep, blocks_t blocks) {
  return image->element_bytes == deep->element_bytes && image->size[0] == deep->size[0] &&
         blocks.rows && blocks.columns && deep->size[1] && deep->size[2] &&
         deep->size[3] == image->size[3] * blocks.rows * blocks.columns &&
         (deep->size[1] - 1) * blocks.down + blocks.rows <= image->size[1] &&
         (deep->size[2] - 1) * blocks.right + blocks.columns <= image->size[2];
}

/* Axes: n, row and column among the blocks, row and column inside one, channel. `group` is the
 * distance of neighbours inside a block where they are channels. */
static void take_steps(uint32_t *image_steps, uint32_t *deep_steps, const library_tensor *image,
                       const library_tensor *deep, blocks_t blocks, uint32_t group) {
  const uint32_t of_image[] = {image->step[0], blocks.down * image->step[1],
                               blocks.right * image->step[2], image->step[1],
                               image->step[2], image->step[3]};
  const uint32_t of_deep[] = {deep->step[0], deep->step[1], deep->step[2],
                              blocks.columns * group, group, deep->step[3]};
  memcpy(image_steps, of_image, sizeof of_image);
  memcpy(deep_steps, of_deep, sizeof of_deep);
}

static library_copy block_copy(const library_tensor *image, const library_tensor *deep,
                               blocks_t blocks) {
  return (library_copy){
      .rank = 6,
      .element_bytes = image->element_bytes,
      .count = {deep->size[0], deep->size[1], deep->size[2], blocks.rows, blocks.columns,
                image->size[3]},
  };
}

static int to_rows(const info_t *input, const info_t *output, blocks_t blocks) {
  library_tensor image, deep;
  if (!library_view(input, &image) || !library_view(output, &deep) || !fit(&image, &deep, blocks))
    return LIBRARY_NOT_VALID;
  library_copy copy = block_copy(&image, &deep, blocks);
  take_steps(copy.from_step, copy.to_step, &image, &deep, blocks, image.size[3] * deep.step[3]);
  library_do(&copy, deep.data, image.data);
  return LIBRARY_OK;
}

/* The channels of one place in the blocks may also lie together, place after place. */
static bool view_deep(const info_t *info, uint32_t channels, library_tensor *deep,
                      uint32_t *group) {
  info_t plain = *info;
  const bool is_known = library_view(info, deep);
  plain.batch = 0;
  *group = channels * deep->step[3];
  if (is_known) return true;
  if (info->batch != channels || !library_view(&plain, deep)) return false;
  deep->step[2] = channels * deep->element_bytes;
  deep->step[1] = deep->size[2] * deep->step[2];
  *group = deep->size[1] * deep->step[1];
  return true;
}

static int to_image(const info_t *input, const info_t *output, blocks_t blocks) {
  library_tensor image, deep = {0};
  uint32_t group;
  if (!library_view(output, &image) || !view_deep(input, image.size[3], &deep, &group) ||
      !fit(&image, &deep, blocks))
    return LIBRARY_NOT_VALID;
  library_copy copy = block_copy(&image, &deep, blocks);
  take_steps(copy.to_step, copy.from_step, &image, &deep, blocks, group);
  library_do(&copy, image.data, deep.data);
  return LIBRARY_OK;
}

int LL_ATON_LIB_DMA_ImageToRow(const info_t *inputs, unsigned int ninputs, const info_t *output,
                               unsigned int block_h, unsigned int block_w, unsigned int stride_h,
                               unsigned int stride_w, int dma_in, int dma_out NPUSCOPE_TAIL) {
  IGNORE_ENGINES;
  if (ninputs != 1) return LIBRARY_NOT_VALID;
  return to_rows(inputs, output, (blocks_t){block_h, block_w, stride_h, stride_w});
}

int LL_ATON_LIB_DMA_RowToImage(const info_t *inputs, unsigned int ninputs, const info_t *output,
                               unsigned int block_h, unsigned int block_w, unsigned int stride_h,
                               unsigned int stride_w, int dma_in, int dma_out NPUSCOPE_TAIL) {
  IGNORE_ENGINES;
  if (ninputs != 1) return LIBRARY_NOT_VALID;
  return to_image(inputs, output, (blocks_t){block_h, block_w, stride_h, stride_w});
}

int LL_ATON_LIB_DMA_SpaceToDepth(const info_t *inputs, unsigned int ninputs, const info_t *output,
                                 unsigned int block_h, unsigned int block_w, int dma_in,
                                 int dma_out NPUSCOPE_TAIL) {
  return LL_ATON_LIB_DMA_ImageToRow(inputs, ninputs, output, block_h, block_w, block_h, block_w,
                                    dma_in, dma_out NPUSCOPE_TAIL_VALUE);
}

int LL_ATON_LIB_DMA_DepthToSpace(const info_t *inputs, unsigned int ninputs, const info_t *output,
                                 unsigned int block_h, unsigned int block_w, int dma_in,
                                 int dma_out NPUSCOPE_TAIL) {
  return LL_ATON_LIB_DMA_RowToImage(inputs, ninputs, output, block_h, block_w, block_h, block_w,
                                    dma_in, dma_out NPUSCOPE_TAIL_VALUE);
}
