/* SPDX-License-Identifier: Apache-2.0
 * The NPU cache: commands and monitors. */
#include "debug_unit.h"

/* The cache lies below the NPU: offsets wrap. */
#define REGISTER(offset) (0xFFFFFC00u + (offset))
#define CR1 REGISTER(0x00u)
#define SR REGISTER(0x04u)
#define FCR REGISTER(0x0Cu)
#define MONITOR(n) REGISTER(0x10u + 4u * (n))
#define CR2 REGISTER(0x100u)
#define RANGE_START REGISTER(0x104u)
#define RANGE_END REGISTER(0x108u)

#define ENABLE (1u << 0)
#define INVALIDATE (1u << 1)
/* Two bits that let monitors count, then two that set them to zero, four times. */
#define MONITORS_COUNT 0x33330000u
#define MONITORS_ZERO 0xCCCC0000u
#define BUSY (1u << 0)
#define BUSY_WITH_COMMAND (1u << 3)
#define COMMAND_ENDED (1u << 4)
#define ENDED (1u << 1 | COMMAND_ENDED)
#define START (1u << 0)
#define CLEAN (1u << 1)
#define CLEAN_INVALIDATE (3u << 1)
#define LINE_BYTES 64u

static bool becomes(uint32_t mask, uint32_t wanted)
{
  for (uint32_t i = 0; i < NPU_POLL_LIMIT; i++)
    if ((npu_read(SR) & mask) == wanted)
      return true;
  return false;
}

static bool is_idle(void) { return becomes(BUSY | BUSY_WITH_COMMAND, 0); }

void npu_cache_enable(void)
{
  if (is_idle())
    npu_write(CR1, npu_read(CR1) | ENABLE);
}

void npu_cache_invalidate(void)
{
  if (!is_idle())
    return;
  npu_write(FCR, ENDED);
  npu_write(CR1, npu_read(CR1) | INVALIDATE);
  becomes(BUSY, 0);
  npu_write(CR1, npu_read(CR1) & ~INVALIDATE);
  npu_write(FCR, ENDED);
}

static void command(uint32_t what, uint32_t address, uint32_t bytes)
{
  if (!bytes || !is_idle())
    return;
  npu_write(FCR, ENDED);
  npu_write(RANGE_START, address & ~(LINE_BYTES - 1u));
  npu_write(RANGE_END, (address + bytes - 1u) & ~(LINE_BYTES - 1u));
  npu_write(CR2, what);
  npu_write(CR2, what | START);
  becomes(COMMAND_ENDED, COMMAND_ENDED);
  npu_write(FCR, ENDED);
}

void npu_cache_clean(uint32_t address, uint32_t bytes) { command(CLEAN, address, bytes); }

void npu_cache_clean_invalidate(uint32_t address, uint32_t bytes)
{
  command(CLEAN_INVALIDATE, address, bytes);
}

void npu_cache_monitors_start(void)
{
  uint32_t control = npu_read(CR1) & ~(MONITORS_COUNT | MONITORS_ZERO);

  npu_write(CR1, control | MONITORS_ZERO);
  npu_write(CR1, control | MONITORS_COUNT);
}

void npu_cache_monitors_stop(void)
{
  npu_write(CR1, npu_read(CR1) & ~(MONITORS_COUNT | MONITORS_ZERO));
}

void npu_cache_monitors_read(uint32_t *counts)
{
  for (uint32_t i = 0; i < NPU_CACHE_MONITORS; i++)
    counts[i] = npu_read(MONITOR(i));
}
