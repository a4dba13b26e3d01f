/* SPDX-License-Identifier: Apache-2.0
 * Parts of the application of the emulated board. */
#ifndef BOARD_H
#define BOARD_H

#include "hardware.h"
#include "mailbox.h"
#include "wire_line.h"

#define BOARD_WORD(address) (*(volatile uint32_t *)(address))
#define BOARD_MAILBOX ((volatile mailbox *)MAILBOX_ADDRESS)

/* The serial port as the line to the host. */
const wire_line *board_line(uint32_t mcu_hz);

void board_start(void); /* after reset */
int main(void);         /* never returns */

#endif
