/* SPDX-License-Identifier: Apache-2.0
 * Gives back every byte with its bits inverted: polled, or by interrupt after a 0xff. */
#include "bare.h"

static volatile bool by_interrupt;

void on_uart(void)
{
  report[1]++;
  put_byte((uint8_t)~get_byte());
}

int main(void)
{
  while (!by_interrupt) {
    uint8_t byte = get_byte();

    put_byte((uint8_t)~byte);
    by_interrupt = byte == 0xffu;
  }
  WORD(UART_ADDRESS) |= 1u << 5;
  NVIC_ENABLE(UART_INTERRUPT);
  for (;;)
    WAIT_FOR_INTERRUPT();
}
