/* SPDX-License-Identifier: Apache-2.0
 * Softmax, its logarithm, and vectors of length 1. numbers: axis. */
#include "line.h"
#include "math_float.h"

static float largest(const npuscope_tensor *source, const npuscope_lines *lines, uint32_t start) {
  float best = -__builtin_inff();
  for (uint32_t k = 0; k < lines->length; k++)
    best = npuscope_larger(best, npuscope_load(source, start + k * lines->step));
  return best;
}

static float power(const npuscope_tensor *source, uint32_t index, float best, float beta) {
  return npuscope_exp_of((npuscope_load(source, index) - best) * beta);
}

/* Powers wait in the output if that keeps their bits, else they are computed again. */
static void softmax_line(const npuscope_call *call, const npuscope_lines *lines, uint32_t start) {
  const npuscope_tensor *source = &call->inputs[0], *made = &call->outputs[0];
  float best = largest(source, lines, start), beta = call->reals[0], sum = 0.0f;
  int kept = made->type == NPUSCOPE_FLOAT32;
  for (uint32_t k = 0; k < lines->length; k++) {
    uint32_t at = start + k * lines->step;
    float value = power(source, at, best, beta);
    sum += value; /* powers are never -0: the 0 that it starts with adds nothing */
    if (kept)
      npuscope_store(made, at, value);
  }
  for (uint32_t k = 0; k < lines->length; k++) {
    uint32_t at = start + k * lines->step;
    float value = kept ? npuscope_load(made, at) : power(source, at, best, beta);
    npuscope_store(made, at, value / sum);
  }
}

/* reals: factor of the values. */
void npuscope_softmax(const npuscope_call *call) {
  npuscope_lines lines = npuscope_lines_of(&call->inputs[0], call->numbers[0]);
  for (uint32_t line = 0; line < lines.lines; line++)
    softmax_line(call, &lines, npuscope_line_start(&lines, line));
}

static void log_softmax_line(const npuscope_call *call, const npuscope_lines *lines,
                             uint32_t start) {
  const npuscope_tensor *source = &call->inputs[0];
  float best = largest(source, lines, start), sum = 0.0f, bottom;
  for (uint32_t k = 0; k < lines->length; k++)
    sum += npuscope_exp_of(npuscope_load(source, start + k * lines->step) - best);
  bottom = npuscope_log_of(sum);
  for (uint32_t k = 0; k < lines->length; k++) {
    uint32_t at = start + k * lines->step;
    npuscope_store(&call->outputs[0], at, npuscope_load(source, at) - best - bottom);
  }
}

void npuscope_log_softmax(const npuscope_call *call) {
  npuscope_lines lines = npuscope_lines_of(&call->inputs[0], call->numbers[0]);
  for (uint32_t line = 0; line < lines.lines; line++)
    log_softmax_line(call, &lines, npuscope_line_start(&lines, line));
}

static void unit_line(const npuscope_call *call, const npuscope_lines *lines, uint32_t start) {
  const npuscope_tensor *source = &call->inputs[0];
  float sum = 0.0f, length;
  for (uint32_t k = 0; k < lines->length; k++) {
    float value = npuscope_load(source, start + k * lines->step);
    sum += value * value;
  }
  length = npuscope_larger(npuscope_sqrt_of(sum), call->reals[0]);
  for (uint32_t k = 0; k < lines->length; k++) {
    uint32_t at = start + k * lines->step;
    npuscope_store(&call->outputs[0], at, npuscope_load(source, at) / length);
  }
}

/* reals: shortest length that is divided by. */
void npuscope_l2_normalization(const npuscope_call *call) {
  npuscope_lines lines = npuscope_lines_of(&call->inputs[0], call->numbers[0]);
  for (uint32_t line = 0; line < lines.lines; line++)
    unit_line(call, &lines, npuscope_line_start(&lines, line));
}
