/* SPDX-License-Identifier: Apache-2.0
 * The server as a program: on a line, or on recorded input. tables.h is written by the tests. */
#define _GNU_SOURCE
#include <poll.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "validation.h"
#include "tables.h"

static bool shows, fails;
static jmp_buf over;
static const uint8_t *played;
static uint32_t left, sent_bytes;
static uint8_t sent[1 << 24];

static bool read_line(uint8_t *byte, uint32_t timeout_ms) {
  struct pollfd wait = {.fd = 0, .events = POLLIN};
  if (poll(&wait, 1, (int)timeout_ms) <= 0) return false;
  if (read(0, byte, 1) != 1) exit(0);
  return true;
}
static void write_line(const uint8_t *bytes, uint32_t count) {
  while (count) {
    ssize_t some = write(1, bytes, count);
    if (some <= 0) exit(0);
    bytes += some;
    count -= (uint32_t)some;
  }
}
static bool read_played(uint8_t *byte, uint32_t timeout_ms) {
  (void)timeout_ms;
  if (!left) longjmp(over, 1);
  left--;
  *byte = *played++;
  return true;
}
static void write_played(const uint8_t *bytes, uint32_t count) {
  if (count > sizeof sent - sent_bytes) abort();
  memcpy(sent + sent_bytes, bytes, count);
  sent_bytes += count;
}

static uint8_t values[2][4][2048]; /* by network: its inputs, its outputs */
static uint8_t memory[3072];

static void input(const validation_network *network, uint32_t index, validation_tensor *tensor) {
  const uint32_t which = (uint32_t)(network - networks);
  *tensor = inputs[which][index];
  tensor->data = values[which][index];
}
static void output(const validation_network *network, uint32_t index, validation_tensor *tensor) {
  const uint32_t which = (uint32_t)(network - networks);
  *tensor = outputs[which][index];
  tensor->data = values[which][2 + index];
}
static int16_t shown[6] = {0, 1, 2, 3, 4, 5};
static void node_tensor(const validation_network *network, uint32_t index,
                        validation_tensor *tensor) {
  (void)network, (void)index;
  *tensor = (validation_tensor){"mid", validation_format(ELEMENT_WHOLE, 1, 16), 2, 2, {1, 6},
                                0, 0, 0, shown};
}
static void add_up(uint32_t which) {
  if (which == 0) {
    memset(values[0][2], 0, 3);
    for (int i = 0; i < 48; i++) values[0][2][i % 3] += values[0][0][i];
    return;
  }
  float terms[5], sum = 0;
  memcpy(terms, values[1][0], sizeof terms);
  for (int i = 0; i < 5; i++) sum += terms[i];
  memcpy(values[1][2], &sum, sizeof sum);
  for (int i = 0; i < 300; i++) values[1][3][i] = values[1][1][299 - i];
}
static bool run(const validation_network *network, const validation_request *request,
                validation_totals *totals) {
  const uint32_t which = (uint32_t)(network - networks);
  const uint32_t count = which ? 1 : NODES;
  if (fails) return false;
  add_up(which);
  for (uint32_t i = 0; i < count; i++) {
    const validation_node *node = &nodes[request->options][i];
    for (int phase = 0; phase < 3; phase++) totals->mcu_cycles[phase] += node->mcu_cycles[phase];
    if (!request->each_node) continue;
    if (node->has_npu_cycles) totals->npu_core_cycles += node->npu_cycles[1];
    const uint32_t tensors = shows && request->with_tensors && !i ? 2 : 0;
    if (!request->node(request->listener, network, node, tensors)) return false;
  }
  return true;
}

static void play(const validation_board *board, const uint8_t *data, uint32_t count) {
  const wire_line line = {.read = read_played, .write = write_played};
  played = data;
  left = count;
  sent_bytes = 0;
  for (uint32_t i = 0; i < sizeof memory; i++) memory[i] = (uint8_t)i;
  if (!setjmp(over)) validation_serve(board, &line);
}

/* Records of a length and its bytes; the answers have the same form. */
static int play_all(const validation_board *board) {
  uint32_t count;
  while (fread(&count, 4, 1, stdin) == 1) {
    /* Exactly as long as needed, so that a read beyond its end is seen. */
    uint8_t *data = malloc(count ? count : 1);
    if (fread(data, 1, count, stdin) != count) return 1;
    play(board, data, count);
    free(data);
    fwrite(&sent_bytes, 4, 1, stdout);
    fwrite(sent, 1, sent_bytes, stdout);
  }
  return 0;
}

int main(int count, char **words) {
  wire_line line = {read_line, write_line, 50, 150, 150, 5000};
  bool plays = false, closed = false;
  validation_memory served = {MEMORY_START, sizeof memory, memory, true};
  static const uint32_t failures[] = {1u << 16 | 0xFFFEu};
  for (int i = 1; i < count; i++) {
    shows |= !strcmp(words[i], "shows");
    fails |= !strcmp(words[i], "fails");
    plays |= !strcmp(words[i], "plays");
    closed |= !strcmp(words[i], "closed");
    if (!strcmp(words[i], "patient")) line.packet_gap_ms = line.message_gap_ms = 2000;
    if (!strcmp(words[i], "failures")) board.failures = failures, board.failure_count = 1;
  }
  for (int i = 0; i < 2; i++) {
    networks[i].input = input, networks[i].output = output;
    networks[i].node_tensor = node_tensor, networks[i].run = run;
  }
  for (uint32_t i = 0; i < sizeof memory; i++) memory[i] = (uint8_t)i;
  board.networks = networks, board.network_count = 2;
  board.memories = &served, board.memory_count = !closed;
  if (plays) return play_all(&board);
  validation_serve(&board, &line);
}
