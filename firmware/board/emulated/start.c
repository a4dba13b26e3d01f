/* SPDX-License-Identifier: Apache-2.0
 * From reset to the application, the vector table, and what happens on a fault. */
#include "board.h"
#include "npuscope_memory.h"
#include "npuscope_npu.h"

#define CPACR BOARD_WORD(0xE000ED88u)
#define CFSR BOARD_WORD(0xE000ED28u)
#define HFSR BOARD_WORD(0xE000ED2Cu)
#define DEBUG_CONTROL BOARD_WORD(0xE000EDFCu)
#define TRACE_ON (1u << 24)
#define CYCLES_CONTROL BOARD_WORD(0xE0001000u)
#define CYCLES_ON (1u << 0)
#define FLOATING_POINT (0xFu << 20)
#define SYSTEM_EXCEPTIONS 16u

extern uint32_t board_stack_top[], board_bss_start[], board_bss_end[];

void board_fault(void);

void board_start(void) {
  CPACR |= FLOATING_POINT;
  DEBUG_CONTROL |= TRACE_ON;
  CYCLES_CONTROL |= CYCLES_ON;
  __asm volatile("dsb sy\n isb sy" ::: "memory");
  memset(board_bss_start, 0, (uintptr_t)board_bss_end - (uintptr_t)board_bss_start);
  main();
}

/* `frame` is what the processor put on the stack: r0 to r3, r12, lr, pc, psr. */
__attribute__((used)) static void fault_with(const uint32_t *frame) {
  BOARD_MAILBOX->fault[0] = frame[6];
  BOARD_MAILBOX->fault[1] = frame[5];
  BOARD_MAILBOX->fault[2] = CFSR;
  BOARD_MAILBOX->fault[3] = HFSR;
  BOARD_MAILBOX->state = MAILBOX_FAULT;
  /* The emulator takes it as the fault that it is; a real processor would stop in a debugger. */
  for (;;) __asm volatile("bkpt 0");
}

__attribute__((naked)) void board_fault(void) {
  __asm volatile(
      "mrs r0, msp\n"
      "b %c0\n" ::"i"(fault_with));
}

typedef void (*handler_t)(void);

/* Exceptions without a handler of their own are faults; so are lines that nobody opened. */
__attribute__((used, section(".vectors"))) static const struct {
  uint32_t *stack;
  handler_t reset;
  handler_t faults[SYSTEM_EXCEPTIONS - 2];
  handler_t before_npu[NPU_INTERRUPT];
  handler_t npu;
  handler_t behind_npu[UART_INTERRUPT - NPU_INTERRUPT];
} vectors = {
    .stack = board_stack_top,
    .reset = board_start,
    .faults = {[0 ... SYSTEM_EXCEPTIONS - 3] = board_fault},
    .before_npu = {[0 ... NPU_INTERRUPT - 1] = board_fault},
    .npu = npuscope_npu_interrupt,
    .behind_npu = {[0 ... UART_INTERRUPT - NPU_INTERRUPT - 1] = board_fault},
};
