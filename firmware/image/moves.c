/* SPDX-License-Identifier: Apache-2.0
 * Moves of data that the CPU does inside the image: slices and transpositions of dense tensors. */
#include "ll_aton_lib_sw_operators.h"

#define MOST_AXES 8

/* Codes of the runtime: 0, and a parameter that is not valid. */
enum { MOVED = 0, NOT_VALID = -5 };

/* A walk over a block of elements: how many along each axis, and the bytes to the next one. */
typedef struct {
  uint32_t rank, element_bytes;
  uint32_t count[MOST_AXES], from_step[MOST_AXES], to_step[MOST_AXES];
} walk;

static uint8_t *first_byte(const LL_Buffer_InfoTypeDef *tensor) {
  return tensor->addr_base.p + tensor->offset_start;
}

static bool same_kind(const LL_Buffer_InfoTypeDef *input, const LL_Buffer_InfoTypeDef *output) {
  return input->ndims == output->ndims && input->nbits == output->nbits &&
         input->ndims <= MOST_AXES && input->nbits >= 8 && input->nbits % 8 == 0;
}

static void copy_element(uint8_t *to, const uint8_t *from, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; i++) to[i] = from[i];
}

/* Steps an odometer whose last axis turns fastest; false after the last element. */
static bool next_element(const walk *plan, uint32_t *index) {
  for (uint32_t axis = plan->rank; axis-- > 0;) {
    if (++index[axis] < plan->count[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

static uint32_t distance(const uint32_t *index, const uint32_t *steps, uint32_t rank) {
  uint32_t bytes = 0;
  for (uint32_t axis = 0; axis < rank; axis++) bytes += index[axis] * steps[axis];
  return bytes;
}

static void follow(const walk *plan, uint8_t *to, const uint8_t *from) {
  uint32_t index[MOST_AXES] = {0};
  for (uint32_t axis = 0; axis < plan->rank; axis++)
    if (plan->count[axis] == 0) return;
  do {
    copy_element(to + distance(index, plan->to_step, plan->rank),
                 from + distance(index, plan->from_step, plan->rank), plan->element_bytes);
  } while (next_element(plan, index));
}

/* Every `step`-th element from `start` on, before `end`. */
static uint32_t elements(int32_t start, int32_t end, int32_t step) {
  return end <= start ? 0 : ((uint32_t)(end - start) + (uint32_t)step - 1) / (uint32_t)step;
}

int LL_ATON_LIB_Slice(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_steps,
                      const LL_Buffer_InfoTypeDef *output, const uint32_t *output_steps,
                      uint32_t rank, const int32_t *starts, const int32_t *ends,
                      const int32_t *steps) {
  if (rank != input->ndims || !same_kind(input, output)) return NOT_VALID;
  walk plan = {.rank = rank, .element_bytes = input->nbits / 8u};
  const uint8_t *from = first_byte(input);
  for (uint32_t axis = 0; axis < rank; axis++) {
    if (steps[axis] < 1 || starts[axis] < 0) return NOT_VALID;
    from += (uint32_t)starts[axis] * input_steps[axis];
    plan.count[axis] = elements(starts[axis], ends[axis], steps[axis]);
    plan.from_step[axis] = (uint32_t)steps[axis] * input_steps[axis];
    plan.to_step[axis] = output_steps[axis];
  }
  follow(&plan, first_byte(output), from);
  return MOVED;
}

/* Axis `perm[i]` of the input becomes axis i of the output. */
int LL_ATON_LIB_Transpose(const LL_Buffer_InfoTypeDef *input, const uint32_t *input_steps,
                          const LL_Buffer_InfoTypeDef *output, const uint32_t *output_steps,
                          const uint8_t *perm) {
  if (!same_kind(input, output)) return NOT_VALID;
  walk plan = {.rank = input->ndims, .element_bytes = input->nbits / 8u};
  for (uint32_t axis = 0; axis < plan.rank; axis++) {
    if (perm[axis] >= plan.rank) return NOT_VALID;
    plan.count[axis] = input->shape[perm[axis]];
    plan.from_step[axis] = input_steps[perm[axis]];
    plan.to_step[axis] = output_steps[axis];
  }
  follow(&plan, first_byte(output), first_byte(input));
  return MOVED;
}
