/* SPDX-License-Identifier: Apache-2.0
 * Reductions over any axes. numbers: one bit for each axis that is reduced, the first axis lowest.
 * Terms are combined in memory order, beginning with the first one. */
#include "math_float.h"
#include "path.h"

typedef float real_function(float so_far, float term);
typedef int64_t whole_function(int64_t so_far, int64_t term);

typedef struct {
  npuscope_path kept, terms;
} reduction;

static void begin(reduction *way, const npuscope_call *call) {
  uint32_t axes = (uint32_t)call->numbers[0];
  npuscope_along(&way->terms, &call->inputs[0], axes);
  npuscope_along(&way->kept, &call->inputs[0], ~axes);
}

/* One result; `none` is what no terms at all make. */
static float real_result(const npuscope_tensor *source, reduction *way, real_function *combine,
                         float none) {
  float result = none;
  for (uint32_t k = 0; k < way->terms.count; k++) {
    float term = npuscope_load(source, way->kept.offset + way->terms.offset);
    result = k == 0 ? term : combine(result, term);
    npuscope_next(&way->terms);
  }
  return result;
}

static int64_t whole_result(const npuscope_tensor *source, reduction *way, whole_function *combine,
                            int64_t none) {
  int64_t result = none;
  for (uint32_t k = 0; k < way->terms.count; k++) {
    int64_t term = npuscope_whole(source, way->kept.offset + way->terms.offset);
    result = k == 0 ? term : combine(result, term);
    npuscope_next(&way->terms);
  }
  return result;
}

static void reduce(const npuscope_call *call, real_function *real, whole_function *whole,
                   int none) {
  const npuscope_tensor *source = &call->inputs[0], *made = &call->outputs[0];
  uint32_t count = npuscope_count(made);
  reduction way;
  begin(&way, call);
  for (uint32_t i = 0; i < count; i++) {
    if (npuscope_is_whole(source))
      npuscope_put_whole(made, i, whole_result(source, &way, whole, none));
    else
      npuscope_store(made, i, real_result(source, &way, real, (float)none));
    npuscope_next(&way.kept);
  }
}

static float real_sum(float so_far, float term) {
  return so_far + term;
}

static float real_product(float so_far, float term) {
  return so_far * term;
}

static int64_t whole_sum(int64_t so_far, int64_t term) {
  return (int64_t)((uint64_t)so_far + (uint64_t)term);
}

static int64_t whole_product(int64_t so_far, int64_t term) {
  return (int64_t)((uint64_t)so_far * (uint64_t)term);
}

void npuscope_reduce_sum(const npuscope_call *call) {
  reduce(call, real_sum, whole_sum, 0);
}

void npuscope_reduce_prod(const npuscope_call *call) {
  reduce(call, real_product, whole_product, 1);
}

/* Real values only. */
void npuscope_mean(const npuscope_call *call) {
  uint32_t count = npuscope_count(&call->outputs[0]);
  reduction way;
  begin(&way, call);
  for (uint32_t i = 0; i < count; i++) {
    float sum = real_result(&call->inputs[0], &way, real_sum, 0.0f);
    npuscope_store(&call->outputs[0], i, sum / (float)way.terms.count);
    npuscope_next(&way.kept);
  }
}

static float square_sum(const npuscope_tensor *source, reduction *way) {
  float sum = 0.0f; /* a square is never -0, so this adds nothing */
  for (uint32_t k = 0; k < way->terms.count; k++) {
    float term = npuscope_load(source, way->kept.offset + way->terms.offset);
    sum += term * term;
    npuscope_next(&way->terms);
  }
  return sum;
}

/* Real values only. */
void npuscope_reduce_l2(const npuscope_call *call) {
  uint32_t count = npuscope_count(&call->outputs[0]);
  reduction way;
  begin(&way, call);
  for (uint32_t i = 0; i < count; i++) {
    npuscope_store(&call->outputs[0], i,
                   npuscope_sqrt_of(square_sum(&call->inputs[0], &way)));
    npuscope_next(&way.kept);
  }
}

/* Without -0, of one term too. */
static void extreme(const npuscope_call *call, int sign) {
  const npuscope_tensor *source = &call->inputs[0];
  uint32_t count = npuscope_count(&call->outputs[0]);
  reduction way;
  begin(&way, call);
  for (uint32_t i = 0; i < count; i++) {
    float value = real_result(source, &way, sign > 0 ? npuscope_larger : npuscope_smaller, 0.0f);
    npuscope_store(&call->outputs[0], i, value + 0.0f);
    npuscope_next(&way.kept);
  }
}

static int64_t whole_larger(int64_t so_far, int64_t term) {
  return so_far > term ? so_far : term;
}

static int64_t whole_smaller(int64_t so_far, int64_t term) {
  return so_far < term ? so_far : term;
}

void npuscope_reduce_max(const npuscope_call *call) {
  if (npuscope_is_whole(&call->inputs[0]))
    reduce(call, npuscope_larger, whole_larger, 0);
  else
    extreme(call, 1);
}

void npuscope_reduce_min(const npuscope_call *call) {
  if (npuscope_is_whole(&call->inputs[0]))
    reduce(call, npuscope_smaller, whole_smaller, 0);
  else
    extreme(call, -1);
}
