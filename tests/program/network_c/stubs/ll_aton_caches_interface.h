/* SPDX-License-Identifier: Apache-2.0
 * Just enough declarations of the runtime interface to compile a network.c in tests. */
#ifndef STUB_LL_ATON_CACHES_INTERFACE_H
#define STUB_LL_ATON_CACHES_INTERFACE_H

#include <stdint.h>

void LL_ATON_Cache_MCU_Clean_Range(uintptr_t virtual_addr, uint32_t size);
void LL_ATON_Cache_MCU_Invalidate_Range(uintptr_t virtual_addr, uint32_t size);

#endif
