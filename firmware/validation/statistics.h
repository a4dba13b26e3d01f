/* SPDX-License-Identifier: Apache-2.0
 * Counters as the text lines that carry them. */
#ifndef STATISTICS_H
#define STATISTICS_H

#include "exchange.h"
#include "validation.h"

/* What a board says of itself before each network's description. */
wire_result statistics_send_config(exchange *talk, const validation_board *board);

/* Where a node stands: its index, and the last epoch number that was not negative. */
typedef struct {
  uint32_t index;
  int32_t current;
  uint32_t tensors;
} statistics_place;

/* All lines of a node, in the order of the vendor's firmware. */
wire_result statistics_send_node(exchange *talk, const validation_node *node,
                                 const statistics_place *place);

#endif
