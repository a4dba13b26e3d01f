/* SPDX-License-Identifier: Apache-2.0
 * Layers on real values. Every sum starts at 0 and takes its terms in the order of the weights
 * (kernel row, kernel column, channel), padding included; the bias comes last.
 *
 * Inputs: x, weights and, where there is one, the bias. Quantized tensors are read as reals.
 */
#include "layers_place.h"
#include "tensor.h"

static void finish(const npuscope_call *call, float sum, uint32_t index, uint32_t output,
                   int32_t activation) {
  if (call->ninputs > 2) {
    uint32_t place = npuscope_count(&call->inputs[2]) == 1 ? 0 : output;
    sum += npuscope_load(&call->inputs[2], place);
  }
  npuscope_store(&call->outputs[0], index, npuscope_activated(sum, activation));
}

static float add_products(float sum, const npuscope_call *call, uint32_t first_x, uint32_t first_w,
                          uint32_t count) {
  const npuscope_tensor *x = &call->inputs[0], *w = &call->inputs[1];
  for (uint32_t i = 0; i < count; i++)
    sum += npuscope_load(x, first_x + i) * npuscope_load(w, first_w + i);
  return sum;
}

/* Zeros are terms too: with an infinite weight they make NaN. */
static float add_padding(float sum, const npuscope_call *call, uint32_t first_w, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    sum += 0.0f * npuscope_load(&call->inputs[1], first_w + i);
  return sum;
}

static float conv_sum(const npuscope_call *call, const npuscope_windows *at, npuscope_spot spot,
                      uint32_t output) {
  uint32_t depth = (uint32_t)at->depth;
  uint32_t first_w = output * (uint32_t)(at->kernel_rows * at->kernel_columns) * depth;
  float sum = 0.0f;
  for (int32_t row = 0; row < at->kernel_rows; row++) {
    for (int32_t column = 0; column < at->kernel_columns; column++, first_w += depth) {
      int32_t pixel = npuscope_conv_pixel(at, spot, row, column);
      uint32_t first_x = npuscope_first_channel(at, pixel, output);
      sum = pixel < 0 ? add_padding(sum, call, first_w, depth)
                      : add_products(sum, call, first_x, first_w, depth);
    }
  }
  return sum;
}

/* Numbers: strides (2), pads (4: top, left, bottom, right), dilations (2), groups, activation. */
void npuscope_conv2d(const npuscope_call *call) {
  npuscope_windows at = npuscope_conv_windows(call);
  uint32_t pixels = npuscope_leading_count(&call->outputs[0], 1), index = 0;
  for (uint32_t pixel = 0; pixel < pixels; pixel++) {
    npuscope_spot spot = npuscope_spot_of(&at, pixel);
    for (uint32_t output = 0; output < (uint32_t)at.outputs; output++) {
      float sum = conv_sum(call, &at, spot, output);
      finish(call, sum, index++, output, call->numbers[9]);
    }
  }
}

/* Taps that no pixel adds by are no terms. */
static float transpose_sum(const npuscope_call *call, const npuscope_windows *at,
                           npuscope_spot spot, uint32_t output) {
  uint32_t depth = (uint32_t)at->depth;
  uint32_t first_w = output * (uint32_t)(at->kernel_rows * at->kernel_columns) * depth;
  float sum = 0.0f;
  for (int32_t row = 0; row < at->kernel_rows; row++) {
    for (int32_t column = 0; column < at->kernel_columns; column++, first_w += depth) {
      int32_t pixel = npuscope_transpose_pixel(at, spot, row, column);
      uint32_t first_x = npuscope_first_channel(at, pixel, output);
      if (pixel >= 0)
        sum = add_products(sum, call, first_x, first_w, depth);
    }
  }
  return sum;
}

/* Numbers: strides (2), pads (4), output pads (2), dilations (2), groups, activation. */
void npuscope_transpose_conv(const npuscope_call *call) {
  npuscope_windows at = npuscope_transpose_windows(call);
  uint32_t pixels = npuscope_leading_count(&call->outputs[0], 1), index = 0;
  for (uint32_t pixel = 0; pixel < pixels; pixel++) {
    npuscope_spot spot = npuscope_spot_of(&at, pixel);
    for (uint32_t output = 0; output < (uint32_t)at.outputs; output++) {
      float sum = transpose_sum(call, &at, spot, output);
      finish(call, sum, index++, output, call->numbers[11]);
    }
  }
}

/* Numbers: activation. */
void npuscope_fully_connected(const npuscope_call *call) {
  const npuscope_tensor *weights = &call->inputs[1];
  uint32_t outputs = weights->shape[0], depth = weights->shape[1], index = 0;
  uint32_t rows = npuscope_leading_count(&call->outputs[0], 1);
  for (uint32_t row = 0; row < rows; row++) {
    for (uint32_t output = 0; output < outputs; output++) {
      float sum = add_products(0.0f, call, row * depth, output * depth, depth);
      finish(call, sum, index++, output, call->numbers[0]);
    }
  }
}

static float product_sum(const npuscope_call *call, const npuscope_product *at, uint32_t first_a,
                         uint32_t first_b) {
  float sum = 0.0f;
  for (uint32_t i = 0; i < at->terms; i++) {
    float left = npuscope_load(&call->inputs[0], first_a + i * at->term_step_a);
    sum += left * npuscope_load(&call->inputs[1], first_b + i * at->term_step_b);
  }
  return sum;
}

/* Numbers: transpose_a, transpose_b. */
void npuscope_mat_mul(const npuscope_call *call) {
  const npuscope_tensor *y = &call->outputs[0];
  npuscope_product at = npuscope_product_of(call);
  uint32_t batches = npuscope_leading_count(y, 2), index = 0;
  for (uint32_t batch = 0; batch < batches; batch++) {
    uint32_t a = npuscope_broadcast_place(&call->inputs[0], y, batch, 2) * at.rows * at.terms;
    uint32_t b = npuscope_broadcast_place(&call->inputs[1], y, batch, 2) * at.columns * at.terms;
    for (uint32_t row = 0; row < at.rows; row++) {
      for (uint32_t column = 0; column < at.columns; column++) {
        float sum = product_sum(call, &at, a + row * at.row_step, b + column * at.column_step);
        npuscope_store(y, index++, sum);
      }
    }
  }
}
