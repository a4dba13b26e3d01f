/* SPDX-License-Identifier: Apache-2.0
 * From reset to the loop over commands, and what happens on a fault. */
#include "mailbox.h"
#include "npuscope_memory.h"

#define SYSTEM(offset) (*(volatile uint32_t *)(0xE000E000u + (offset)))
#define CPACR SYSTEM(0xD88)
#define CCR SYSTEM(0xD14)
#define CFSR SYSTEM(0xD28)
#define HFSR SYSTEM(0xD2C)
#define LOW_OVERHEAD_BRANCHES (1u << 19)
#define FLOATING_POINT (0xFu << 20)

extern uint32_t npuscope_stack_top[], npuscope_bss_start[], npuscope_bss_end[];

void npuscope_reset(void);
void npuscope_fault(void);

static void run(void) {
  for (;;) {
    npuscope_next_command(&npuscope_box);
    npuscope_execute(&npuscope_box);
    npuscope_command_done(&npuscope_box);
  }
}

void npuscope_reset(void) {
  CPACR |= FLOATING_POINT;
  CCR |= LOW_OVERHEAD_BRANCHES;
  __asm volatile("dsb sy\n isb sy" ::: "memory");
  memset(npuscope_bss_start, 0,
         (uintptr_t)npuscope_bss_end - (uintptr_t)npuscope_bss_start);
  run();
}

/* `frame` is what the processor put on the stack: r0 to r3, r12, lr, pc, psr. */
__attribute__((used)) static void fault_with(const uint32_t *frame) {
  npuscope_box.status = NPUSCOPE_STATUS_FAULT;
  npuscope_box.results[0] = frame[6];
  npuscope_box.results[1] = frame[5];
  npuscope_box.results[2] = CFSR;
  npuscope_box.results[3] = HFSR;
  npuscope_report_fault(&npuscope_box);
}

__attribute__((naked)) void npuscope_fault(void) {
  __asm volatile(
      "mrs r0, msp\n"
      "b %c0\n" ::"i"(fault_with));
}

typedef void (*handler_t)(void);

__attribute__((used, section(".vectors"))) static const struct {
  uint32_t *stack;
  handler_t handlers[15];
} vectors = {
    npuscope_stack_top,
    {npuscope_reset, npuscope_fault, npuscope_fault, npuscope_fault, npuscope_fault,
     npuscope_fault, npuscope_fault, 0, 0, 0, npuscope_fault, npuscope_fault, 0, npuscope_fault,
     npuscope_fault},
};
