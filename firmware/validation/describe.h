/* SPDX-License-Identifier: Apache-2.0
 * A board, its networks and what ran on it, as messages. */
#ifndef DESCRIBE_H
#define DESCRIBE_H

#include "exchange.h"
#include "validation.h"

enum {
  TENSOR_INPUT = 1,
  TENSOR_OUTPUT = 2,
  TENSOR_INTERNAL = 4,
  TENSOR_MEMPOOL = 8,
  TENSOR_LAST = 256,
  TENSOR_NO_DATA = 512,
  TENSOR_IN_MEMPOOL = 1024
};

enum { OPERATOR_INTERNAL = 1, OPERATOR_WITHOUT_TENSOR = 4 };

/* `what` of each: a board, a network, and the records below. */
wire_emitter describe_sync, describe_system, describe_model, describe_node, describe_inference,
    describe_tensor, describe_data;

typedef struct {
  const validation_node *node;
  int32_t current; /* the last epoch number that was not negative */
  uint32_t tensors, mcu_hz;
} described_node;

typedef struct {
  const validation_totals *totals;
  uint32_t mcu_hz;
} described_inference;

typedef struct {
  const validation_tensor *tensor;
  uint32_t flags;
} described_tensor;

typedef struct {
  uint32_t address, bytes;
  const void *data;
} described_data;

bool validation_is_extra(const validation_node *node);
uint32_t describe_operator_type(const validation_node *node, uint32_t tensors);

#endif
