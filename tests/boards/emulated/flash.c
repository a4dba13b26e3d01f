/* SPDX-License-Identifier: Apache-2.0
 * Data in flash: what reading it costs, and that loads under a condition leave nothing behind. */
#include "bare.h"

#define DATA 0x70000000u
#define LINES 32u

__attribute__((noinline)) static uint32_t pass(uint32_t address)
{
  uint32_t start = CYCLES, sum = 0;

  for (uint32_t i = 0; i < LINES; i++)
    sum += WORD(address + 32u * i);
  report[9] = sum;
  return CYCLES - start;
}

/* The load is in an IT block that ends its block of code; the sum behind is not. */
__attribute__((noinline)) static uint32_t loaded_if(uint32_t value, uint32_t address)
{
  uint32_t sum;

  __asm volatile("mov %0, #7\n"
                 "cmp %1, #3\n"
                 "it eq\n"
                 "ldreq %0, [%2]\n"
                 "b 1f\n"
                 "1: add %0, %0, #1\n"
                 : "=&r"(sum)
                 : "r"(value), "r"(address)
                 : "cc");
  return sum;
}

int main(void)
{
  report[1] = pass(DATA);
  report[2] = pass(DATA);
  report[3] = pass(EXTERNAL_RAM_ADDRESS);
  report[4] = loaded_if(3u, DATA);
  report[5] = loaded_if(4u, DATA);
  return 77;
}
