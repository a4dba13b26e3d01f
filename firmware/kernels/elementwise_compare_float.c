/* SPDX-License-Identifier: Apache-2.0
 * Comparisons, logic and choice, with broadcasting. No numbers. Truth is 1, the rest is 0. */
#include "path.h"

/* What two values can be to each other; NaN is nothing to anybody. */
enum { BELOW = 1, SAME = 2, ABOVE = 4, UNORDERED = 8 };

static int real_order(float a, float b) {
  return a < b ? BELOW : a > b ? ABOVE : a == b ? SAME : UNORDERED;
}

static int whole_order(int64_t a, int64_t b) {
  return a < b ? BELOW : a > b ? ABOVE : SAME;
}

static int order(const npuscope_tensor *a, uint32_t i, const npuscope_tensor *b, uint32_t j) {
  if (npuscope_is_whole(a))
    return whole_order(npuscope_whole(a, i), npuscope_whole(b, j));
  return real_order(npuscope_load(a, i), npuscope_load(b, j));
}

static void comparison(const npuscope_call *call, int wanted) {
  const npuscope_tensor *a = &call->inputs[0], *b = &call->inputs[1], *made = &call->outputs[0];
  uint32_t count = npuscope_count(made);
  npuscope_path left, right;
  npuscope_broadcast(&left, a, made);
  npuscope_broadcast(&right, b, made);
  for (uint32_t i = 0; i < count; i++) {
    npuscope_put_whole(made, i, (order(a, left.offset, b, right.offset) & wanted) != 0);
    npuscope_next(&left);
    npuscope_next(&right);
  }
}

void npuscope_equal(const npuscope_call *call) {
  comparison(call, SAME);
}

void npuscope_not_equal(const npuscope_call *call) {
  comparison(call, BELOW | ABOVE | UNORDERED);
}

void npuscope_greater(const npuscope_call *call) {
  comparison(call, ABOVE);
}

void npuscope_greater_equal(const npuscope_call *call) {
  comparison(call, ABOVE | SAME);
}

void npuscope_less(const npuscope_call *call) {
  comparison(call, BELOW);
}

void npuscope_less_equal(const npuscope_call *call) {
  comparison(call, BELOW | SAME);
}

static int truth(const npuscope_tensor *tensor, uint32_t index) {
  if (tensor->type == NPUSCOPE_FLOAT32)
    return npuscope_load(tensor, index) != 0.0f;
  return npuscope_whole(tensor, index) != 0;
}

/* How many of the two must be true at least. */
static void logic(const npuscope_call *call, int enough) {
  const npuscope_tensor *a = &call->inputs[0], *b = &call->inputs[1], *made = &call->outputs[0];
  uint32_t count = npuscope_count(made);
  npuscope_path left, right;
  npuscope_broadcast(&left, a, made);
  npuscope_broadcast(&right, b, made);
  for (uint32_t i = 0; i < count; i++) {
    npuscope_put_whole(made, i, truth(a, left.offset) + truth(b, right.offset) >= enough);
    npuscope_next(&left);
    npuscope_next(&right);
  }
}

void npuscope_and(const npuscope_call *call) {
  logic(call, 2);
}

void npuscope_or(const npuscope_call *call) {
  logic(call, 1);
}

void npuscope_not(const npuscope_call *call) {
  uint32_t count = npuscope_count(&call->outputs[0]);
  for (uint32_t i = 0; i < count; i++)
    npuscope_put_whole(&call->outputs[0], i, !truth(&call->inputs[0], i));
}

static void copy_value(const npuscope_tensor *made, uint32_t i, const npuscope_tensor *source,
                       uint32_t j) {
  if (npuscope_is_whole(source))
    npuscope_put_whole(made, i, npuscope_whole(source, j));
  else
    npuscope_store(made, i, npuscope_load(source, j));
}

/* Inputs: condition, value where true, value where false. */
void npuscope_where(const npuscope_call *call) {
  const npuscope_tensor *in = call->inputs, *made = &call->outputs[0];
  uint32_t count = npuscope_count(made);
  npuscope_path paths[3];
  for (int k = 0; k < 3; k++)
    npuscope_broadcast(&paths[k], &in[k], made);
  for (uint32_t i = 0; i < count; i++) {
    int chosen = truth(&in[0], paths[0].offset) ? 1 : 2;
    copy_value(made, i, &in[chosen], paths[chosen].offset);
    for (int k = 0; k < 3; k++)
      npuscope_next(&paths[k]);
  }
}
