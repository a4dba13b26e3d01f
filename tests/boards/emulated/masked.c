/* SPDX-License-Identifier: Apache-2.0
 * Sleeps with interrupts held back until a byte comes or the timer passes; no handler runs. */
#include "bare.h"

#define STATUS WORD(UART_ADDRESS + 0x1cu)
#define LINE(base) WORD((base) + 4u * (UART_INTERRUPT / 32u))
#define BIT (1u << UART_INTERRUPT % 32u)

static bool sleep_once(void)
{
  LINE(0xE000E100u) = BIT;
  if (!(STATUS & UART_RECEIVED))
    WAIT_FOR_INTERRUPT();
  LINE(0xE000E180u) = BIT;
  LINE(0xE000E280u) = BIT;
  return SYSTICK_CONTROL >> 16 & 1u;
}

int main(void)
{
  MASK_INTERRUPTS();
  WORD(UART_ADDRESS) = 1u << 5;
  SYSTICK_RELOAD = 7999u;
  SYSTICK_CONTROL = 7u;
  while (report[1] < 3u) {
    if (sleep_once()) {
      report[1]++;
      WORD(0xE000ED04u) = 1u << 25;
    }
  }
  SYSTICK_CONTROL = 0;
  WORD(0xE000ED04u) = 1u << 25;
  for (;;) {
    while (!(STATUS & UART_RECEIVED)) {
      sleep_once();
      report[2]++;
    }
    put_byte((uint8_t)~get_byte());
  }
}
