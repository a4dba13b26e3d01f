/* SPDX-License-Identifier: Apache-2.0
 * One inference for a host: inputs in, epochs and counters, outputs out. */
#ifndef SERVER_RUN_H
#define SERVER_RUN_H

#include "exchange.h"
#include "validation.h"

wire_result server_run(exchange *talk, const validation_board *board,
                       const validation_network *network);

#endif
