/* SPDX-License-Identifier: Apache-2.0
 * Library functions that compute, by the kernels. */
#include "library.h"

#include "npuscope_kernels.h"
#include "npuscope_memory.h"

npuscope_kernel npuscope_cast, npuscope_softmax;

typedef LL_Buffer_InfoTypeDef info_t;

static bool whole_type(uint32_t nbits, bool is_unsigned, uint8_t *type) {
  switch (nbits) {
    case 8: *type = is_unsigned ? NPUSCOPE_UINT8 : NPUSCOPE_INT8; return true;
    case 16: *type = is_unsigned ? NPUSCOPE_UINT16 : NPUSCOPE_INT16; return true;
    case 32: *type = NPUSCOPE_INT32; return !is_unsigned;
    case 64: *type = NPUSCOPE_INT64; return !is_unsigned;
    default: return false;
  }
}

static bool type_of(const info_t *info, uint8_t *type) {
  if (info->type == DataType_FLOAT) {
    *type = NPUSCOPE_FLOAT32;
    return info->nbits == 32;
  }
  return whole_type(info->nbits, info->Qunsigned, type);
}

/* The tensor without its scale. */
static bool view(const info_t *info, npuscope_tensor *tensor) {
  memset(tensor, 0, sizeof *tensor);
  if (!info->shape || !info->ndims || info->ndims > NPUSCOPE_MAX_RANK) return false;
  tensor->data = library_data(info);
  tensor->rank = info->ndims;
  tensor->axis = NPUSCOPE_WHOLE;
  tensor->rounding = NPUSCOPE_HALF_AWAY;
  for (uint32_t i = 0; i < info->ndims; i++) tensor->shape[i] = info->shape[i];
  return type_of(info, &tensor->type);
}

static bool same_count(const npuscope_tensor *a, const npuscope_tensor *b) {
  uint32_t of_a = 1, of_b = 1;
  for (uint32_t i = 0; i < a->rank; i++) of_a *= a->shape[i];
  for (uint32_t i = 0; i < b->rank; i++) of_b *= b->shape[i];
  return of_a == of_b;
}

static int run(npuscope_kernel *kernel, const npuscope_tensor *input,
               const npuscope_tensor *output, int32_t number, float real) {
  const npuscope_call call = {.inputs = input, .outputs = output, .numbers = &number,
                              .reals = &real, .ninputs = 1, .noutputs = 1};
  if (!same_count(input, output)) return LIBRARY_NOT_VALID;
  kernel(&call);
  return LIBRARY_OK;
}

int LL_ATON_LIB_Cast(const info_t *input, const info_t *output, int dma_in,
                     int dma_out NPUSCOPE_TAIL) {
  npuscope_tensor from, to;
  IGNORE_ENGINES;
  if (!view(input, &from) || !view(output, &to)) return LIBRARY_NOT_VALID;
  return run(npuscope_cast, &from, &to, 0, 0);
}

static bool take_scale(const info_t *info, npuscope_tensor *tensor, int32_t *zero) {
  *zero = info->offset ? info->offset[0] : 0;
  if (tensor->type == NPUSCOPE_FLOAT32 || !info->scale) return tensor->type == NPUSCOPE_FLOAT32;
  tensor->scales = info->scale;
  tensor->zero_points = zero;
  return !info->per_channel;
}

/* Where the channels are last, the caller's axes are counted as N, C, H, W. */
static int32_t axis_of(const info_t *info, uint32_t axis) {
  if (info->ndims < 3 || axis == 0) return (int32_t)axis;
  return axis == 1 ? info->ndims - 1 : (int32_t)axis - 1;
}

/* The older meaning: over all axes from one on, which need not be told apart then. */
static bool fold(npuscope_tensor *tensor, uint32_t axis) {
  uint32_t rest = 1;
  for (uint32_t i = axis; i < tensor->rank; i++) rest *= tensor->shape[i];
  tensor->shape[0] = axis ? tensor->shape[0] : 1;
  tensor->shape[1] = rest;
  tensor->rank = 2;
  return axis <= 1;
}

int LL_ATON_LIB_Softmax(const info_t *input, const info_t *output, unsigned int axis, int legacy) {
  npuscope_tensor from, to;
  int32_t zeros[2];
  if (!view(input, &from) || !view(output, &to) || axis >= input->ndims) return LIBRARY_NOT_VALID;
  if (!take_scale(input, &from, &zeros[0]) || !take_scale(output, &to, &zeros[1]))
    return LIBRARY_NOT_VALID;
  if (!legacy) return run(npuscope_softmax, &from, &to, axis_of(input, axis), 1.0f);
  if (!fold(&from, axis) || !fold(&to, axis)) return LIBRARY_NOT_VALID;
  return run(npuscope_softmax, &from, &to, 1, 1.0f);
}
