/* SPDX-License-Identifier: Apache-2.0 */
#include "fixed_point.h"
#include "tensor.h"

/* Whole numbers of one scale to those of another. Numbers: mantissa and shift of the ratio of the
 * scales, lowest and highest output. */
void npuscope_requantize(const npuscope_call *call) {
  const npuscope_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  const int32_t *given = call->numbers;
  int64_t zero_x = npuscope_zero_point(x), zero_y = npuscope_zero_point(y);
  uint32_t count = npuscope_count(x);
  for (uint32_t i = 0; i < count; i++) {
    int64_t value = npuscope_scale_twice(npuscope_raw(x, i) - zero_x, given[0], given[1]);
    npuscope_put_whole(y, i, npuscope_clamp(value + zero_y, given[2], given[3]));
  }
}
