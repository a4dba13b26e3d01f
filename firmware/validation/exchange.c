/* SPDX-License-Identifier: Apache-2.0
 * Requests, acknowledgements, data and answers. */
#include "exchange.h"

#include "npuscope_memory.h"

#define FIELD(n) (1u << (n))
#define TEXT FIELD(4)
#define REQUEST_ONLY FIELD(5)
#define ACK_NUMBERS (FIELD(1) | FIELD(2))
#define DATA_NUMBERS (ACK_NUMBERS | FIELD(3))
#define REQUEST_NUMBERS (DATA_NUMBERS | REQUEST_ONLY)
#define LOG_LEVEL 1u
#define LOG_BYTES 127u

typedef struct {
  uint32_t param, error;
} ack_t;

typedef struct {
  uint32_t number, state, payload;
  wire_emitter *emit;
  const void *what;
} answer_t;

static wire_result receive(exchange *talk, uint32_t wait_ms, wire_fields *fields, void *place,
                           uint32_t room) {
  wire_input input;
  const wire_result opened = wire_open(&input, &talk->peer, wait_ms, talk->limit_bytes);
  return opened == WIRE_OK ? wire_read_fields(&input, fields, place, room) : opened;
}

static bool has_types(const wire_fields *fields, uint32_t numbers, uint32_t bytes) {
  return !(fields->as_bytes & numbers) && !(fields->as_number & bytes);
}

static wire_result as_request(const wire_fields *fields, exchange_request *request) {
  if (!has_types(fields, REQUEST_NUMBERS, TEXT)) return WIRE_BROKEN;
  *request = (exchange_request){
      .number = fields->numbers[1],
      .command = fields->numbers[2],
      .param = fields->numbers[3],
      .option = fields->numbers[5],
      .name_bytes = fields->bytes,
  };
  memcpy(request->name, fields->text, sizeof request->name);
  return WIRE_OK;
}

wire_result exchange_next(exchange *talk) {
  wire_fields fields;
  const wire_result got = receive(talk, talk->peer.line->idle_ms, &fields, NULL, 0);
  return got == WIRE_OK ? as_request(&fields, &talk->request) : got;
}

/* What must follow now, or a request of a host that started again. */
static wire_result receive_following(exchange *talk, wire_fields *fields, void *place,
                                     uint32_t room) {
  const wire_result got =
      receive(talk, talk->peer.line->message_gap_ms, fields, place, room);
  if (got != WIRE_OK || !((fields->as_number | fields->as_bytes) & REQUEST_ONLY)) return got;
  return as_request(fields, &talk->pending) == WIRE_OK ? WIRE_INTERRUPTED : WIRE_BROKEN;
}

wire_result exchange_receive_ack(exchange *talk) {
  wire_fields fields;
  const wire_result got = receive_following(talk, &fields, NULL, 0);
  return got == WIRE_OK && !has_types(&fields, ACK_NUMBERS, 0) ? WIRE_BROKEN : got;
}

wire_result exchange_receive_data(exchange *talk, void *place, uint32_t room, uint32_t *bytes) {
  wire_fields fields;
  const wire_result got = receive_following(talk, &fields, place, room);
  *bytes = got == WIRE_OK ? fields.bytes : 0;
  return got == WIRE_OK && !has_types(&fields, DATA_NUMBERS, TEXT) ? WIRE_BROKEN : got;
}

static void emit_answer(wire_output *output, const answer_t *answer) {
  wire_number(output, 1, answer->number);
  wire_number(output, 2, answer->state);
  wire_nested(output, answer->payload, answer->emit, answer->what);
}

void exchange_reply(exchange *talk, exchange_state state, uint32_t payload, wire_emitter *emit,
                    const void *what) {
  const answer_t answer = {talk->request.number, state, payload, emit, what};
  wire_output output;
  wire_begin(&output, &talk->peer);
  emit_answer(&output, &answer);
  wire_end(&output);
}

static void emit_ack(wire_output *output, const void *what) {
  const ack_t *ack = what;
  wire_number(output, 1, ack->param);
  wire_number(output, 2, ack->error);
}

void exchange_ack(exchange *talk, exchange_state state, uint32_t param) {
  exchange_reply(talk, state, PAYLOAD_ACK, emit_ack, &(ack_t){param, FAULT_NONE});
}

void exchange_refuse(exchange *talk, exchange_fault fault, uint32_t param) {
  exchange_reply(talk, STATE_ERROR, PAYLOAD_ACK, emit_ack, &(ack_t){param, fault});
}

static void emit_log(wire_output *output, const void *what) {
  const char *line = what;
  uint32_t count = 0;
  while (count < LOG_BYTES && line[count]) count++;
  wire_number(output, 1, LOG_LEVEL);
  wire_bytes(output, 2, line, count);
}

wire_result exchange_log(exchange *talk, const char *line) {
  exchange_reply(talk, STATE_WAITING, PAYLOAD_LOG, emit_log, line);
  return exchange_receive_ack(talk);
}
