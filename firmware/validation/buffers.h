/* SPDX-License-Identifier: Apache-2.0
 * Buffers of a loaded network as tensors of the protocol. */
#ifndef BUFFERS_H
#define BUFFERS_H

#include "ll_aton_runtime.h"
#include "validation.h"

uint32_t buffers_inputs(const NN_Instance_TypeDef *nn_instance);
uint32_t buffers_outputs(const NN_Instance_TypeDef *nn_instance);
void buffers_describe_input(const NN_Instance_TypeDef *nn_instance, uint32_t index,
                            validation_tensor *tensor);
void buffers_describe_output(const NN_Instance_TypeDef *nn_instance, uint32_t index,
                             validation_tensor *tensor);
/* Any entry of a table. */
void buffers_describe(const LL_Buffer_InfoTypeDef *info, validation_tensor *tensor);

/* What the last epoch of a block wrote, as far as the tables tell. */
uint32_t buffers_written(const NN_Instance_TypeDef *nn_instance, const NPUSCOPE_ITEM *block,
                         const void **found, uint32_t most);

/* Memory for inputs and outputs that have none of their own; false when it is too small. */
typedef struct {
  uintptr_t next, end;
} buffers_room;
bool buffers_give(const NN_Instance_TypeDef *nn_instance, buffers_room *room);

#endif
