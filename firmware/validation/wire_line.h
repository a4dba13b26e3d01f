/* SPDX-License-Identifier: Apache-2.0
 * Bytes to and from the host, over whatever the board has. */
#ifndef WIRE_LINE_H
#define WIRE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  /* The next byte; false when the time is over. */
  bool (*read)(uint8_t *byte, uint32_t timeout_ms);
  void (*write)(const uint8_t *bytes, uint32_t count);
  /* Between the packets of a message a slow host may think, inside one it may not. */
  uint32_t silence_ms, packet_gap_ms, message_gap_ms, idle_ms;
} wire_line;

#define WIRE_SILENCE_MS 200u
#define WIRE_PACKET_GAP_MS 5000u
#define WIRE_MESSAGE_GAP_MS 10000u
#define WIRE_IDLE_MS 600000u

#endif
