/* SPDX-License-Identifier: Apache-2.0
 * Behind the runtime's interface: what firmware with an NPU replaces, and lists of blocks that
 * a library function puts between two epochs. */
#ifndef NPUSCOPE_RUNTIME_H
#define NPUSCOPE_RUNTIME_H

#include "ll_aton_runtime.h"

/* Why the network stands still; "" while it does not. */
const char *npuscope_runtime_reason(const NN_Instance_TypeDef *nn_instance);

/* Run a list, which ends with last_eb, after the current block: for hybrid epochs, one level
 * deep. False when a list is already under way. */
bool npuscope_insert_epoch_blocks(NN_Instance_TypeDef *nn_instance, const NPUSCOPE_ITEM *blocks);

/* Weak; in this order for a block that needs the NPU. Firmware without one refuses at the first:
 * start takes the NPU and its wait mask, false if there is none; run_blob starts the epoch
 * controller; finished asks whether all that the block waits for is there; stop gives it back. */
bool npuscope_start_npu(const NN_Instance_TypeDef *nn_instance, const NPUSCOPE_ITEM *block);
void npuscope_run_blob(const NN_Instance_TypeDef *nn_instance, const NPUSCOPE_ITEM *block);
bool npuscope_npu_finished(const NN_Instance_TypeDef *nn_instance, const NPUSCOPE_ITEM *block);
void npuscope_stop_npu(const NN_Instance_TypeDef *nn_instance, const NPUSCOPE_ITEM *block);

/* Weak; the processor sleeps until something happens. */
void npuscope_wait_for_event(void);

#endif
