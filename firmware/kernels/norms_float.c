/* SPDX-License-Identifier: Apache-2.0
 * Normalizations by mean and variance. */
#include "math_float.h"
#include "path.h"

/* The values that share a mean: rows of neighbours, summed row after row. */
typedef struct {
  uint32_t start, rows, columns, row_step;
} block;

typedef struct {
  float mean, deviation;
} spread;

static float block_mean(const npuscope_tensor *x, const block *of) {
  float sum = 0.0f;
  for (uint32_t row = 0; row < of->rows; row++)
    for (uint32_t column = 0; column < of->columns; column++) {
      float value = npuscope_load(x, of->start + row * of->row_step + column);
      sum = row == 0 && column == 0 ? value : sum + value;
    }
  return sum / (float)(of->rows * of->columns);
}

static float block_variance(const npuscope_tensor *x, const block *of, float mean) {
  float sum = 0.0f; /* squares are never -0: it adds nothing to the first */
  for (uint32_t row = 0; row < of->rows; row++)
    for (uint32_t column = 0; column < of->columns; column++) {
      float below = npuscope_load(x, of->start + row * of->row_step + column) - mean;
      sum += below * below;
    }
  return sum / (float)(of->rows * of->columns);
}

static spread block_spread(const npuscope_tensor *x, const block *of, float epsilon) {
  spread found;
  found.mean = block_mean(x, of);
  found.deviation = npuscope_sqrt_of(block_variance(x, of, found.mean) + epsilon);
  return found;
}

static float normalized(const npuscope_tensor *x, uint32_t index, const spread *by) {
  return (npuscope_load(x, index) - by->mean) / by->deviation;
}

/* Scale and bias are both optional; their paths run on from block to block. */
static void layer_block(const npuscope_call *call, const block *of, npuscope_path *paths) {
  spread by = block_spread(&call->inputs[0], of, call->reals[0]);
  for (uint32_t column = 0; column < of->columns; column++) {
    float value = normalized(&call->inputs[0], of->start + column, &by);
    if (call->ninputs > 1)
      value = value * npuscope_load(&call->inputs[1], paths[0].offset);
    if (call->ninputs > 2)
      value = value + npuscope_load(&call->inputs[2], paths[1].offset);
    npuscope_store(&call->outputs[0], of->start + column, value);
    for (int k = 1; k < call->ninputs; k++)
      npuscope_next(&paths[k - 1]);
  }
}

/* Inputs: x, scale, bias. numbers: first axis. reals: epsilon. */
void npuscope_layer_norm(const npuscope_call *call) {
  const npuscope_tensor *x = &call->inputs[0];
  uint32_t axis = (uint32_t)(call->numbers[0] < 0 ? call->numbers[0] + x->rank : call->numbers[0]);
  uint32_t blocks = npuscope_extent(x, 0, axis);
  block of = {0, 1, npuscope_extent(x, axis, x->rank), 0};
  npuscope_path paths[2];
  for (int k = 1; k < call->ninputs; k++)
    npuscope_broadcast(&paths[k - 1], &call->inputs[k], x);
  for (uint32_t i = 0; i < blocks; i++, of.start += of.columns)
    layer_block(call, &of, paths);
}

/* Scale and bias are of the channel. */
static void channel_block(const npuscope_call *call, const block *of) {
  uint32_t first = of->start % of->row_step;
  spread by = block_spread(&call->inputs[0], of, call->reals[0]);
  for (uint32_t row = 0; row < of->rows; row++)
    for (uint32_t column = 0; column < of->columns; column++) {
      uint32_t at = of->start + row * of->row_step + column;
      float value = normalized(&call->inputs[0], at, &by);
      value = value * npuscope_load(&call->inputs[1], first + column);
      npuscope_store(&call->outputs[0], at,
                     value + npuscope_load(&call->inputs[2], first + column));
    }
}

static void group_norm(const npuscope_call *call, uint32_t groups) {
  const npuscope_tensor *x = &call->inputs[0];
  uint32_t channels = x->shape[x->rank - 1], places = npuscope_extent(x, 1, x->rank - 1u);
  block of = {0, places, groups ? channels / groups : 0, channels};
  for (uint32_t image = 0; image < x->shape[0]; image++)
    for (uint32_t group = 0; group < groups; group++) {
      of.start = image * places * channels + group * of.columns;
      channel_block(call, &of);
    }
}

/* Inputs: x, scale, bias. reals: epsilon. */
void npuscope_instance_norm(const npuscope_call *call) {
  const npuscope_tensor *x = &call->inputs[0];
  group_norm(call, x->shape[x->rank - 1]);
}

/* The same; numbers: groups of channels. */
void npuscope_group_norm(const npuscope_call *call) {
  group_norm(call, (uint32_t)call->numbers[0]);
}

/* Inputs: x, scale, bias, mean, variance. numbers: fused activation. reals: epsilon. */
void npuscope_batch_norm(const npuscope_call *call) {
  const npuscope_tensor *in = call->inputs;
  uint32_t count = npuscope_count(&in[0]), channels = npuscope_count(&in[1]);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t channel = i % channels;
    float variance = npuscope_load(&in[4], channel) + call->reals[0];
    float factor = npuscope_load(&in[1], channel) / npuscope_sqrt_of(variance);
    float value = (npuscope_load(&in[0], i) - npuscope_load(&in[3], channel)) * factor;
    value = value + npuscope_load(&in[2], channel);
    npuscope_store(&call->outputs[0], i, npuscope_activated(value, call->numbers[0]));
  }
}
