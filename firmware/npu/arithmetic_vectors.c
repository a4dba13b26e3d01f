/* SPDX-License-Identifier: Apache-2.0
 * Loads the coefficients of an arithmetic unit. Entry i is two words: A low and B high, then C. */
#include "arithmetic.h"

#define ENTRY_WORDS 2u
/* Entries that the first of the two windows onto the memory reaches. */
#define FIRST_WINDOW (NPU_MEMORY_WORDS / ENTRY_WORDS)

typedef LL_Arithacc_InitTypeDef arith_conf;
enum { A, B, C };

bool npu_arithmetic_widths(const arith_conf *conf)
{
  for (int i = A; i <= C; i++) {
    unsigned bits = conf->vec_precision[i];

    if (bits != 8 && bits != 16 && bits != 32)
      return false;
  }
  return true;
}

/* Number i of a vector of signed numbers, little-endian. */
static uint32_t number_at(uintptr_t vector, unsigned bits, uint32_t i)
{
  uintptr_t address = vector + i * (bits / 8u);
  uint32_t value = 0;

  for (unsigned at = 0; at < bits; at += 8u)
    value |= (uint32_t)npu_load(address++) << at;
  if (bits == 8)
    return (uint32_t)(int8_t)value;
  return bits == 16 ? (uint32_t)(int16_t)value : value;
}

static uint32_t entry_of(npuscope_pointer vector, short scalar, unsigned bits, uint32_t i)
{
  return vector.i ? number_at(vector.i, bits, i) : (uint32_t)scalar;
}

static void store(uint32_t page, uint32_t index, uint32_t a, uint32_t b, uint32_t c)
{
  npu_write(NPU_OFFSET(page, index), (a & 0xffffu) | b << 16);
  npu_write(NPU_OFFSET(page, index + 1u), c & 0xffffu);
}

static void load_entry(uint32_t page, uint32_t index, const arith_conf *conf, uint32_t i)
{
  const unsigned char *bits = conf->vec_precision;
  uint32_t a = entry_of(conf->A_vector, conf->A_scalar, bits[A], i);
  uint32_t b = entry_of(conf->B_vector, conf->B_scalar, bits[B], i);
  uint32_t c = entry_of(conf->C_vector, conf->C_scalar, bits[C], i);

  /* How a configuration asks for a negated vector. */
  if (conf->C_vector.i && conf->C_scalar == -1)
    c = 0u - c;
  if (conf->combinebc && conf->C_vector.i)
    b = c >> 16;
  store(page, index, a, b, c);
}

void npu_arithmetic_load(uint32_t page, const arith_conf *conf, uint32_t entries)
{
  uint32_t translate = NPU_OFFSET(page, NPU_ARITH_TRANSLATEADDR);

  npu_write(translate, 1);
  for (uint32_t i = 0; i < entries; i++) {
    uint32_t first = i < FIRST_WINDOW ? 0 : NPU_ARITH_WINDOW_ENTRIES;

    if (i == FIRST_WINDOW)
      npu_write(translate, 0);
    load_entry(page, NPU_MEMORY + ENTRY_WORDS * (i - first), conf, i);
  }
}
