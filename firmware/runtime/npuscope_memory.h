/* SPDX-License-Identifier: Apache-2.0
 * The memory functions that compilers call by themselves; there is no C library. */
#ifndef NPUSCOPE_MEMORY_H
#define NPUSCOPE_MEMORY_H

#include <stddef.h>

void *memcpy(void *restrict target, const void *restrict source, size_t bytes);
void *memmove(void *target, const void *source, size_t bytes);
void *memset(void *target, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);

#endif
