/* SPDX-License-Identifier: Apache-2.0
 * The values along one axis of a tensor. */
#ifndef NPUSCOPE_LINE_H
#define NPUSCOPE_LINE_H

#include "tensor.h"

/* Lines are numbered as the values would be if the axis had size 1. */
typedef struct {
  uint32_t length, step, lines;
} npuscope_lines;

static inline npuscope_lines npuscope_lines_of(const npuscope_tensor *tensor, int32_t axis) {
  uint32_t place = (uint32_t)(axis < 0 ? axis + tensor->rank : axis);
  npuscope_lines found;
  found.length = tensor->shape[place];
  found.step = npuscope_extent(tensor, place + 1u, tensor->rank);
  found.lines = npuscope_extent(tensor, 0, place) * found.step;
  return found;
}

/* Where a line begins. */
static inline uint32_t npuscope_line_start(const npuscope_lines *lines, uint32_t line) {
  return line / lines->step * lines->length * lines->step + line % lines->step;
}

#endif
