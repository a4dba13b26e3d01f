/* SPDX-License-Identifier: Apache-2.0
 * memcpy and its kin, for firmware and images alike. */
#include "npuscope_memory.h"

#include <stdint.h>

/* A compiler would turn these loops into calls of the very functions they are in. */
#ifdef __clang__
#define PLAIN __attribute__((no_builtin, used))
#else
#define PLAIN __attribute__((optimize("no-tree-loop-distribute-patterns"), used))
#endif

typedef uint32_t __attribute__((may_alias)) word_t;

static int are_words(const void *a, const void *b) {
  return (((uintptr_t)a | (uintptr_t)b) & 3u) == 0;
}

PLAIN void *memcpy(void *restrict target, const void *restrict source, size_t bytes) {
  uint8_t *to = target;
  const uint8_t *from = source;
  if (are_words(to, from))
    for (; bytes >= 4; bytes -= 4, to += 4, from += 4) *(word_t *)to = *(const word_t *)from;
  while (bytes--) *to++ = *from++;
  return target;
}

PLAIN void *memmove(void *target, const void *source, size_t bytes) {
  uint8_t *to = target;
  const uint8_t *from = source;
  if ((uintptr_t)to - (uintptr_t)from >= bytes) return memcpy(target, source, bytes);
  while (bytes--) to[bytes] = from[bytes];
  return target;
}

PLAIN void *memset(void *target, int value, size_t bytes) {
  uint8_t *to = target;
  const uint32_t word = (uint8_t)value * 0x01010101u;
  if (are_words(to, to))
    for (; bytes >= 4; bytes -= 4, to += 4) *(word_t *)to = word;
  while (bytes--) *to++ = (uint8_t)value;
  return target;
}

PLAIN int memcmp(const void *a, const void *b, size_t bytes) {
  const uint8_t *left = a, *right = b;
  for (; bytes--; left++, right++)
    if (*left != *right) return *left - *right;
  return 0;
}

/* The same under the names of the Arm run-time ABI: the suffix is an alignment that the caller
 * promises, and memset has its last two arguments the other way round. */
#define COPY(name, function)                                                   \
  void name(void *target, const void *source, size_t bytes);                   \
  PLAIN void name(void *target, const void *source, size_t bytes) {            \
    function(target, source, bytes);                                           \
  }
#define SET(name)                                                              \
  void name(void *target, size_t bytes, int value);                            \
  PLAIN void name(void *target, size_t bytes, int value) { memset(target, value, bytes); }
#define CLEAR(name)                                                            \
  void name(void *target, size_t bytes);                                       \
  PLAIN void name(void *target, size_t bytes) { memset(target, 0, bytes); }

COPY(__aeabi_memcpy, memcpy)
COPY(__aeabi_memcpy4, memcpy)
COPY(__aeabi_memcpy8, memcpy)
COPY(__aeabi_memmove, memmove)
COPY(__aeabi_memmove4, memmove)
COPY(__aeabi_memmove8, memmove)
SET(__aeabi_memset)
SET(__aeabi_memset4)
SET(__aeabi_memset8)
CLEAR(__aeabi_memclr)
CLEAR(__aeabi_memclr4)
CLEAR(__aeabi_memclr8)
