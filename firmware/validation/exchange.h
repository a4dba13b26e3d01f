/* SPDX-License-Identifier: Apache-2.0
 * The board's end of a conversation: requests and data in, answers out.
 *
 * What the host sends has no envelope, so it is read by context. A host that gives up and starts
 * again is still understood: only a request has a fifth field.
 */
#ifndef EXCHANGE_H
#define EXCHANGE_H

#include "wire_fields.h"

typedef enum {
  STATE_IDLE,
  STATE_WAITING,
  STATE_PROCESSING,
  STATE_DONE,
  STATE_ERROR
} exchange_state;

typedef enum {
  FAULT_NONE = 0,
  FAULT_INVALID_SIZE = 1,
  FAULT_INVALID_PARAM = 4,
  FAULT_INVALID_CMD = 6,
  FAULT_GENERIC = 10
} exchange_fault;

/* Fields of an answer that hold the kinds of payload. */
enum {
  PAYLOAD_SYNC = 10,
  PAYLOAD_SYSTEM = 11,
  PAYLOAD_ACK = 12,
  PAYLOAD_LOG = 13,
  PAYLOAD_DATA = 15,
  PAYLOAD_OPERATOR = 16,
  PAYLOAD_TENSOR = 17,
  PAYLOAD_MODEL = 22
};

typedef struct {
  uint32_t number, command, param, option;
  uint32_t name_bytes;
  uint8_t name[WIRE_TEXT_BYTES];
} exchange_request;

typedef struct {
  wire_peer peer;
  uint32_t limit_bytes;     /* of a message */
  exchange_request request; /* its number goes into every answer */
  exchange_request pending; /* after INTERRUPTED */
} exchange;

/* The next request. */
wire_result exchange_next(exchange *talk);
wire_result exchange_receive_ack(exchange *talk);
/* Data, as far as there is room for it; `bytes` is how much the host sent. */
wire_result exchange_receive_data(exchange *talk, void *place, uint32_t room, uint32_t *bytes);

void exchange_reply(exchange *talk, exchange_state state, uint32_t payload, wire_emitter *emit,
                    const void *what);
void exchange_ack(exchange *talk, exchange_state state, uint32_t param);
void exchange_refuse(exchange *talk, exchange_fault fault, uint32_t param);
/* A line for the host, which acknowledges it. */
wire_result exchange_log(exchange *talk, const char *line);

/* A host of the oldest revision prints lines of statistics instead of keeping them. */
static inline bool exchange_takes_statistics(const exchange *talk) {
  return !talk->peer.is_oldest;
}

#endif
