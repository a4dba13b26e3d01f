/* SPDX-License-Identifier: Apache-2.0
 * Where the values of a layer lie. */
#ifndef NPUSCOPE_LAYERS_PLACE_H
#define NPUSCOPE_LAYERS_PLACE_H

#include "npuscope_kernels.h"

/* Windows over images (N, H, W, C) with weights (O, kernel rows, kernel columns, depth). */
typedef struct {
  int32_t down, right;         /* strides */
  int32_t top, left;           /* pads */
  int32_t far_down, far_right; /* dilations */
  int32_t height, width, channels;
  int32_t kernel_rows, kernel_columns, depth;
  int32_t output_rows, output_columns, outputs;
  int32_t groups;
} npuscope_windows;

/* From Conv2D's numbers: strides, pads (top, left, bottom, right), dilations, groups. */
npuscope_windows npuscope_conv_windows(const npuscope_call *call);

/* The same for TransposeConv's: strides, pads, output pads, dilations, groups. */
npuscope_windows npuscope_transpose_windows(const npuscope_call *call);

/* An output pixel. */
typedef struct {
  int32_t image, row, column;
} npuscope_spot;

npuscope_spot npuscope_spot_of(const npuscope_windows *at, uint32_t output_pixel);

/* The pixel under a tap of a conv's window, or below 0 where that is padding. */
int32_t npuscope_conv_pixel(const npuscope_windows *at, npuscope_spot spot, int32_t row,
                            int32_t column);

/* The pixel that adds to an output pixel of a TransposeConv by a tap, or below 0. */
int32_t npuscope_transpose_pixel(const npuscope_windows *at, npuscope_spot spot, int32_t row,
                                 int32_t column);

/* Where the first channel of a pixel lies that an output channel reads. */
uint32_t npuscope_first_channel(const npuscope_windows *at, int32_t pixel, uint32_t output);

/* Place in `part` of an element of `whole`, by broadcasting; the last `kept` axes of both are left
 * out of both counts. */
uint32_t npuscope_broadcast_place(const npuscope_tensor *part, const npuscope_tensor *whole,
                                  uint32_t index, uint32_t kept);

/* Number of values in the axes before the last `kept`. */
uint32_t npuscope_leading_count(const npuscope_tensor *tensor, uint32_t kept);

/* A product of two matrices: how far apart neighbours lie, and how many terms a sum has. */
typedef struct {
  uint32_t rows, columns, terms;
  uint32_t row_step, term_step_a, term_step_b, column_step;
} npuscope_product;

/* From MatMul's numbers: transpose_a, transpose_b. */
npuscope_product npuscope_product_of(const npuscope_call *call);

#endif
