/* SPDX-License-Identifier: Apache-2.0
 * Ways through the values of a tensor: along some of its axes, or repeated as another's shape asks.
 */
#ifndef NPUSCOPE_PATH_H
#define NPUSCOPE_PATH_H

#include "tensor.h"

typedef struct {
  uint32_t shape[NPUSCOPE_MAX_RANK], step[NPUSCOPE_MAX_RANK], at[NPUSCOPE_MAX_RANK];
  uint32_t rank, count;
  uint32_t offset; /* of the value that it stands at */
} npuscope_path;

/* All values of `target`'s shape, with numpy's rule for axes of size 1 and absent ones. */
void npuscope_broadcast(npuscope_path *path, const npuscope_tensor *source,
                        const npuscope_tensor *target);

/* The axes whose bits are set in `axes`, in memory order. */
void npuscope_along(npuscope_path *path, const npuscope_tensor *tensor, uint32_t axes);

/* To the next value; behind the last one it stands at the first again. */
static inline void npuscope_next(npuscope_path *path) {
  for (uint32_t axis = path->rank; axis-- > 0;) {
    path->offset += path->step[axis];
    if (++path->at[axis] < path->shape[axis])
      return;
    path->offset -= path->step[axis] * path->shape[axis];
    path->at[axis] = 0;
  }
}

#endif
