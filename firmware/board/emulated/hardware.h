/* SPDX-License-Identifier: Apache-2.0
 * The emulated board: a Cortex-M33 in the memory map of the STM32N6570-DK, with the NPU behind
 * its registers. The Python side (npuscope.boards.emulated) has the same numbers. */
#ifndef HARDWARE_H
#define HARDWARE_H

/* Internal memories and peripherals have a secure address and, below it, a non-secure one. */
#if defined(NPUSCOPE_SECURE) && !NPUSCOPE_SECURE
#define BOARD_SEEN(address) ((address) - 0x10000000u)
#else
#define BOARD_SEEN(address) (address)
#endif

/* Internal RAM is one stretch; the firmware lies at its start, then the loaded code. */
#define FIRMWARE_ADDRESS BOARD_SEEN(0x34000000u)
#define FIRMWARE_BYTES 0x00060000u
#define EXEC_RAM_ADDRESS BOARD_SEEN(0x34060000u)
#define EXEC_RAM_BYTES 0x000A0000u
#define POOLS_ADDRESS BOARD_SEEN(0x34100000u)
#define INTERNAL_RAM_END BOARD_SEEN(0x343C0000u)
/* External RAM: for networks from its first byte, as vendors' pools have it; then code of images,
 * and the last MiB for the firmware's own use. */
#define EXTERNAL_RAM_ADDRESS 0x90000000u
#define EXTERNAL_RAM_BYTES 0x02000000u
#define NETWORK_RAM_ADDRESS 0x90000000u
#define NETWORK_RAM_BYTES 0x01B00000u
#define FLASH_ADDRESS 0x70000000u
#define FLASH_BYTES 0x08000000u

/* Peripherals. */
#define NPU_ADDRESS BOARD_SEEN(0x580E0000u)   /* pages of 4 KiB: CLKCTRL 0, INTCTRL 1, ... DEBUG_TRACE 31 */
#define CACHE_ADDRESS BOARD_SEEN(0x580DFC00u) /* CACHEAXI: CR1 at 0, monitors from 0x10 */
#define UART_ADDRESS BOARD_SEEN(0x52001000u)  /* USART: ISR 0x1c, RDR 0x24, TDR 0x28 */
#define UART_RECEIVED (1u << 5)
#define UART_ROOM (1u << 7)

/* Interrupt lines of the NVIC. */
#define NPU_INTERRUPT 53
#define UART_INTERRUPT 159

/* Where the host puts what it wants loaded: see mailbox.h. */
#define MAILBOX_ADDRESS 0x91F00000u

/* Cycle counter of the processor (DWT). */
#define CYCLE_COUNTER_ADDRESS 0xE0001004u

#endif
