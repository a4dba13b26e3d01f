/* SPDX-License-Identifier: Apache-2.0
 * Ticks, calls, masks and events: counts of all, floats kept over interrupts. */
#include "bare.h"

#define PERIOD 10000u

static volatile uint32_t ticks, calls;
static volatile float scale = 3.5f;

void on_tick(void)
{
  /* Floating-point registers of what was interrupted must survive this. */
  scale = scale * 1.0f;
  ticks++;
}

void on_call(void) { calls++; }

static uint32_t ticks_while_masked(void)
{
  uint32_t before;

  MASK_INTERRUPTS();
  before = ticks;
  WAIT_FOR_INTERRUPT();
  before = ticks - before;
  ALLOW_INTERRUPTS();
  return before;
}

static float sum_of_squares(uint32_t count)
{
  float sum = 0.0f;

  for (uint32_t i = 0; i < count; i++)
    sum += (float)(i % 7u) * (float)(i % 7u) * 0.25f;
  return sum;
}

int main(void)
{
  uint32_t start;

  report[1] = WORD(0xE000ED00u);
  SYSTICK_RELOAD = PERIOD - 1u;
  SYSTICK_CONTROL = 7u;
  start = CYCLES;
  while (ticks < 10u)
    WAIT_FOR_INTERRUPT();
  report[2] = CYCLES - start;
  report[3] = ticks_while_masked();
  report[4] = ticks;
  __asm volatile("svc 3" ::: "memory");
  report[5] = calls;
  /* The tick's own event lets the first wait pass. */
  WAIT_FOR_EVENT();
  start = ticks;
  WAIT_FOR_EVENT();
  report[6] = ticks - start;
  report[7] = (uint32_t)(sum_of_squares(70000u) * 4.0f);
  start = ticks;
  while (ticks < start + 3u) {
  }
  report[8] = 1;
  SYSTICK_CONTROL = 0;
  return 77;
}
