/* SPDX-License-Identifier: Apache-2.0
 * Lines `s:config:<name>:<value>` and `s:node:<name>:<values>`: the wire has no fields for them. */
#include "statistics.h"

#include "describe.h"

#define LINE_BYTES 128u
#define CONFIG_LINES 7u
#define BEAT_BYTES 8u
#define DECIMAL "0123456789"
#define UPPER DECIMAL "ABCDEF"
#define LOWER DECIMAL "abcdef"

typedef struct {
  char text[LINE_BYTES];
  uint32_t used;
} line_t;

static void put(line_t *line, const char *text) {
  for (; *text && line->used < sizeof line->text - 1; text++) line->text[line->used++] = *text;
  line->text[line->used] = 0;
}

static void put_digits(line_t *line, uint64_t value, const char *digits, uint32_t least) {
  const uint32_t base = digits[10] ? 16 : 10;
  char text[24];
  uint32_t at = sizeof text;
  text[--at] = 0;
  for (uint32_t i = 0; value || i < least; i++, value /= base) text[--at] = digits[value % base];
  put(line, text + at);
}

static void put_number(line_t *line, int64_t value) {
  if (value < 0) put(line, "-");
  put_digits(line, value < 0 ? (uint64_t)-value : (uint64_t)value, DECIMAL, 1);
}

static void put_next(line_t *line, int64_t value) {
  put(line, ":");
  put_number(line, value);
}

static void put_all(line_t *line, const uint32_t *values, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) put_next(line, values[i]);
}

static line_t begin(const char *name) {
  line_t line = {.used = 0};
  put(&line, "s:node:");
  put(&line, name);
  return line;
}

static uint32_t config_value(const validation_board *board, uint32_t index) {
  const uint32_t values[CONFIG_LINES] = {
      0,             board->device_id, board->mcu_hz,       board->noc_hz,
      board->npu_hz, board->nic_hz,    board->has_npu_cache};
  return values[index];
}

wire_result statistics_send_config(exchange *talk, const validation_board *board) {
  static const char *const names[CONFIG_LINES] = {
      "version:1.0", "dev_id:0x", "mcu_freq:", "noc_freq:", "npu_freq:", "nic_freq:", "npu_cache:"};
  wire_result sent = WIRE_OK;
  for (uint32_t i = 0; sent == WIRE_OK && i < CONFIG_LINES; i++) {
    line_t line = {.used = 0};
    put(&line, "s:config:");
    put(&line, names[i]);
    if (i) put_digits(&line, config_value(board, i), i == 1 ? LOWER : DECIMAL, 1);
    sent = exchange_log(talk, line.text);
  }
  return sent;
}

static void put_place(line_t *line, const validation_node *node, const statistics_place *place) {
  put_next(line, place->index);
  put_next(line, place->current);
  put_next(line, validation_is_extra(node) ? node->last : node->number);
  put_next(line, node->last);
}

static wire_result send_start(exchange *talk, const validation_node *node,
                              const statistics_place *place) {
  static const char *const names[] = {":HW", ":EXTRA", ":SW", ":HYBRID", ":EC"};
  line_t line = begin("evt_pre_start");
  put_place(&line, node, place);
  put(&line, ":");
  put_digits(&line, node->flags, UPPER, 8);
  put(&line, ":");
  put_digits(&line, describe_operator_type(node, place->tensors), UPPER, 8);
  put(&line, names[node->block]);
  return exchange_log(talk, line.text);
}

static wire_result send_end(exchange *talk, const validation_node *node,
                            const statistics_place *place) {
  line_t line = begin("evt_post_end");
  put_place(&line, node, place);
  put_next(&line, place->tensors);
  return exchange_log(talk, line.text);
}

static wire_result send_counts(exchange *talk, const char *name, const uint32_t *counts,
                               uint32_t n) {
  line_t line = begin(name);
  put_all(&line, counts, n);
  return exchange_log(talk, line.text);
}

static wire_result send_engine(exchange *talk, const char *name, const validation_engine *engine,
                               uint32_t core_cycles) {
  const char way[] = {':', engine->way, 0};
  line_t line = begin(name);
  put(&line, way);
  put_next(&line, engine->engine);
  put_next(&line, engine->cycles);
  put_next(&line, (int64_t)core_cycles - engine->cycles);
  return exchange_log(talk, line.text);
}

/* -1 stands for no engine. */
static wire_result send_most(exchange *talk, char way, int32_t engine, uint32_t cycles) {
  const char text[] = {':', way, 0};
  line_t line = begin("streng_active:max");
  put(&line, text);
  put_next(&line, engine);
  put_next(&line, cycles);
  return exchange_log(talk, line.text);
}

/* The busiest engine of one way; of equals the first. None: nothing is sent. */
static wire_result send_busiest(exchange *talk, const validation_node *node, char way) {
  const validation_engine *found = NULL;
  for (uint32_t i = 0; i < node->active_engines; i++) {
    const validation_engine *engine = &node->active[i];
    if (engine->way == way && (!found || engine->cycles > found->cycles)) found = engine;
  }
  return found ? send_most(talk, way, found->engine, found->cycles) : WIRE_OK;
}

static wire_result send_engines(exchange *talk, const validation_node *node) {
  const uint32_t core = node->has_npu_cycles ? node->npu_cycles[1] : 0;
  wire_result sent = WIRE_OK;
  for (uint32_t i = 0; sent == WIRE_OK && i < node->active_engines; i++)
    sent = send_engine(talk, "streng_active", &node->active[i], core);
  if (sent == WIRE_OK) sent = send_busiest(talk, node, 'i');
  if (sent == WIRE_OK) sent = send_busiest(talk, node, 'o');
  /* Hosts wait for the line also where the NPU did nothing. */
  if (sent == WIRE_OK && node->engine_way && !node->active_engines)
    sent = send_most(talk, node->engine_way, -1, 0);
  for (uint32_t i = 0; sent == WIRE_OK && i < node->henv_engines; i++)
    sent = send_engine(talk, "streng_henv", &node->henv[i], core);
  return sent;
}

static uint64_t bytes_of(const validation_node *node, uint32_t way) {
  uint64_t beats = 0;
  for (uint32_t port = 0; port < 2; port++)
    for (uint32_t length = 0; length < 4; length++)
      beats += (uint64_t)node->bursts[port][way][length] << length;
  return BEAT_BYTES * beats;
}

static wire_result send_bursts(exchange *talk, const validation_node *node) {
  static const char *const names[2][2] = {{"port0:burst:w", "port0:burst:r"},
                                          {"port1:burst:w", "port1:burst:r"}};
  wire_result sent = WIRE_OK;
  for (uint32_t i = 0; sent == WIRE_OK && i < 4; i++)
    sent = send_counts(talk, names[i / 2][i % 2], node->bursts[i / 2][i % 2], 4);
  if (sent != WIRE_OK) return sent;
  const uint64_t written = bytes_of(node, 0), read = bytes_of(node, 1);
  line_t line = begin("portx:burst:rw");
  put_next(&line, (int64_t)read);
  put_next(&line, (int64_t)written);
  put_next(&line, (int64_t)(read + written));
  put_next(&line, 0);
  return exchange_log(talk, line.text);
}

static wire_result send_cache(exchange *talk, const validation_node *node) {
  const wire_result sent = send_counts(talk, "npu_cache:r", node->cache, 4);
  return sent == WIRE_OK ? send_counts(talk, "npu_cache:w", node->cache + 4, 4) : sent;
}

wire_result statistics_send_node(exchange *talk, const validation_node *node,
                                 const statistics_place *place) {
  wire_result sent = send_start(talk, node, place);
  if (sent == WIRE_OK) sent = send_end(talk, node, place);
  if (sent == WIRE_OK) sent = send_counts(talk, "mcu_cycles", node->mcu_cycles, 3);
  if (sent == WIRE_OK && node->has_npu_cycles)
    sent = send_counts(talk, "npu_cycles", node->npu_cycles, 3);
  if (sent == WIRE_OK) sent = send_engines(talk, node);
  if (sent == WIRE_OK && node->has_bursts) sent = send_bursts(talk, node);
  if (sent == WIRE_OK && node->has_cache) sent = send_cache(talk, node);
  return sent;
}
