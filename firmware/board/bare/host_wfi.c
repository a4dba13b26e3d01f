/* SPDX-License-Identifier: Apache-2.0
 * A host that reads and writes the board's memory while the processor sleeps. */
#include "mailbox.h"
#include "npuscope_runtime.h"

/* The emulator knows one way to sleep. */
void npuscope_wait_for_event(void) { __asm volatile("wfi" ::: "memory"); }

void npuscope_next_command(npuscope_mailbox *box) {
  volatile uint32_t *state = &box->state;
  *state = NPUSCOPE_WAITING;
  __asm volatile("wfi" ::: "memory");
  *state = NPUSCOPE_BUSY;
}

void npuscope_command_done(npuscope_mailbox *box) { (void)box; }

void npuscope_report_fault(npuscope_mailbox *box) {
  for (;;) npuscope_next_command(box);
}
