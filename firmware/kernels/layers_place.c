/* SPDX-License-Identifier: Apache-2.0 */
#include "layers_place.h"

#include "tensor.h"

static npuscope_windows windows_of(const npuscope_call *call, const int32_t *dilations) {
  const npuscope_tensor *x = &call->inputs[0], *w = &call->inputs[1], *y = &call->outputs[0];
  npuscope_windows at;
  at.down = call->numbers[0], at.right = call->numbers[1];
  at.top = call->numbers[2], at.left = call->numbers[3];
  at.far_down = dilations[0], at.far_right = dilations[1], at.groups = dilations[2];
  at.height = (int32_t)x->shape[1], at.width = (int32_t)x->shape[2];
  at.channels = (int32_t)x->shape[3];
  at.kernel_rows = (int32_t)w->shape[1], at.kernel_columns = (int32_t)w->shape[2];
  at.depth = (int32_t)w->shape[3];
  at.output_rows = (int32_t)y->shape[1], at.output_columns = (int32_t)y->shape[2];
  at.outputs = (int32_t)y->shape[3];
  return at;
}

npuscope_windows npuscope_conv_windows(const npuscope_call *call) {
  return windows_of(call, call->numbers + 6);
}

npuscope_windows npuscope_transpose_windows(const npuscope_call *call) {
  return windows_of(call, call->numbers + 8);
}

static int32_t pixel_at(const npuscope_windows *at, int32_t image, int32_t row, int32_t column) {
  if (row < 0 || row >= at->height || column < 0 || column >= at->width)
    return -1;
  return (image * at->height + row) * at->width + column;
}

npuscope_spot npuscope_spot_of(const npuscope_windows *at, uint32_t output_pixel) {
  int32_t line = (int32_t)output_pixel / at->output_columns;
  npuscope_spot spot = {.column = (int32_t)output_pixel % at->output_columns};
  spot.image = line / at->output_rows, spot.row = line % at->output_rows;
  return spot;
}

int32_t npuscope_conv_pixel(const npuscope_windows *at, npuscope_spot spot, int32_t row,
                            int32_t column) {
  return pixel_at(at, spot.image, spot.row * at->down - at->top + row * at->far_down,
                  spot.column * at->right - at->left + column * at->far_right);
}

int32_t npuscope_transpose_pixel(const npuscope_windows *at, npuscope_spot spot, int32_t row,
                                 int32_t column) {
  int32_t below = spot.row + at->top - row * at->far_down;
  int32_t beside = spot.column + at->left - column * at->far_right;
  if (below < 0 || beside < 0 || below % at->down != 0 || beside % at->right != 0)
    return -1;
  return pixel_at(at, spot.image, below / at->down, beside / at->right);
}

uint32_t npuscope_first_channel(const npuscope_windows *at, int32_t pixel, uint32_t output) {
  int32_t group = (int32_t)output / (at->outputs / at->groups);
  return (uint32_t)(pixel * at->channels + group * at->depth);
}

uint32_t npuscope_broadcast_place(const npuscope_tensor *part, const npuscope_tensor *whole,
                                  uint32_t index, uint32_t kept) {
  uint32_t place = 0, step = 1;
  int32_t own = (int32_t)(part->rank - kept) - 1;
  for (int32_t axis = (int32_t)(whole->rank - kept) - 1; axis >= 0 && own >= 0; axis--, own--) {
    if (part->shape[own] != 1)
      place += index % whole->shape[axis] * step;
    step *= part->shape[own];
    index /= whole->shape[axis];
  }
  return place;
}

uint32_t npuscope_leading_count(const npuscope_tensor *tensor, uint32_t kept) {
  return npuscope_extent(tensor, 0, tensor->rank - kept);
}

npuscope_product npuscope_product_of(const npuscope_call *call) {
  const npuscope_tensor *a = &call->inputs[0], *b = &call->inputs[1], *y = &call->outputs[0];
  uint32_t last_of_a = a->shape[a->rank - 1], last_of_b = b->shape[b->rank - 1];
  npuscope_product at = {.rows = y->shape[y->rank - 2], .columns = y->shape[y->rank - 1]};
  int swap_a = call->numbers[0] != 0, swap_b = call->numbers[1] != 0;
  at.terms = swap_a ? a->shape[a->rank - 2] : last_of_a;
  at.row_step = swap_a ? 1 : last_of_a;
  at.term_step_a = swap_a ? last_of_a : 1;
  at.term_step_b = swap_b ? 1 : last_of_b;
  at.column_step = swap_b ? last_of_b : 1;
  return at;
}
