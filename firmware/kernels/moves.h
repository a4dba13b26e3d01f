/* SPDX-License-Identifier: Apache-2.0
 * One value from one tensor to another, in three ways. */
#ifndef NPUSCOPE_MOVES_H
#define NPUSCOPE_MOVES_H

#include "npuscope_kernels.h"

typedef enum {
  NPUSCOPE_AS_BYTES, /* both sides share type and quantization */
  NPUSCOPE_BY_TABLE, /* 8-bit values, each looked up */
  NPUSCOPE_AS_REALS  /* read as a real value, clamped by the activation, rounded */
} npuscope_way;

typedef struct {
  const npuscope_tensor *from, *to;
  const void *table; /* of BY_TABLE: 256 values of the output's type */
  uint32_t bytes;    /* of an output value */
  int32_t activation;
  npuscope_way way;
} npuscope_move_path;

/* `given` is: way, input that holds the table, activation. */
npuscope_move_path npuscope_path_of(const npuscope_call *call, const npuscope_tensor *from,
                                    const npuscope_tensor *to, const int32_t *given);

/* `count` values that lie `step_from` and `step_to` apart. */
void npuscope_move_run(const npuscope_move_path *path, uint32_t from, uint32_t to, uint32_t count,
                       int32_t step_from, int32_t step_to);

#endif
