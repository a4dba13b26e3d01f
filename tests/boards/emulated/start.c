/* SPDX-License-Identifier: Apache-2.0
 * Vector table and start of the small test programs. */
#include "bare.h"

volatile uint32_t report[64];

extern uint32_t bare_stack_top[], bare_bss_start[], bare_bss_end[];

void bare_reset(void);

static void stop(void)
{
  for (;;)
    __asm volatile("bkpt 0");
}

__attribute__((weak)) void on_tick(void) { stop(); }
__attribute__((weak)) void on_call(void) { stop(); }
__attribute__((weak)) void on_npu(void) { stop(); }
__attribute__((weak)) void on_uart(void) { stop(); }

void bare_reset(void)
{
  WORD(0xE000ED88u) |= 0xfu << 20;
  for (uint32_t *word = bare_bss_start; word < bare_bss_end; word++)
    *word = 0;
  report[0] = (uint32_t)main();
  for (;;)
    WAIT_FOR_INTERRUPT();
}

typedef void (*handler)(void);

__attribute__((used, section(".vectors"))) static const struct {
  uint32_t *stack;
  handler system[15];
  handler lines[UART_INTERRUPT + 1];
} vectors = {
  bare_stack_top,
  { bare_reset, stop, stop, stop, stop, stop, 0, 0, 0, 0, on_call, stop, 0, stop, on_tick },
  { [NPU_INTERRUPT] = on_npu, [UART_INTERRUPT] = on_uart },
};
