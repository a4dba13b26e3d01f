/* SPDX-License-Identifier: Apache-2.0
 * Values of a tensor one by one: read as real numbers, stored with the tensor's rounding. */
#ifndef NPUSCOPE_TENSOR_H
#define NPUSCOPE_TENSOR_H

#include "npuscope_kernels.h"

uint32_t npuscope_count(const npuscope_tensor *tensor);         /* number of values */
uint32_t npuscope_element_bytes(const npuscope_tensor *tensor); /* bytes of one */

/* Number of values in the axes [first, last). */
uint32_t npuscope_extent(const npuscope_tensor *tensor, uint32_t first, uint32_t last);

float npuscope_load_other(const npuscope_tensor *tensor, uint32_t index);
void npuscope_store_other(const npuscope_tensor *tensor, uint32_t index, float value);

/* The value at a flat index: dequantized where the tensor has scales, else converted. */
static inline float npuscope_load(const npuscope_tensor *tensor, uint32_t index) {
  if (tensor->type == NPUSCOPE_FLOAT32)
    return ((const float *)tensor->data)[index];
  return npuscope_load_other(tensor, index);
}

/* Whole numbers with a scale: rounded, saturated, NaN becomes the lowest. Without a scale: cut
 * towards zero, saturated, NaN becomes 0. */
static inline void npuscope_store(const npuscope_tensor *tensor, uint32_t index, float value) {
  if (tensor->type == NPUSCOPE_FLOAT32)
    ((float *)tensor->data)[index] = value;
  else
    npuscope_store_other(tensor, index, value);
}

/* Whole numbers without a scale, which have an arithmetic of their own. */
static inline int npuscope_is_whole(const npuscope_tensor *tensor) {
  return tensor->type != NPUSCOPE_FLOAT32 && tensor->scales == NULL;
}

/* Raw whole numbers, without scale. */
int32_t npuscope_raw(const npuscope_tensor *tensor, uint32_t index);

/* The same with room for all types. What is put loses the bits that the type lacks; a float tensor
 * takes the number itself, a bool tensor whether it is not 0. */
int64_t npuscope_whole(const npuscope_tensor *tensor, uint32_t index);
void npuscope_put_whole(const npuscope_tensor *tensor, uint32_t index, int64_t value);

/* The clamp of a fused activation, numbered as in the attribute record: none, relu, relu6, relu of
 * -1 to 1. NaN stays. What a clamp returns is never -0, as the order of two zeros is nobody's. */
static inline float npuscope_clamped(float value, float low, float high) {
  value = value < low ? low : value;
  value = value > high ? high : value;
  return value + 0.0f;
}

static inline float npuscope_activated(float value, int32_t activation) {
  switch (activation) {
  case 1:
    return npuscope_clamped(value, 0.0f, __builtin_inff());
  case 2:
    return npuscope_clamped(value, 0.0f, 6.0f);
  case 3:
    return npuscope_clamped(value, -1.0f, 1.0f);
  default:
    return value;
  }
}

#endif
