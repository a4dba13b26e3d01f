/* SPDX-License-Identifier: Apache-2.0
 * Reading, writing and summing up the board's memory for a host. */
#ifndef SERVER_MEMORY_H
#define SERVER_MEMORY_H

#include "exchange.h"
#include "validation.h"

wire_result server_read_memory(exchange *talk, const validation_board *board);
wire_result server_write_memory(exchange *talk, const validation_board *board);
wire_result server_sum_memory(exchange *talk, const validation_board *board);

#endif
