/* SPDX-License-Identifier: Apache-2.0
 * Software kernels of npuscope: bit-equal with the simulator's, on every CPU.
 *
 * One shape for all: a kernel takes a call of tensors, whole numbers and real numbers. The whole
 * and the real attributes of an op stand in `numbers` and `reals` in the order of its attribute
 * record, tuples flat, enums by position, booleans as 0 or 1. What is computed once from
 * constants (multipliers, tables) comes as further inputs.
 *
 * Order of operations is part of the contract: sums run over their terms in memory order, one
 * after the other, in the type of the result. No term is skipped, fused or reordered.
 */
#ifndef NPUSCOPE_KERNELS_H
#define NPUSCOPE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#define NPUSCOPE_MAX_RANK 8
#define NPUSCOPE_WHOLE 0xff /* as axis: one scale for all values */

typedef enum {
  NPUSCOPE_FLOAT32,
  NPUSCOPE_INT8,
  NPUSCOPE_UINT8,
  NPUSCOPE_INT16,
  NPUSCOPE_UINT16,
  NPUSCOPE_INT32,
  NPUSCOPE_INT64,
  NPUSCOPE_BOOL,
  NPUSCOPE_FLOAT64
} npuscope_type;

/* How a real value becomes a whole one when it is stored. */
typedef enum { NPUSCOPE_HALF_TO_EVEN, NPUSCOPE_HALF_AWAY } npuscope_rounding;

/* Values lie densely, last axis fastest. */
typedef struct {
  void *data;
  const float *scales; /* NULL: values are what they are */
  const int32_t *zero_points;
  uint32_t shape[NPUSCOPE_MAX_RANK];
  uint8_t rank;
  uint8_t type;     /* npuscope_type */
  uint8_t axis;     /* the axis that the scales lie along, or NPUSCOPE_WHOLE */
  uint8_t rounding; /* npuscope_rounding */
} npuscope_tensor;

typedef struct {
  const npuscope_tensor *inputs;
  const npuscope_tensor *outputs;
  const int32_t *numbers;
  const float *reals;
  uint8_t ninputs, noutputs;
} npuscope_call;

typedef void npuscope_kernel(const npuscope_call *call);

#endif
