/* SPDX-License-Identifier: Apache-2.0 */
#include "path.h"

static void begin(npuscope_path *path) {
  path->rank = 0;
  path->count = 1;
  path->offset = 0;
}

static void add_axis(npuscope_path *path, uint32_t size, uint32_t step) {
  path->shape[path->rank] = size;
  path->step[path->rank] = step;
  path->at[path->rank] = 0;
  path->rank++;
  path->count *= size;
}

/* The step of an axis of the target in the source: 0 where the source repeats itself. */
static uint32_t source_step(const npuscope_tensor *source, uint32_t axis, uint32_t missing) {
  if (axis < missing || source->shape[axis - missing] == 1)
    return 0;
  return npuscope_extent(source, axis - missing + 1u, source->rank);
}

void npuscope_broadcast(npuscope_path *path, const npuscope_tensor *source,
                        const npuscope_tensor *target) {
  uint32_t values = npuscope_count(source), wanted = npuscope_count(target);
  uint32_t missing = (uint32_t)target->rank - source->rank;
  begin(path);
  if (values == 1 || values == wanted) { /* one value, or all in order: no axes to look at */
    add_axis(path, wanted, values == wanted);
    return;
  }
  for (uint32_t axis = 0; axis < target->rank; axis++)
    add_axis(path, target->shape[axis], source_step(source, axis, missing));
}

void npuscope_along(npuscope_path *path, const npuscope_tensor *tensor, uint32_t axes) {
  begin(path);
  for (uint32_t axis = 0; axis < tensor->rank; axis++)
    if (axes >> axis & 1u)
      add_axis(path, tensor->shape[axis], npuscope_extent(tensor, axis + 1u, tensor->rank));
}
