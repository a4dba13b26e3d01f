/* SPDX-License-Identifier: Apache-2.0
 * A board with its networks behind the host's protocol.
 *
 * The server knows networks only as a table of descriptions with functions, so that it runs on a
 * processor without an NPU as well.
 */
#ifndef VALIDATION_H
#define VALIDATION_H

#include "wire_line.h"

#define VALIDATION_MOST_DIMENSIONS 8u
#define VALIDATION_MOST_ENGINES 16u /* as many as the debug unit has counters */

/* What a run counts at each epoch: bits of the host's option word. */
enum {
  COUNT_EPOCH_LEN = 1,
  COUNT_STRG_ACTIVE = 2,
  COUNT_STRG_HENV = 4,
  COUNT_BUSIF_RW_DATA = 8,
  COUNT_NPU_CACHE = 16,
  COUNT_STRG_I_ACTIVE = 32,
  COUNT_STRG_O_ACTIVE = 64,
  COUNT_ALL = 127
};

/* What ran an epoch block. */
typedef enum { BLOCK_HW, BLOCK_EXTRA, BLOCK_SW, BLOCK_HYBRID, BLOCK_EC } validation_block;

typedef struct {
  const char *name;
  uint32_t format; /* see validation_format */
  uint32_t element_bytes;
  uint32_t rank;
  uint32_t dims[VALIDATION_MOST_DIMENSIONS];
  float scale;
  int32_t zero_point;
  uint32_t address; /* as the host knows it; 0 for none */
  void *data;
} validation_tensor;

/* The kinds of elements that a format word tells, with their number of bits. */
typedef enum { ELEMENT_FLOAT = 1, ELEMENT_WHOLE = 2, ELEMENT_BOOL = 3 } validation_element;
#define validation_format(kind, is_signed, bits) \
  ((uint32_t)(is_signed) << 23 | (uint32_t)(kind) << 17 | (uint32_t)(bits) << 7 | 64u)

typedef struct {
  uint8_t engine;
  char way; /* 'i' from memory into the NPU, 'o' out of it */
  uint32_t cycles;
} validation_engine;

/* One executed epoch block; a count of the run that was not asked for is absent. */
typedef struct {
  int32_t number, last; /* last is negative in an extra block */
  uint32_t flags;       /* of the runtime */
  validation_block block;
  uint32_t mcu_cycles[3]; /* before, during and after the work of the NPU */
  bool has_npu_cycles, has_bursts, has_cache;
  uint32_t npu_cycles[3];
  char engine_way; /* 'i' or 'o' where one is counted, 'i' where both are; 0: no activity is */
  uint32_t active_engines, henv_engines;
  validation_engine active[VALIDATION_MOST_ENGINES]; /* all 'i', then all 'o', by number */
  validation_engine henv[VALIDATION_MOST_ENGINES];
  uint32_t bursts[2][2][4]; /* by bus interface, by way (write, read): 1, 2, 4 and 8 beats */
  uint32_t cache[8];        /* read: hit, miss, allocating, evicted; write: hit, ..., through */
} validation_node;

/* A whole inference. */
typedef struct {
  uint64_t mcu_cycles[3];
  uint64_t npu_core_cycles; /* of the nodes that were observed */
} validation_totals;

typedef struct validation_network validation_network;

/* What a run tells while it goes on; false from `node` ends it. */
typedef struct {
  bool each_node, with_tensors;
  uint32_t options;
  /* `tensors` of the node can be asked for until `node` returns. */
  bool (*node)(void *listener, const validation_network *network, const validation_node *node,
               uint32_t tensors);
  void *listener;
} validation_request;

struct validation_network {
  const char *name, *signature, *compiled, *runtime;
  uint32_t runtime_version, tool_version; /* major << 24 | minor << 16 | patch << 8 */
  uint64_t macc;
  uint32_t nodes, inputs, outputs;
  uint32_t activations_bytes, params_bytes;
  /* Before inputs are written, or NULL: what it does may clear the memory that they lie in. */
  bool (*prepare)(const validation_network *network);
  void (*input)(const validation_network *network, uint32_t index, validation_tensor *tensor);
  void (*output)(const validation_network *network, uint32_t index, validation_tensor *tensor);
  /* A tensor that the current node wrote. */
  void (*node_tensor)(const validation_network *network, uint32_t index,
                      validation_tensor *tensor);
  /* Inputs are in place. False when it failed; a run that `node` ended is none. */
  bool (*run)(const validation_network *network, const validation_request *request,
              validation_totals *totals);
  void *own;
};

/* Memory that hosts may look at. */
typedef struct {
  uint32_t address, bytes;
  uint8_t *data;
  bool is_writable;
} validation_memory;

typedef struct {
  uint32_t device_id;
  uint32_t mcu_hz, noc_hz, npu_hz, nic_hz;
  bool has_npu_cache;
  bool loads_networks; /* they came through the loader */
  const validation_network *networks;
  uint32_t network_count;
  const validation_memory *memories; /* none: memory is not served */
  uint32_t memory_count;
  /* Networks that could not be installed: index << 16 | low half of the loader's code. */
  const uint32_t *failures;
  uint32_t failure_count;
  /* Called after the host wrote there: what the NPU has in its cache is old. */
  void (*memory_written)(uint32_t address, uint32_t bytes);
} validation_board;

uint32_t validation_elements(const validation_tensor *tensor);
uint32_t validation_bytes(const validation_tensor *tensor);

/* Answers requests for ever. */
void validation_serve(const validation_board *board, const wire_line *line);

#endif
