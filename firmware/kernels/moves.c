/* SPDX-License-Identifier: Apache-2.0
 * Kernels that move values. Steps and places count values, not bytes. */
#include "moves.h"

#include "tensor.h"

#define MOST_AXES 16

/* A block of values with its own steps on either side. */
typedef struct {
  uint32_t from, to;
  int32_t axes; /* at least 1 */
  const int32_t *sizes, *steps_from, *steps_to;
} block;

static block block_of(const int32_t *given) {
  block at = {.from = (uint32_t)given[0], .to = (uint32_t)given[1], .axes = given[2]};
  at.sizes = given + 3;
  at.steps_from = at.sizes + at.axes;
  at.steps_to = at.steps_from + at.axes;
  return at;
}

/* To the next line along the last axis; 0 when there is none. */
static int next_line(block *at, int32_t *counters) {
  for (int32_t axis = at->axes - 2; axis >= 0; axis--) {
    at->from += (uint32_t)at->steps_from[axis], at->to += (uint32_t)at->steps_to[axis];
    if (++counters[axis] < at->sizes[axis])
      return 1;
    at->from -= (uint32_t)(at->sizes[axis] * at->steps_from[axis]);
    at->to -= (uint32_t)(at->sizes[axis] * at->steps_to[axis]);
    counters[axis] = 0;
  }
  return 0;
}

static void move_block_of_lines(const npuscope_move_path *path, block at) {
  int32_t counters[MOST_AXES] = {0}, last = at.axes - 1;
  do {
    npuscope_move_run(path, at.from, at.to, (uint32_t)at.sizes[last], at.steps_from[last],
                      at.steps_to[last]);
  } while (next_line(&at, counters));
}

/* The fill is a tensor of one value, of the output's type. */
static void fill(const npuscope_call *call, const npuscope_tensor *value) {
  static const int32_t as_bytes[3] = {NPUSCOPE_AS_BYTES, 0, 0};
  npuscope_move_path path = npuscope_path_of(call, value, &call->outputs[0], as_bytes);
  npuscope_move_run(&path, 0, 0, npuscope_count(&call->outputs[0]), 0, 1);
}

/* Any move with places known before: Reshape, Identity, Transpose, Concat, Slice, Split, Pad,
 * DepthToSpace, SpaceToDepth, Tile, BroadcastTo.
 *
 * Numbers: input that fills the output first (or -1), number of blocks, then per block: input,
 * output, way, input that holds the table, activation, first place read, first place written,
 * number of axes, and per axis all sizes, all steps read, all steps written. */
void npuscope_move(const npuscope_call *call) {
  const int32_t *given = call->numbers + 2;
  if (call->numbers[0] >= 0)
    fill(call, &call->inputs[call->numbers[0]]);
  for (int32_t i = 0; i < call->numbers[1]; i++) {
    npuscope_move_path path =
        npuscope_path_of(call, &call->inputs[given[0]], &call->outputs[given[1]], given + 2);
    block at = block_of(given + 5);
    move_block_of_lines(&path, at);
    given += 8 + 3 * at.axes;
  }
}

/* The place of an output value in the input, by one map an axis. */
static uint32_t mapped(const npuscope_call *call, uint32_t index) {
  const npuscope_tensor *x = &call->inputs[0], *y = &call->outputs[0];
  uint32_t place = 0, step = 1;
  for (uint32_t axis = y->rank; axis-- > 0;) {
    const int32_t *map = call->inputs[1 + axis].data;
    place += (uint32_t)map[index % y->shape[axis]] * step;
    step *= x->shape[axis];
    index /= y->shape[axis];
  }
  return place;
}

/* Values chosen along every axis: MirrorPad, and Resize to the nearest. Inputs: x, then per axis
 * the place read for each place written. Numbers: way, input that holds the table, activation. */
void npuscope_take(const npuscope_call *call) {
  const npuscope_tensor *y = &call->outputs[0];
  npuscope_move_path path = npuscope_path_of(call, &call->inputs[0], y, call->numbers);
  uint32_t count = npuscope_count(y), line = y->rank == 0 ? 1 : y->shape[y->rank - 1];
  const int32_t *last = y->rank == 0 ? NULL : call->inputs[y->rank].data;
  for (uint32_t first = 0; first < count; first += line) {
    uint32_t start = mapped(call, first) - (last == NULL ? 0 : (uint32_t)last[0]);
    for (uint32_t i = 0; i < line; i++)
      npuscope_move_run(&path, start + (last == NULL ? 0 : (uint32_t)last[i]), first + i, 1, 1, 1);
  }
}

/* Negative indices count from the end. Those beyond are refused by the simulator; here the nearest
 * is taken, so that nothing outside of the tensor is read. */
static uint32_t chosen(const npuscope_tensor *indices, uint32_t at, uint32_t size) {
  int64_t place = npuscope_whole(indices, at);
  if (place < 0)
    place += size;
  if (place < 0)
    return 0;
  return place >= size ? size - 1 : (uint32_t)place;
}

/* Rows chosen at run time. Inputs: data (batches, outer, size, inner), indices (batches, count).
 * Numbers: batches, outer, size, inner, count, then way, input that holds the table, activation. */
void npuscope_gather(const npuscope_call *call) {
  uint32_t batches = (uint32_t)call->numbers[0], outer = (uint32_t)call->numbers[1];
  uint32_t size = (uint32_t)call->numbers[2], inner = (uint32_t)call->numbers[3];
  uint32_t count = (uint32_t)call->numbers[4], to = 0;
  npuscope_move_path path =
      npuscope_path_of(call, &call->inputs[0], &call->outputs[0], call->numbers + 5);
  for (uint32_t row = 0; row < batches * outer; row++) {
    for (uint32_t i = 0; i < count; i++, to += inner) {
      uint32_t place = chosen(&call->inputs[1], row / outer * count + i, size);
      npuscope_move_run(&path, (row * size + place) * inner, to, inner, 1, 1);
    }
  }
}

/* The first steps of each batch turned around. Inputs: data, lengths by batch. Numbers: axes of time
 * and batch, then way, input that holds the table, activation. A length beyond the steps there are
 * is refused by the simulator; here all are turned. */
void npuscope_reverse_sequence(const npuscope_call *call) {
  const npuscope_tensor *x = &call->inputs[0], *lengths = &call->inputs[1];
  uint32_t time = (uint32_t)call->numbers[0], batch = (uint32_t)call->numbers[1];
  uint32_t rows = 1, inner = 1, time_step = 1, batch_step = 1; /* steps count rows */
  npuscope_move_path path = npuscope_path_of(call, x, &call->outputs[0], call->numbers + 2);
  for (uint32_t axis = 0; axis < x->rank; axis++) {
    if (axis > time && axis > batch)
      inner *= x->shape[axis];
    else
      rows *= x->shape[axis];
    if (axis > time && axis <= batch)
      time_step *= x->shape[axis];
    if (axis > batch && axis <= time)
      batch_step *= x->shape[axis];
  }
  for (uint32_t row = 0; row < rows; row++) {
    int64_t at = row / time_step % x->shape[time];
    int64_t length = npuscope_whole(lengths, row / batch_step % x->shape[batch]), from = at;
    length = length > (int64_t)x->shape[time] ? (int64_t)x->shape[time] : length;
    if (at < length)
      from = length - 1 - at;
    npuscope_move_run(&path, (uint32_t)(row + (from - at) * time_step) * inner, row * inner, inner, 1,
                      1);
  }
}
