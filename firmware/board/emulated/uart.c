/* SPDX-License-Identifier: Apache-2.0
 * The serial port. Where the processor waits for a byte it sleeps with interrupts held back: the
 * port and the timer wake it, and neither needs a handler. */
#include "board.h"

#define UART_CONTROL BOARD_WORD(UART_ADDRESS + 0x00u)
#define UART_STATUS BOARD_WORD(UART_ADDRESS + 0x1Cu)
#define UART_SEND BOARD_WORD(UART_ADDRESS + 0x28u)
#define UART_WAITING BOARD_WORD(UART_ADDRESS + 0x40u) /* bytes; this and the next the STM32 lacks */
#define UART_WORD BOARD_WORD(UART_ADDRESS + 0x44u)    /* the next four */
#define UART_ON (1u << 0 | 1u << 2 | 1u << 3) /* port, receiver, sender */
#define UART_INTERRUPTS_ON_BYTE (1u << 5)

#define TIMER_CONTROL BOARD_WORD(0xE000E010u)
#define TIMER_RELOAD BOARD_WORD(0xE000E014u)
#define TIMER_VALUE BOARD_WORD(0xE000E018u)
#define TIMER_ON 7u /* counts processor cycles, interrupts at zero */
#define TIMER_PASSED (1u << 16)
#define INTERRUPT_STATE BOARD_WORD(0xE000ED04u)
#define FORGET_TIMER (1u << 25)

#define LINE_WORD(base) BOARD_WORD((base) + 4u * (UART_INTERRUPT / 32u))
#define LINE_BIT (1u << UART_INTERRUPT % 32u)
#define LINE_OPEN LINE_WORD(0xE000E100u)
#define LINE_CLOSE LINE_WORD(0xE000E180u)
#define LINE_FORGET LINE_WORD(0xE000E280u)

#define TICK_MS 20u /* the timer has 24 bits: at 800 MHz it counts 20.9 ms */
#define FOREVER 0xFFFFFFFFu

static uint32_t cycles_per_tick;

static bool has_byte(void) { return UART_STATUS & UART_RECEIVED; }

static void start_timer(void) {
  TIMER_RELOAD = cycles_per_tick - 1u;
  TIMER_VALUE = 0;
  TIMER_CONTROL = TIMER_ON;
}

static void stop_timer(void) {
  TIMER_CONTROL = 0;
  INTERRUPT_STATE = FORGET_TIMER;
}

/* Until a byte has come or the timer has passed. */
static void sleep(void) {
  LINE_OPEN = LINE_BIT;
  if (!has_byte()) __asm volatile("dsb sy\n wfi" ::: "memory");
  LINE_CLOSE = LINE_BIT;
  LINE_FORGET = LINE_BIT;
}

static bool ticked(void) {
  if (!(TIMER_CONTROL & TIMER_PASSED)) return false;
  INTERRUPT_STATE = FORGET_TIMER;
  return true;
}

static bool wait_for_byte(uint32_t timeout_ms) {
  const bool is_timed = timeout_ms != FOREVER;
  bool found;
  uint32_t passed_ms = 0;
  __asm volatile("cpsid i" ::: "memory");
  if (is_timed) start_timer();
  while (!(found = has_byte()) && passed_ms < timeout_ms) {
    sleep();
    if (is_timed && ticked()) passed_ms += TICK_MS;
  }
  if (is_timed) stop_timer();
  __asm volatile("cpsie i" ::: "memory");
  return found;
}

/* Bytes that were taken from the port and not yet asked for. */
static struct {
  uint32_t words[16], at, end;
} stock;

static void fill_stock(void) {
  const uint32_t waiting = UART_WAITING;
  stock.at = 0;
  stock.end = waiting < sizeof stock.words ? waiting : sizeof stock.words;
  for (uint32_t i = 0; 4u * i < stock.end; i++) stock.words[i] = UART_WORD;
}

static bool read_byte(uint8_t *byte, uint32_t timeout_ms) {
  if (stock.at == stock.end) {
    if (!has_byte() && !wait_for_byte(timeout_ms)) return false;
    fill_stock();
  }
  *byte = ((const uint8_t *)stock.words)[stock.at++];
  return true;
}

static void write_bytes(const uint8_t *bytes, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    while (!(UART_STATUS & UART_ROOM)) {
    }
    UART_SEND = bytes[i];
  }
}

const wire_line *board_line(uint32_t mcu_hz) {
  static const wire_line line = {read_byte,          write_bytes,         WIRE_SILENCE_MS,
                                 WIRE_PACKET_GAP_MS, WIRE_MESSAGE_GAP_MS, FOREVER};
  const uint64_t cycles = (uint64_t)mcu_hz * TICK_MS / 1000u;
  cycles_per_tick = cycles > 0x1000000u ? 0x1000000u : (uint32_t)cycles;
  if (cycles_per_tick < 2) cycles_per_tick = 2;
  UART_CONTROL = UART_ON | UART_INTERRUPTS_ON_BYTE;
  return &line;
}
