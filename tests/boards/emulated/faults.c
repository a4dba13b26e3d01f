/* SPDX-License-Identifier: Apache-2.0
 * What must not be done, by number. */
#include "bare.h"

static void __attribute__((noinline)) jump(uintptr_t address) { ((void (*)(void))address)(); }

int main(void)
{
  switch (get_byte()) {
  case 'j':
    jump(0x10000001u);
    break;
  case 'l':
    for (;;)
      __asm volatile("");
  case 'w':
    WORD(FLASH_ADDRESS + 0x40u) = 1u;
    break;
  case 'r':
    report[1] = WORD(0x00001234u);
    break;
  case 'u':
    __asm volatile("udf #1");
    break;
  case 's':
    __asm volatile("mov sp, %0\n svc 0" ::"r"(0x100));
    break;
  case 'n':
    NVIC_ENABLE(7u);
    WORD(0xE000E200u) = 1u << 7;
    break;
  case 'R':
    WORD(0xE000ED0Cu) = 0x05FA0004u;
    break;
  default:
    put_byte('k');
  }
  return 5;
}
