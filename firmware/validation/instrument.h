/* SPDX-License-Identifier: Apache-2.0
 * The runtime's callbacks: counters are set up before an epoch and read after it. */
#ifndef INSTRUMENT_H
#define INSTRUMENT_H

#include "ll_aton_runtime.h"
#include "validation.h"

typedef void instrument_listener(void *who, const validation_node *node,
                                 const NPUSCOPE_ITEM *last_block);

/* What the next inference counts, and who hears of each epoch. */
void instrument_start(uint32_t options, instrument_listener *listener, void *who);

/* What a run with these options really counts: one choice for the counters, and the cache. */
uint32_t instrument_granted(uint32_t options);

/* One epoch may be several blocks; they are one node. */
bool instrument_ends_node(const NPUSCOPE_ITEM *block);

/* For SetRuntimeCallback and SetNetworkCallback. */
void instrument_on_runtime(LL_ATON_RT_Callbacktype_t type);
void instrument_on_block(LL_ATON_RT_Callbacktype_t type, const NN_Instance_TypeDef *nn_instance,
                         const NPUSCOPE_ITEM *block);

/* The processor's cycle counter; the board has it. */
uint32_t instrument_mcu_cycles(void);

#endif
