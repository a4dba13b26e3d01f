/* SPDX-License-Identifier: Apache-2.0
 * Layers on whole numbers: exact sums, then the rule of layers_rescale.h.
 *
 * Inputs: x, weights, the bias where there is one, and, for rules with multipliers, the array of
 * all multipliers and then all shifts. The last numbers of each are the same, written "rule..."
 * below: rule, lowest output, highest output, has a bias, activation.
 */
#include "fixed_point.h"
#include "layers_place.h"
#include "layers_rescale.h"
#include "tensor.h"

#define LONGEST 16384 /* terms of 255 * 255 that 32 bits hold */

static npuscope_layer layer_of(const npuscope_call *call, const int32_t *rule) {
  npuscope_layer layer = {
      .input = &call->inputs[0], .weights = &call->inputs[1], .output = &call->outputs[0]};
  layer.rule = (npuscope_rule)rule[0];
  layer.low = rule[1], layer.high = rule[2];
  layer.bias = rule[3] ? &call->inputs[2] : NULL;
  layer.activation = rule[4];
  if (layer.rule == NPUSCOPE_TWICE || layer.rule == NPUSCOPE_REDUCED) {
    const npuscope_tensor *factors = &call->inputs[call->ninputs - 1];
    layer.factors = factors->data, layer.channels = factors->shape[1];
  }
  return layer;
}

static int32_t weight_zero(const npuscope_tensor *weights, uint32_t channel) {
  return weights->zero_points[weights->axis == NPUSCOPE_WHOLE ? 0 : channel];
}

/* The sum of (x - zero_x) * (w - zero_w), from three sums of raw values: plain loops that
 * compilers turn into vector code. */
#define DOT(name, type_x, type_w)                                                     \
  static int64_t name(const type_x *x, const type_w *w, int32_t count, int32_t zero_x, \
                      int32_t zero_w) {                                               \
    int32_t products = 0, all_x = 0, all_w = 0;                                       \
    for (int32_t i = 0; i < count; i++) {                                             \
      products += x[i] * w[i];                                                        \
      all_x += x[i];                                                                  \
      all_w += w[i];                                                                  \
    }                                                                                 \
    int64_t outside = (int64_t)all_x * zero_w + (int64_t)all_w * zero_x;              \
    return products - outside + (int64_t)zero_x * zero_w * count;                     \
  }
DOT(dot_ss, int8_t, int8_t)
DOT(dot_su, int8_t, uint8_t)
DOT(dot_us, uint8_t, int8_t)
DOT(dot_uu, uint8_t, uint8_t)

/* A run of values of x and of the weights. */
typedef struct {
  const npuscope_tensor *x, *w;
  uint32_t first_x, first_w;
  int32_t count, zero_x, zero_w;
} run;

static int64_t dot_of_bytes(run at) {
  const uint8_t *x = (const uint8_t *)at.x->data + at.first_x;
  const uint8_t *w = (const uint8_t *)at.w->data + at.first_w;
  if (at.x->type == NPUSCOPE_INT8) {
    const int8_t *signed_x = (const int8_t *)x;
    return at.w->type == NPUSCOPE_INT8
               ? dot_ss(signed_x, (const int8_t *)w, at.count, at.zero_x, at.zero_w)
               : dot_su(signed_x, w, at.count, at.zero_x, at.zero_w);
  }
  return at.w->type == NPUSCOPE_INT8
             ? dot_us(x, (const int8_t *)w, at.count, at.zero_x, at.zero_w)
             : dot_uu(x, w, at.count, at.zero_x, at.zero_w);
}

static int64_t dot_of_any(run at) {
  int64_t sum = 0;
  for (int32_t i = 0; i < at.count; i++) {
    int64_t x = npuscope_raw(at.x, at.first_x + (uint32_t)i) - (int64_t)at.zero_x;
    sum += x * (npuscope_raw(at.w, at.first_w + (uint32_t)i) - (int64_t)at.zero_w);
  }
  return sum;
}

static int is_byte(const npuscope_tensor *tensor) {
  return tensor->type == NPUSCOPE_INT8 || tensor->type == NPUSCOPE_UINT8;
}

static int64_t dot(run at) {
  if (!is_byte(at.x) || !is_byte(at.w))
    return dot_of_any(at);
  int64_t sum = 0;
  int32_t left = at.count;
  for (; left > LONGEST; left -= LONGEST, at.first_x += LONGEST, at.first_w += LONGEST) {
    at.count = LONGEST;
    sum += dot_of_bytes(at);
  }
  at.count = left;
  return sum + dot_of_bytes(at);
}

/* Minus the input's zero point times the sum of an output channel's weights. */
static int64_t fold_of(const npuscope_layer *layer, uint32_t channel, uint32_t terms) {
  int64_t total = 0, zero = weight_zero(layer->weights, channel);
  if (!npuscope_folds(layer))
    return 0;
  for (uint32_t i = 0; i < terms; i++) {
    total += npuscope_raw(layer->weights, channel * terms + i) - zero;
  }
  return -npuscope_zero_point(layer->input) * total;
}

typedef int32_t pixel_under(const npuscope_windows *at, npuscope_spot spot, int32_t row,
                            int32_t column);

/* One output value: the taps of its window; padding is 0 once the zero point is taken off. */
static int64_t window_sum(const npuscope_layer *layer, const npuscope_windows *at,
                          pixel_under *pixel_of, npuscope_spot spot, uint32_t output) {
  run part = {.x = layer->input, .w = layer->weights, .count = at->depth};
  part.zero_x = npuscope_zero_point(layer->input);
  part.zero_w = weight_zero(layer->weights, output);
  part.first_w = output * (uint32_t)(at->kernel_rows * at->kernel_columns * at->depth);
  int64_t sum = 0;
  for (int32_t row = 0; row < at->kernel_rows; row++) {
    for (int32_t column = 0; column < at->kernel_columns; column++) {
      int32_t pixel = pixel_of(at, spot, row, column);
      part.first_x = npuscope_first_channel(at, pixel, output);
      if (pixel >= 0)
        sum += dot(part);
      part.first_w += (uint32_t)at->depth;
    }
  }
  return sum;
}

static void window_layer(const npuscope_layer *layer, const npuscope_windows *at,
                         pixel_under *pixel_of, int64_t fold, uint32_t output) {
  uint32_t pixels = npuscope_leading_count(layer->output, 1);
  npuscope_channel channel = npuscope_channel_of(layer, output, fold);
  for (uint32_t pixel = 0; pixel < pixels; pixel++) {
    int64_t sum = window_sum(layer, at, pixel_of, npuscope_spot_of(at, pixel), output);
    npuscope_emit(&channel, sum, pixel * (uint32_t)at->outputs + output);
  }
}

/* Numbers: strides (2), pads (4), dilations (2), groups, rule... */
void npuscope_conv2d_integer(const npuscope_call *call) {
  npuscope_layer layer = layer_of(call, call->numbers + 9);
  npuscope_windows at = npuscope_conv_windows(call);
  uint32_t terms = (uint32_t)(at.kernel_rows * at.kernel_columns * at.depth);
  for (uint32_t output = 0; output < (uint32_t)at.outputs; output++) {
    window_layer(&layer, &at, npuscope_conv_pixel, fold_of(&layer, output, terms), output);
  }
}

/* Numbers: strides (2), pads (4), output pads (2), dilations (2), groups, rule... Not all taps
 * exist at the borders, so nothing is folded. */
void npuscope_transpose_conv_integer(const npuscope_call *call) {
  npuscope_layer layer = layer_of(call, call->numbers + 11);
  npuscope_windows at = npuscope_transpose_windows(call);
  for (uint32_t output = 0; output < (uint32_t)at.outputs; output++) {
    window_layer(&layer, &at, npuscope_transpose_pixel, 0, output);
  }
}

/* Numbers: rule... */
void npuscope_fully_connected_integer(const npuscope_call *call) {
  npuscope_layer layer = layer_of(call, call->numbers);
  uint32_t outputs = layer.weights->shape[0], depth = layer.weights->shape[1];
  uint32_t rows = npuscope_leading_count(layer.output, 1);
  run part = {.x = layer.input, .w = layer.weights, .count = (int32_t)depth};
  part.zero_x = npuscope_zero_point(layer.input);
  for (uint32_t output = 0; output < outputs; output++) {
    npuscope_channel channel = npuscope_channel_of(&layer, output, fold_of(&layer, output, depth));
    part.first_w = output * depth, part.zero_w = weight_zero(layer.weights, output);
    for (uint32_t row = 0; row < rows; row++) {
      part.first_x = row * depth;
      npuscope_emit(&channel, dot(part), row * outputs + output);
    }
  }
}

static int64_t product_sum(const npuscope_call *call, const npuscope_product *at, uint32_t first_a,
                           uint32_t first_b) {
  const npuscope_tensor *a = &call->inputs[0], *b = &call->inputs[1];
  int64_t zero_a = npuscope_zero_point(a), zero_b = npuscope_zero_point(b), sum = 0;
  for (uint32_t i = 0; i < at->terms; i++) {
    int64_t left = npuscope_raw(a, first_a + i * at->term_step_a) - zero_a;
    sum += left * (npuscope_raw(b, first_b + i * at->term_step_b) - zero_b);
  }
  return sum;
}

/* Numbers: transpose_a, transpose_b, rule... */
void npuscope_mat_mul_integer(const npuscope_call *call) {
  npuscope_layer layer = layer_of(call, call->numbers + 2);
  npuscope_product at = npuscope_product_of(call);
  npuscope_channel all = npuscope_channel_of(&layer, 0, 0);
  uint32_t batches = npuscope_leading_count(layer.output, 2), index = 0;
  for (uint32_t batch = 0; batch < batches; batch++) {
    uint32_t a = npuscope_broadcast_place(layer.input, layer.output, batch, 2);
    uint32_t b = npuscope_broadcast_place(layer.weights, layer.output, batch, 2);
    a *= at.rows * at.terms, b *= at.columns * at.terms;
    for (uint32_t row = 0; row < at.rows; row++) {
      for (uint32_t column = 0; column < at.columns; column++) {
        int64_t sum = product_sum(call, &at, a + row * at.row_step, b + column * at.column_step);
        npuscope_emit(&all, sum, index++);
      }
    }
  }
}
