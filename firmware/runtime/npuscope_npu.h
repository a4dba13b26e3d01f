/* SPDX-License-Identifier: Apache-2.0
 * The NPU under the runtime: its interrupts, its cache, what a block waits for. */
#ifndef NPUSCOPE_NPU_H
#define NPUSCOPE_NPU_H

#include "npuscope_runtime.h"

/* Once, before the first network runs: units, interrupt controller, cache. */
int npuscope_npu_init(void);

/* For the vector table of the board. */
void npuscope_npu_interrupt(void);

/* The first error of the drivers since the last call, 0 if there was none. A block that met one
 * counts as finished: what it waits for would never come. */
int npuscope_npu_take_error(void);

void npuscope_clean_invalidate_npu_cache(uintptr_t address, uint32_t size);

/* The board opens the NPU's line in the processor's interrupt controller. */
void npuscope_npu_open_line(void);

#endif
