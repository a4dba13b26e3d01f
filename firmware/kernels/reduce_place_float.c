/* SPDX-License-Identifier: Apache-2.0
 * Where the extremes lie. numbers: axis, (unused), 1 if the last of equal values counts. */
#include "line.h"

/* NaN is an extreme of both kinds, and the first one found stays. */
static int real_beats(float value, float best, int sign) {
  if (best != best)
    return 0;
  return value != value || (sign > 0 ? value > best : value < best);
}

static int beats(const npuscope_tensor *source, uint32_t index, uint32_t best, int sign) {
  if (source->type == NPUSCOPE_FLOAT32)
    return real_beats(npuscope_load(source, index), npuscope_load(source, best), sign);
  if (sign > 0)
    return npuscope_whole(source, index) > npuscope_whole(source, best);
  return npuscope_whole(source, index) < npuscope_whole(source, best);
}

static uint32_t place(const npuscope_tensor *source, const npuscope_lines *lines, uint32_t line,
                      int sign, int from_end) {
  uint32_t start = npuscope_line_start(lines, line);
  uint32_t best = from_end ? lines->length - 1u : 0;
  for (uint32_t k = 1; k < lines->length; k++) {
    uint32_t at = from_end ? lines->length - 1u - k : k;
    if (beats(source, start + at * lines->step, start + best * lines->step, sign))
      best = at;
  }
  return best;
}

static void places(const npuscope_call *call, int sign) {
  npuscope_lines lines = npuscope_lines_of(&call->inputs[0], call->numbers[0]);
  for (uint32_t line = 0; line < lines.lines; line++)
    npuscope_put_whole(&call->outputs[0], line,
                       place(&call->inputs[0], &lines, line, sign, call->numbers[2]));
}

void npuscope_arg_max(const npuscope_call *call) {
  places(call, 1);
}

void npuscope_arg_min(const npuscope_call *call) {
  places(call, -1);
}
