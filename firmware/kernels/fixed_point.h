/* SPDX-License-Identifier: Apache-2.0
 * Fixed-point arithmetic of the integer kernels. Values are whole numbers of 64 bits that wrap. */
#ifndef NPUSCOPE_FIXED_POINT_H
#define NPUSCOPE_FIXED_POINT_H

#include "npuscope_kernels.h"

/* value / 2**bits, ties away from zero. */
int64_t npuscope_rounding_shift(int64_t value, int32_t bits);

/* value * mantissa * 2**(shift - 31), rounded twice: the product half up, the shift half away. */
int64_t npuscope_scale_twice(int64_t value, int32_t mantissa, int32_t shift);

/* Product of two numbers with 31 bits behind the point, rounded half up. */
int64_t npuscope_times(int64_t a, int64_t b);

/* 1 / value of a positive whole number below 2**32: a fraction of 31 bits in (1/2, 1]. The bits of
 * the value, which were taken out, are stored in `bits`. */
int64_t npuscope_fixed_reciprocal(int64_t value, int32_t *bits);

/* Bits of a magnitude; 0 has none. */
int32_t npuscope_bit_length(uint64_t magnitude);

int32_t npuscope_clamp(int64_t value, int32_t low, int32_t high);

/* Of one scale for all: 0 where the tensor has none. */
int32_t npuscope_zero_point(const npuscope_tensor *tensor);

#endif
