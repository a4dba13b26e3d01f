/* SPDX-License-Identifier: Apache-2.0 */
#include "layers_rescale.h"

#include "fixed_point.h"
#include "tensor.h"

#define BEYOND 1e9 /* larger than any output, small enough for 32 bits */
#define BELOW_HALF 0.49999999999999994

static uint32_t own_place(const npuscope_tensor *tensor, uint32_t channel) {
  return npuscope_count(tensor) == 1 ? 0 : channel;
}

static int64_t whole_bias(const npuscope_tensor *bias, uint32_t channel) {
  if (bias == NULL)
    return 0;
  uint32_t place = own_place(bias, channel);
  return bias->type == NPUSCOPE_INT64 ? ((const int64_t *)bias->data)[place]
                                      : ((const int32_t *)bias->data)[place];
}

static double real_bias(const npuscope_tensor *bias, uint32_t channel) {
  return bias == NULL ? 0.0 : (double)npuscope_load(bias, own_place(bias, channel));
}

/* Exact: the product of two floats fits a double. */
static double real_unit(const npuscope_layer *layer, uint32_t channel) {
  const npuscope_tensor *weights = layer->weights;
  uint32_t place = weights->axis == NPUSCOPE_WHOLE ? 0 : channel;
  return (double)layer->input->scales[0] * (double)weights->scales[place];
}

static double output_scale(const npuscope_layer *layer) {
  return layer->rule == NPUSCOPE_TO_REAL ? 1.0 : (double)layer->output->scales[0];
}

static void set_fixed(npuscope_channel *made, uint32_t channel) {
  const npuscope_layer *layer = made->layer;
  uint32_t place = layer->channels == 1 ? 0 : channel;
  made->bias = whole_bias(layer->bias, channel);
  made->multiplier = layer->factors[place];
  made->shift = layer->factors[layer->channels + place];
}

static void set_double(npuscope_channel *made, uint32_t channel) {
  double unit = real_unit(made->layer, channel), scale = output_scale(made->layer);
  made->factor = unit / scale;
  if (made->layer->rule == NPUSCOPE_IN_DOUBLE) {
    made->bias = whole_bias(made->layer->bias, channel);
  } else {
    double share = (double)made->fold * unit;
    made->offset = (real_bias(made->layer->bias, channel) + share) / scale;
  }
}

npuscope_channel npuscope_channel_of(const npuscope_layer *layer, uint32_t channel, int64_t fold) {
  npuscope_channel made = {.layer = layer, .fold = fold};
  if (layer->rule == NPUSCOPE_TWICE || layer->rule == NPUSCOPE_REDUCED) {
    set_fixed(&made, channel);
  } else {
    set_double(&made, channel);
  }
  return made;
}

/* C's round(): the addend is the double below a half, so that 0.49999999999999994 stays 0. */
static int64_t rounded_away(double value) {
  if (value > BEYOND)
    return INT32_MAX;
  if (value < -BEYOND)
    return INT32_MIN;
  return (int64_t)(int32_t)(value + (value < 0 ? -BELOW_HALF : BELOW_HALF));
}

static int64_t rounded_to_even(double value) {
  if (value > BEYOND)
    return INT32_MAX;
  if (value < -BEYOND)
    return INT32_MIN;
  int32_t whole = (int32_t)value;
  double rest = value - (double)whole;
  int odd = whole & 1;
  if (rest > 0.5 || (rest == 0.5 && odd))
    return whole + 1;
  if (rest < -0.5 || (rest == -0.5 && odd))
    return whole - 1;
  return whole;
}

static int64_t reduced(int64_t value, int32_t multiplier, int32_t shift) {
  uint64_t product = (uint64_t)value * (uint64_t)(int64_t)multiplier;
  return (int64_t)(product + ((uint64_t)1 << (shift - 1))) >> shift;
}

static double activated(double value, int32_t activation) {
  double low = activation == 3 ? -1.0 : 0.0, high = activation == 3 ? 1.0 : 6.0;
  if (activation == 0)
    return value;
  if (value < low)
    return low;
  return activation != 1 && value > high ? high : value;
}

static int64_t rescaled(const npuscope_channel *channel, int64_t sum) {
  switch (channel->layer->rule) {
  case NPUSCOPE_TWICE:
    return npuscope_scale_twice(sum + channel->bias, channel->multiplier, channel->shift);
  case NPUSCOPE_REDUCED:
    return reduced(sum + channel->bias, channel->multiplier, channel->shift);
  case NPUSCOPE_IN_DOUBLE:
    return rounded_away((double)(sum + channel->bias) * channel->factor);
  default:
    return rounded_to_even((double)(sum - channel->fold) * channel->factor + channel->offset);
  }
}

void npuscope_emit(const npuscope_channel *channel, int64_t sum, uint32_t index) {
  const npuscope_layer *layer = channel->layer;
  if (layer->rule == NPUSCOPE_TO_REAL) {
    double value = (double)(sum - channel->fold) * channel->factor + channel->offset;
    ((float *)layer->output->data)[index] = (float)activated(value, layer->activation);
    return;
  }
  int64_t value = rescaled(channel, sum) + npuscope_zero_point(layer->output);
  npuscope_put_whole(layer->output, index, npuscope_clamp(value, layer->low, layer->high));
}
