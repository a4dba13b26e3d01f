/* SPDX-License-Identifier: Apache-2.0 */
#include "moves.h"
#include "tensor.h"

npuscope_move_path npuscope_path_of(const npuscope_call *call, const npuscope_tensor *from,
                                    const npuscope_tensor *to, const int32_t *given) {
  npuscope_move_path path = {.from = from, .to = to, .activation = given[2]};
  path.way = (npuscope_way)given[0];
  path.bytes = npuscope_element_bytes(to);
  path.table = path.way == NPUSCOPE_BY_TABLE ? call->inputs[given[1]].data : NULL;
  return path;
}

static void copy_value(void *to, uint32_t at_to, const void *from, uint32_t at_from,
                       uint32_t bytes) {
  switch (bytes) {
  case 1:
    ((uint8_t *)to)[at_to] = ((const uint8_t *)from)[at_from];
    break;
  case 2:
    ((uint16_t *)to)[at_to] = ((const uint16_t *)from)[at_from];
    break;
  case 4:
    ((uint32_t *)to)[at_to] = ((const uint32_t *)from)[at_from];
    break;
  default:
    ((uint64_t *)to)[at_to] = ((const uint64_t *)from)[at_from];
  }
}

static void move_value(const npuscope_move_path *path, uint32_t from, uint32_t to) {
  const npuscope_tensor *x = path->from, *y = path->to;
  switch (path->way) {
  case NPUSCOPE_AS_BYTES:
    copy_value(y->data, to, x->data, from, path->bytes);
    break;
  case NPUSCOPE_BY_TABLE:
    copy_value(y->data, to, path->table, ((const uint8_t *)x->data)[from], path->bytes);
    break;
  default:
    npuscope_store(y, to, npuscope_activated(npuscope_load(x, from), path->activation));
  }
}

/* Input and output of a reshape may be the same memory. */
static void move_block(const npuscope_move_path *path, uint32_t from, uint32_t to,
                       uint32_t count) {
  uint8_t *target = (uint8_t *)path->to->data + to * path->bytes;
  const uint8_t *source = (const uint8_t *)path->from->data + from * path->bytes;
  if (target != source)
    __builtin_memmove(target, source, count * path->bytes);
}

void npuscope_move_run(const npuscope_move_path *path, uint32_t from, uint32_t to, uint32_t count,
                       int32_t step_from, int32_t step_to) {
  if (path->way == NPUSCOPE_AS_BYTES && step_from == 1 && step_to == 1) {
    move_block(path, from, to, count);
    return;
  }
  for (uint32_t i = 0; i < count; i++) {
    move_value(path, from, to);
    from += (uint32_t)step_from, to += (uint32_t)step_to;
  }
}
