/* SPDX-License-Identifier: Apache-2.0
 * Resize of images (N, H, W, C): of whole numbers by shares of 2**-10, and to the nearest. */
#include "moves.h"
#include "tensor.h"

#define WHOLE_SHARE 1024
#define HALF ((int64_t)1 << 19) /* of the square of a whole share */
#define BITS 20

/* The neighbours of an output place along an axis, and the share of the upper one. */
typedef struct {
  uint32_t lower, upper;
  int64_t share;
} place;

static place place_of(const npuscope_tensor *arrays, uint32_t at) {
  place found = {(uint32_t)((const int32_t *)arrays[0].data)[at],
                 (uint32_t)((const int32_t *)arrays[1].data)[at],
                 ((const int32_t *)arrays[2].data)[at]};
  return found;
}

/* Half away from zero; a sum of 0 is taken for a negative one and stays 0. */
static int32_t rounded(int64_t total) {
  int64_t moved = total > 0 ? total + HALF : HALF - total;
  return total > 0 ? (int32_t)(moved >> BITS) : total == 0 ? 0 : -(int32_t)(moved >> BITS);
}

static void one_pixel(const npuscope_call *call, uint32_t image, place down, place across,
                      uint32_t first) {
  const npuscope_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  uint32_t height = x->shape[1], width = x->shape[2], channels = x->shape[3];
  uint32_t top = (image * height + down.lower) * width;
  uint32_t bottom = (image * height + down.upper) * width;
  for (uint32_t c = 0; c < channels; c++) {
    int64_t corners[4] = {npuscope_raw(x, (top + across.lower) * channels + c),
                          npuscope_raw(x, (top + across.upper) * channels + c),
                          npuscope_raw(x, (bottom + across.lower) * channels + c),
                          npuscope_raw(x, (bottom + across.upper) * channels + c)};
    int64_t left = corners[0] * (WHOLE_SHARE - down.share) + corners[2] * down.share;
    int64_t right = corners[1] * (WHOLE_SHARE - down.share) + corners[3] * down.share;
    int64_t total = left * (WHOLE_SHARE - across.share) + right * across.share;
    npuscope_put_whole(y, first + c, rounded(total));
  }
}

/* Inputs: x, then per output row the upper neighbour, the lower one and the lower one's share, then
 * the same per output column. */
void npuscope_resize_linear_integer(const npuscope_call *call) {
  const npuscope_tensor *y = &call->outputs[0];
  uint32_t rows = y->shape[1], columns = y->shape[2], channels = y->shape[3], first = 0;
  for (uint32_t line = 0; line < y->shape[0] * rows; line++) {
    place down = place_of(call->inputs + 1, line % rows);
    for (uint32_t column = 0; column < columns; column++, first += channels) {
      one_pixel(call, line / rows, down, place_of(call->inputs + 4, column), first);
    }
  }
}

/* Copies of the nearest pixels. Inputs: x, then the row read for each row written, and the same for
 * columns. Numbers: way, input that holds the table, activation (moves.h). */
void npuscope_resize_nearest(const npuscope_call *call) {
  const npuscope_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  const int32_t *rows = call->inputs[1].data, *columns = call->inputs[2].data;
  uint32_t channels = y->shape[3], to = 0;
  npuscope_move_path path = npuscope_path_of(call, x, y, call->numbers);
  for (uint32_t line = 0; line < y->shape[0] * y->shape[1]; line++) {
    uint32_t image = line / y->shape[1], row = (uint32_t)rows[line % y->shape[1]];
    uint32_t first = (image * x->shape[1] + row) * x->shape[2];
    for (uint32_t i = 0; i < y->shape[2]; i++, to += channels)
      npuscope_move_run(&path, (first + (uint32_t)columns[i]) * channels, to, channels, 1, 1);
  }
}
