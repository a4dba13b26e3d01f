/* SPDX-License-Identifier: Apache-2.0
 * For code that is compiled without any library: a network.c sees no other headers. */
#ifndef NPUSCOPE_STRING_H
#define NPUSCOPE_STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *left, const void *right, size_t bytes);

#endif
