/* SPDX-License-Identifier: Apache-2.0
 * Reading and storing single values of any type. */
#include "tensor.h"

#include "rounding.h"

uint32_t npuscope_extent(const npuscope_tensor *tensor, uint32_t first, uint32_t last) {
  uint32_t count = 1;
  for (uint32_t axis = first; axis < last; axis++)
    count *= tensor->shape[axis];
  return count;
}

uint32_t npuscope_count(const npuscope_tensor *tensor) {
  return npuscope_extent(tensor, 0, tensor->rank);
}

uint32_t npuscope_element_bytes(const npuscope_tensor *tensor) {
  switch (tensor->type) {
  case NPUSCOPE_INT16:
  case NPUSCOPE_UINT16:
    return 2;
  case NPUSCOPE_FLOAT32:
  case NPUSCOPE_INT32:
    return 4;
  case NPUSCOPE_INT64:
  case NPUSCOPE_FLOAT64:
    return 8;
  default:
    return 1;
  }
}

int32_t npuscope_raw(const npuscope_tensor *tensor, uint32_t index) {
  switch (tensor->type) {
  case NPUSCOPE_INT8:
    return ((const int8_t *)tensor->data)[index];
  case NPUSCOPE_UINT8:
    return ((const uint8_t *)tensor->data)[index];
  case NPUSCOPE_BOOL:
    return ((const uint8_t *)tensor->data)[index] != 0;
  case NPUSCOPE_INT16:
    return ((const int16_t *)tensor->data)[index];
  case NPUSCOPE_UINT16:
    return ((const uint16_t *)tensor->data)[index];
  case NPUSCOPE_INT64:
    return (int32_t)((const int64_t *)tensor->data)[index];
  default:
    return ((const int32_t *)tensor->data)[index];
  }
}

int64_t npuscope_whole(const npuscope_tensor *tensor, uint32_t index) {
  if (tensor->type == NPUSCOPE_INT64)
    return ((const int64_t *)tensor->data)[index];
  return npuscope_raw(tensor, index);
}

void npuscope_put_whole(const npuscope_tensor *tensor, uint32_t index, int64_t value) {
  switch (tensor->type) {
  case NPUSCOPE_FLOAT32:
    ((float *)tensor->data)[index] = (float)value;
    break;
  case NPUSCOPE_BOOL:
    ((uint8_t *)tensor->data)[index] = value != 0;
    break;
  case NPUSCOPE_INT8:
  case NPUSCOPE_UINT8:
    ((uint8_t *)tensor->data)[index] = (uint8_t)value;
    break;
  case NPUSCOPE_INT16:
  case NPUSCOPE_UINT16:
    ((uint16_t *)tensor->data)[index] = (uint16_t)value;
    break;
  case NPUSCOPE_INT64:
    ((int64_t *)tensor->data)[index] = value;
    break;
  default:
    ((uint32_t *)tensor->data)[index] = (uint32_t)value;
  }
}

/* Which of a tensor's scales belongs to a value. */
static uint32_t channel_of(const npuscope_tensor *tensor, uint32_t index) {
  if (tensor->axis == NPUSCOPE_WHOLE)
    return 0;
  return index / npuscope_extent(tensor, tensor->axis + 1u, tensor->rank) %
         tensor->shape[tensor->axis];
}

/* Differences of up to 16 bits are exact in 32, the others take the way of 64. */
static float centred(const npuscope_tensor *tensor, uint32_t index, int32_t zero) {
  if (npuscope_element_bytes(tensor) <= 2)
    return (float)(npuscope_raw(tensor, index) - zero);
  return (float)(npuscope_whole(tensor, index) - zero);
}

float npuscope_load_other(const npuscope_tensor *tensor, uint32_t index) {
  uint32_t channel;
  if (tensor->scales == NULL)
    return centred(tensor, index, 0);
  channel = channel_of(tensor, index);
  return centred(tensor, index, tensor->zero_points[channel]) * tensor->scales[channel];
}

static int32_t lowest(uint8_t type) {
  switch (type) {
  case NPUSCOPE_INT8:
    return INT8_MIN;
  case NPUSCOPE_INT16:
    return INT16_MIN;
  case NPUSCOPE_INT32:
    return INT32_MIN;
  default:
    return 0;
  }
}

static int32_t highest(uint8_t type) {
  switch (type) {
  case NPUSCOPE_INT8:
    return INT8_MAX;
  case NPUSCOPE_UINT8:
    return UINT8_MAX;
  case NPUSCOPE_INT16:
    return INT16_MAX;
  case NPUSCOPE_UINT16:
    return UINT16_MAX;
  default:
    return INT32_MAX;
  }
}

/* A float beyond the type becomes its limit: what C leaves open and CPUs do in several ways. */
static int64_t saturated(float value, uint8_t type) {
  if (type == NPUSCOPE_INT64) {
    if (value >= 0x1p63f)
      return INT64_MAX;
    return value <= -0x1p63f ? INT64_MIN : (int64_t)value;
  }
  if (value >= (float)highest(type))
    return highest(type);
  return value <= (float)lowest(type) ? lowest(type) : (int32_t)value;
}

static void store_cut(const npuscope_tensor *tensor, uint32_t index, float value) {
  if (tensor->type == NPUSCOPE_BOOL)
    npuscope_put_whole(tensor, index, value != 0.0f);
  else
    npuscope_put_whole(tensor, index, value != value ? 0 : saturated(value, tensor->type));
}

void npuscope_store_other(const npuscope_tensor *tensor, uint32_t index, float value) {
  uint32_t channel;
  float ratio;
  if (tensor->scales == NULL) {
    store_cut(tensor, index, value);
    return;
  }
  channel = channel_of(tensor, index);
  ratio = value / tensor->scales[channel];
  ratio = tensor->rounding == NPUSCOPE_HALF_AWAY ? npuscope_round_away(ratio)
                                                 : npuscope_round_even(ratio);
  ratio += (float)tensor->zero_points[channel];
  npuscope_put_whole(tensor, index,
                     ratio != ratio ? lowest(tensor->type) : saturated(ratio, tensor->type));
}
