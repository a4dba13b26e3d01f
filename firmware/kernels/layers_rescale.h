/* SPDX-License-Identifier: Apache-2.0
 * From the sum of a layer's products to its output, by the rule of whose rounding is followed. */
#ifndef NPUSCOPE_LAYERS_RESCALE_H
#define NPUSCOPE_LAYERS_RESCALE_H

#include "npuscope_kernels.h"

typedef enum {
  NPUSCOPE_TWICE,     /* 31-bit multiplier, rounded twice */
  NPUSCOPE_REDUCED,   /* 16-bit multiplier, half up: long sums of 16-bit values */
  NPUSCOPE_IN_DOUBLE, /* one product in double, half away from zero */
  NPUSCOPE_TO_EVEN,   /* real value over the output's scale in double, half to even */
  NPUSCOPE_TO_REAL    /* the real value itself */
} npuscope_rule;

typedef struct {
  const npuscope_tensor *input, *weights, *output;
  const npuscope_tensor *bias; /* or NULL */
  const int32_t *factors;      /* of TWICE and REDUCED: all multipliers, then all shifts */
  uint32_t channels;           /* number of multipliers */
  npuscope_rule rule;
  int32_t low, high;  /* what the activation leaves of a whole output */
  int32_t activation; /* of a real output: none, 0..inf, 0..6, -1..1 */
} npuscope_layer;

/* What is the same for all values of an output channel. */
typedef struct {
  const npuscope_layer *layer;
  int64_t bias, fold;
  double factor, offset;
  int32_t multiplier, shift;
} npuscope_channel;

/* `fold` is the part that the input's zero point has in a sum of raw products, turned round: the
 * rules in double round it and the rest of the sum apart. */
npuscope_channel npuscope_channel_of(const npuscope_layer *layer, uint32_t channel, int64_t fold);

/* Store the output of a sum of centred products. */
void npuscope_emit(const npuscope_channel *channel, int64_t sum, uint32_t index);

/* Does the rule need the fold? */
static inline int npuscope_folds(const npuscope_layer *layer) {
  return layer->rule == NPUSCOPE_TO_EVEN || layer->rule == NPUSCOPE_TO_REAL;
}

#endif
