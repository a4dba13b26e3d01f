/* SPDX-License-Identifier: Apache-2.0
 * A function in RAM that is written anew by every byte but 'r': gives back that byte's number. */
#include "bare.h"

#define FUNCTION ((volatile uint16_t *)EXEC_RAM_ADDRESS)

static uint32_t call(void) { return ((uint32_t(*)(void))(EXEC_RAM_ADDRESS | 1u))(); }

int main(void)
{
  for (;;) {
    uint8_t byte = get_byte();

    if (byte != 'r') {
      FUNCTION[0] = (uint16_t)(0x2000u | (byte & 0xfu)); /* movs r0, #n */
      FUNCTION[1] = 0x4770u;                             /* bx lr */
    }
    __asm volatile("dsb sy\n isb sy" ::: "memory");
    put_byte((uint8_t)call());
  }
}
