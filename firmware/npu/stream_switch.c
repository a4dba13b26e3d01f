/* SPDX-License-Identifier: Apache-2.0
 * The stream switch: a destination register tells which source feeds a port. */
#include "npu.h"

/* network.c is compiled without the register header, so its port numbers are checked here. */
#define SAME_PORTS(unit, number, port)                                                         \
  _Static_assert(ATONN_SRCPORT(STRSWITCH, 0, unit, number, 0) == NPU_SOURCE_##unit + (number), \
                 "source");                                                                    \
  _Static_assert(ATONN_DSTPORT(STRSWITCH, 0, unit, number, port) ==                            \
                   4u * (NPU_DESTINATION_##unit + (number)*NPU_DESTINATION_##unit##_PORTS +    \
                         (port)),                                                              \
                 "destination")
SAME_PORTS(STRENG, 9, 0);
SAME_PORTS(CONVACC, 3, 2);
SAME_PORTS(DECUN, 1, 1);
SAME_PORTS(ACTIV, 1, 0);
SAME_PORTS(ARITH, 3, 1);
SAME_PORTS(POOL, 1, 0);
SAME_PORTS(RECBUF, 0, 2);

static bool known(const LL_Switch_InitTypeDef *link)
{
  uint32_t index = link->dest / 4u;
  bool destination = index >= NPU_DESTINATIONS_FIRST && index < NPU_DESTINATIONS_END;

  return destination && link->source0 < NPU_SOURCES && link->source1 < NPU_SOURCES;
}

static uint32_t word_of(const LL_Switch_InitTypeDef *link)
{
  bool second = link->context1 || link->frames1;

  return NPU_BITS(NPU_LINK_EN0, link->context0) | NPU_BITS(NPU_LINK_LINK0, link->source0) |
         NPU_BITS(NPU_LINK_FNR0, link->frames0) | NPU_BITS(NPU_LINK_EN1, link->context1) |
         NPU_BITS(NPU_LINK_LINK1, second ? link->source1 : 0u) |
         NPU_BITS(NPU_LINK_FNR1, link->frames1);
}

static int set_links(const LL_Switch_InitTypeDef *table, int n, bool on)
{
  for (int i = 0; i < n; i++) {
    if (!known(&table[i]))
      return npu_fail(NPU_REFUSED);
    npu_write(NPU_OFFSET(NPU_STRSWITCH_PAGE, 0) + table[i].dest, on ? word_of(&table[i]) : 0u);
  }
  return NPU_OK;
}

int LL_Switch_Init(const LL_Switch_InitTypeDef *table, int n)
{
  int code = npu_clear(NPU_STRSWITCH_PAGE, NPU_STRSWITCH_CTRL_RESET);

  if (code != NPU_OK)
    return code;
  npu_write(NPU_OFFSET(NPU_STRSWITCH_PAGE, NPU_CTRL), NPU_CTRL_EN);
  return set_links(table, n, true);
}

int LL_Switch_Deinit(const LL_Switch_DeinitTypeDef *table, int n)
{
  return set_links(table, n, false);
}
