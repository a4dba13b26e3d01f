/* SPDX-License-Identifier: Apache-2.0
 * What the small test programs share: registers, a report in memory, serial output. */
#ifndef BARE_H
#define BARE_H

#include <stdbool.h>
#include <stdint.h>

#include "hardware.h"

#define WORD(address) (*(volatile uint32_t *)(address))
#define NVIC_ENABLE(line) (WORD(0xE000E100u + 4u * ((line) / 32u)) = 1u << ((line) % 32u))
#define SYSTICK_CONTROL WORD(0xE000E010u)
#define SYSTICK_RELOAD WORD(0xE000E014u)
#define CYCLES WORD(CYCLE_COUNTER_ADDRESS)
#define WAIT_FOR_INTERRUPT() __asm volatile("wfi" ::: "memory")
#define WAIT_FOR_EVENT() __asm volatile("wfe" ::: "memory")
#define MASK_INTERRUPTS() __asm volatile("cpsid i" ::: "memory")
#define ALLOW_INTERRUPTS() __asm volatile("cpsie i" ::: "memory")

/* The test reads this, by its name. */
extern volatile uint32_t report[64];

/* Each program has its own; a handler that it does not name stops it. */
int main(void);
void on_tick(void);
void on_call(void);
void on_npu(void);
void on_uart(void);

static inline void put_byte(uint8_t byte)
{
  while (!(WORD(UART_ADDRESS + 0x1cu) & UART_ROOM)) {
  }
  WORD(UART_ADDRESS + 0x28u) = byte;
}

static inline uint8_t get_byte(void)
{
  while (!(WORD(UART_ADDRESS + 0x1cu) & UART_RECEIVED)) {
  }
  return (uint8_t)WORD(UART_ADDRESS + 0x24u);
}

#endif
