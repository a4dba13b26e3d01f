/* SPDX-License-Identifier: Apache-2.0
 * Functions of one value. reals: the function's own constants, where it has some. */
#include "math_float.h"
#include "tensor.h"

typedef float function(float x, const npuscope_call *call);
typedef int64_t whole_function(int64_t x);

static void each(const npuscope_call *call, function *of) {
  uint32_t count = npuscope_count(&call->outputs[0]);
  for (uint32_t i = 0; i < count; i++)
    npuscope_store(&call->outputs[0], i, of(npuscope_load(&call->inputs[0], i), call));
}

/* Functions that whole numbers without scales have too. */
static void each_of(const npuscope_call *call, function *real, whole_function *whole) {
  const npuscope_tensor *source = &call->inputs[0];
  uint32_t count = npuscope_count(source);
  if (!npuscope_is_whole(source)) {
    each(call, real);
    return;
  }
  for (uint32_t i = 0; i < count; i++)
    npuscope_put_whole(&call->outputs[0], i, whole(npuscope_whole(source, i)));
}

/* A kernel of a function that has no constants. */
#define KERNEL(name, expression)                                                                   \
  static float name##_value(float x, const npuscope_call *call) {                                  \
    (void)call;                                                                                    \
    return expression;                                                                             \
  }                                                                                                \
  void npuscope_##name(const npuscope_call *call) {                                                \
    each(call, name##_value);                                                                      \
  }

static float sigmoid_of(float x) {
  float power = npuscope_exp_of(-npuscope_absolute(x)); /* never overflows */
  return x >= 0.0f ? 1.0f / (1.0f + power) : power / (1.0f + power);
}

static float hard_swish_of(float x) {
  return x * npuscope_clamped(x * (1.0f / 6.0f) + 0.5f, 0.0f, 1.0f);
}

static float softplus_of(float x) {
  float power = npuscope_exp_of(-npuscope_absolute(x));
  return npuscope_log1p_fraction_of(power) + npuscope_larger(x, 0.0f);
}

KERNEL(sigmoid, sigmoid_of(x))
KERNEL(tanh, npuscope_tanh_of(x))
KERNEL(hard_swish, hard_swish_of(x))
KERNEL(softplus, softplus_of(x))
KERNEL(mish, x *npuscope_tanh_of(softplus_of(x)))
KERNEL(softsign, x / (1.0f + npuscope_absolute(x)))
KERNEL(erf, npuscope_erf_of(x))
KERNEL(floor, npuscope_floored(x))
KERNEL(ceil, npuscope_ceiled(x))
KERNEL(round, npuscope_round_even(x))
KERNEL(sqrt, npuscope_sqrt_of(x))
KERNEL(rsqrt, 1.0f / npuscope_sqrt_of(x))
KERNEL(reciprocal, 1.0f / x)
KERNEL(exp, npuscope_exp_of(x))
KERNEL(log, npuscope_log_of(x))
KERNEL(sin, npuscope_sin_of(x))
KERNEL(cos, npuscope_cos_of(x))
KERNEL(tan, npuscope_tan_of(x))
KERNEL(asin, npuscope_asin_of(x))
KERNEL(acos, npuscope_acos_of(x))
KERNEL(atan, npuscope_atan_of(x))
KERNEL(sinh, npuscope_sinh_of(x))
KERNEL(cosh, npuscope_cosh_of(x))
KERNEL(asinh, npuscope_asinh_of(x))
KERNEL(acosh, npuscope_acosh_of(x))
KERNEL(atanh, npuscope_atanh_of(x))

static float absolute_value(float x, const npuscope_call *call) {
  (void)call;
  return npuscope_absolute(x);
}

static float negative_value(float x, const npuscope_call *call) {
  (void)call;
  return -x;
}

static float sign_value(float x, const npuscope_call *call) {
  (void)call;
  return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? 0.0f : x;
}

static float square_value(float x, const npuscope_call *call) {
  (void)call;
  return x * x;
}

/* The lowest number has no opposite: it stays, as in two's complement. */
static int64_t whole_negative(int64_t x) {
  return (int64_t)(0u - (uint64_t)x);
}

static int64_t whole_absolute(int64_t x) {
  return x < 0 ? whole_negative(x) : x;
}

static int64_t whole_sign(int64_t x) {
  return (x > 0) - (x < 0);
}

static int64_t whole_square(int64_t x) {
  return (int64_t)((uint64_t)x * (uint64_t)x);
}

void npuscope_abs(const npuscope_call *call) {
  each_of(call, absolute_value, whole_absolute);
}

void npuscope_neg(const npuscope_call *call) {
  each_of(call, negative_value, whole_negative);
}

void npuscope_sign(const npuscope_call *call) {
  each_of(call, sign_value, whole_sign);
}

void npuscope_square(const npuscope_call *call) {
  each_of(call, square_value, whole_square);
}

static float leaky_value(float x, const npuscope_call *call) {
  return x >= 0.0f ? x : call->reals[0] * x;
}

static float elu_value(float x, const npuscope_call *call) {
  return x >= 0.0f ? x : call->reals[0] * npuscope_expm1_below_of(x);
}

static float hard_sigmoid_value(float x, const npuscope_call *call) {
  return npuscope_clamped(call->reals[0] * x + call->reals[1], 0.0f, 1.0f);
}

static float selu_value(float x, const npuscope_call *call) {
  return call->reals[1] * (x > 0.0f ? x : call->reals[0] * npuscope_expm1_below_of(x));
}

static float celu_value(float x, const npuscope_call *call) {
  float alpha = call->reals[0];
  return x >= 0.0f ? x : alpha * npuscope_expm1_below_of(x / alpha);
}

static float thresholded_value(float x, const npuscope_call *call) {
  return x > call->reals[0] ? x : 0.0f;
}

static float shrink_value(float x, const npuscope_call *call) {
  float bias = call->reals[0], limit = call->reals[1];
  return x < -limit ? x + bias : x > limit ? x - bias : 0.0f;
}

/* reals: slope below 0. */
void npuscope_leaky_relu(const npuscope_call *call) {
  each(call, leaky_value);
}

/* reals: factor of exp(x) - 1 below 0. */
void npuscope_elu(const npuscope_call *call) {
  each(call, elu_value);
}

/* reals: factor of exp(x) - 1 below 0, factor of all. */
void npuscope_selu(const npuscope_call *call) {
  each(call, selu_value);
}

/* reals: factor of exp(x / factor) - 1 below 0. */
void npuscope_celu(const npuscope_call *call) {
  each(call, celu_value);
}

/* reals: what is above it stays. */
void npuscope_thresholded_relu(const npuscope_call *call) {
  each(call, thresholded_value);
}

/* reals: bias, limit. */
void npuscope_shrink(const npuscope_call *call) {
  each(call, shrink_value);
}

/* reals: slope, value at 0. */
void npuscope_hard_sigmoid(const npuscope_call *call) {
  each(call, hard_sigmoid_value);
}

static float gelu_by_tanh(float x) {
  float inner = 0.7978846f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + npuscope_tanh_of(inner));
}

static float gelu_value(float x, const npuscope_call *call) {
  if (call->numbers[0])
    return gelu_by_tanh(x);
  return 0.5f * x * (1.0f + npuscope_erf_of(x * 0.70710677f));
}

/* numbers: 1 for the formula with tanh. */
void npuscope_gelu(const npuscope_call *call) {
  each(call, gelu_value);
}
