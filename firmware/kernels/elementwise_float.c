/* SPDX-License-Identifier: Apache-2.0
 * Ops of two operands with broadcasting.
 * numbers: the fused activation. Whole operands without scales have none. */
#include "math_float.h"
#include "path.h"

typedef float real_function(float a, float b);
typedef int64_t whole_function(int64_t a, int64_t b);

static void real_values(const npuscope_call *call, real_function *function, int32_t activation) {
  const npuscope_tensor *a = &call->inputs[0], *b = &call->inputs[1], *made = &call->outputs[0];
  uint32_t count = npuscope_count(made);
  npuscope_path left, right;
  npuscope_broadcast(&left, a, made);
  npuscope_broadcast(&right, b, made);
  for (uint32_t i = 0; i < count; i++) {
    float value = function(npuscope_load(a, left.offset), npuscope_load(b, right.offset));
    npuscope_store(made, i, npuscope_activated(value, activation));
    npuscope_next(&left);
    npuscope_next(&right);
  }
}

static void whole_values(const npuscope_call *call, whole_function *function) {
  const npuscope_tensor *a = &call->inputs[0], *b = &call->inputs[1], *made = &call->outputs[0];
  uint32_t count = npuscope_count(made);
  npuscope_path left, right;
  npuscope_broadcast(&left, a, made);
  npuscope_broadcast(&right, b, made);
  for (uint32_t i = 0; i < count; i++) {
    int64_t value = function(npuscope_whole(a, left.offset), npuscope_whole(b, right.offset));
    npuscope_put_whole(made, i, value);
    npuscope_next(&left);
    npuscope_next(&right);
  }
}

static void arithmetic(const npuscope_call *call, real_function *real, whole_function *whole) {
  if (npuscope_is_whole(&call->inputs[0]))
    whole_values(call, whole);
  else
    real_values(call, real, call->numbers[0]);
}

static float real_add(float a, float b) {
  return a + b;
}

static float real_sub(float a, float b) {
  return a - b;
}

static float real_mul(float a, float b) {
  return a * b;
}

static float real_div(float a, float b) {
  return a / b;
}

static float real_squared_difference(float a, float b) {
  return (a - b) * (a - b);
}

static float real_prelu(float x, float slope) {
  return x >= 0.0f ? x : x * slope;
}

/* Whole numbers wrap around at the end of their type, which only unsigned ones do in C. */
static int64_t whole_add(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t whole_sub(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t whole_mul(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* Towards zero; nothing divides by 0, and the lowest number has no opposite. */
static int64_t whole_div(int64_t a, int64_t b) {
  if (b == 0)
    return 0;
  return b == -1 ? whole_sub(0, a) : a / b;
}

static int64_t whole_smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static int64_t whole_larger(int64_t a, int64_t b) {
  return a > b ? a : b;
}

static int64_t whole_squared_difference(int64_t a, int64_t b) {
  return whole_mul(whole_sub(a, b), whole_sub(a, b));
}

void npuscope_add(const npuscope_call *call) {
  arithmetic(call, real_add, whole_add);
}

void npuscope_sub(const npuscope_call *call) {
  arithmetic(call, real_sub, whole_sub);
}

void npuscope_mul(const npuscope_call *call) {
  arithmetic(call, real_mul, whole_mul);
}

void npuscope_div(const npuscope_call *call) {
  arithmetic(call, real_div, whole_div);
}

void npuscope_min(const npuscope_call *call) {
  arithmetic(call, npuscope_smaller, whole_smaller);
}

void npuscope_max(const npuscope_call *call) {
  arithmetic(call, npuscope_larger, whole_larger);
}

void npuscope_squared_difference(const npuscope_call *call) {
  arithmetic(call, real_squared_difference, whole_squared_difference);
}

/* Real values only. */
void npuscope_pow(const npuscope_call *call) {
  real_values(call, npuscope_power_of, call->numbers[0]);
}

/* Real values only; no numbers. */
void npuscope_prelu(const npuscope_call *call) {
  real_values(call, real_prelu, 0);
}
