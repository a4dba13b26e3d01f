/* SPDX-License-Identifier: Apache-2.0
 * The debug and trace unit as the drivers know it, and the monitors of the NPU cache. */
#ifndef DEBUG_UNIT_H
#define DEBUG_UNIT_H

#include "ll_aton_dbgtrc.h"
#include "npu.h"

#define NPU_COUNTERS 16u
#define NPU_ENGINES NPU_STRENG_COUNT

/* The NPU cache (CACHEAXI). Monitors: read hit, miss, allocating miss, eviction; write hit, miss,
 * allocating miss, through. */
#define NPU_CACHE_MONITORS 8u
void npu_cache_enable(void);
void npu_cache_invalidate(void);
void npu_cache_clean(uint32_t address, uint32_t bytes);
void npu_cache_clean_invalidate(uint32_t address, uint32_t bytes);
void npu_cache_monitors_start(void);
void npu_cache_monitors_stop(void);
void npu_cache_monitors_read(uint32_t *counts);

#endif
