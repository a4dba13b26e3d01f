/* SPDX-License-Identifier: Apache-2.0
 * Units as a whole: clock gates, start, stop, and the NPU's own start. */
#include "npu.h"

#define GATES NPU_OFFSET(NPU_CLKCTRL_PAGE, NPU_CLKCTRL_BGATES)
#define CONTROL(page) NPU_OFFSET(page, NPU_CTRL)
#define ALL 0xffffffffu
#define UNIT(name) { NPU_##name##_PAGE, NPU_##name##_COUNT, NPU_##name##_CTRL_RESET }

typedef struct {
  uint32_t page, count, control_reset;
} unit_kind;

/* By AccelUnitsType; kinds that this NPU does not have count none. */
static const unit_kind kinds[] = {
  [STRENG] = UNIT(STRENG), [CONVACC] = UNIT(CONVACC), [DECUN] = UNIT(DECUN),
  [ACTIV] = UNIT(ACTIV),   [ARITH] = UNIT(ARITH),     [POOL] = UNIT(POOL),
  [RECBUF] = UNIT(RECBUF),
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

void npu_clock_on(uint32_t page) { npu_write(GATES, npu_read(GATES) | NPU_CLOCK_GATE(page)); }

void npu_clock_off(uint32_t page) { npu_write(GATES, npu_read(GATES) & ~NPU_CLOCK_GATE(page)); }

static bool falls(uint32_t offset, uint32_t bit)
{
  for (uint32_t i = 0; i < NPU_POLL_LIMIT; i++)
    if (!(npu_read(offset) & bit))
      return true;
  return false;
}

static bool pulse(uint32_t page, uint32_t control_reset, uint32_t bit)
{
  npu_write(CONTROL(page), control_reset | bit);
  return falls(CONTROL(page), bit);
}

int npu_clear(uint32_t page, uint32_t control_reset)
{
  if (pulse(page, control_reset, NPU_CTRL_CLR) && pulse(page, control_reset, NPU_CTRL_CONFCLR))
    return NPU_OK;
  return npu_fail(NPU_STUCK);
}

static bool exists(AccelUnits unit)
{
  return (unsigned)unit.unit_type < KINDS && unit.unit_num < kinds[unit.unit_type].count;
}

static uint32_t page_of(AccelUnits unit) { return kinds[unit.unit_type].page + unit.unit_num; }

/* A unit whose configuration was refused has no clock, and would not answer. */
static bool clocked(AccelUnits unit) { return npu_read(GATES) & NPU_CLOCK_GATE(page_of(unit)); }

static void start(AccelUnits unit)
{
  uint32_t page = page_of(unit);
  /* CTRL of a convolution accelerator is not read back: it shows states beside the settings. */
  bool written = unit.unit_type == CONVACC;
  uint32_t control = written ? npu_convolution_control(unit.unit_num) : npu_read(CONTROL(page));

  npu_write(CONTROL(page), control | NPU_CTRL_EN);
}

static int stop(AccelUnits unit)
{
  int code;

  if (!exists(unit))
    return npu_fail(NPU_NO_UNIT);
  if (!clocked(unit))
    return NPU_OK;
  code = npu_clear(page_of(unit), kinds[unit.unit_type].control_reset);
  npu_clock_off(page_of(unit));
  return code;
}

int LL_ATON_EnableUnits_Init(const LL_ATON_EnableUnits_InitTypeDef *table, int n)
{
  /* All or none: units that wait for one that never starts would hold their streams for ever. */
  for (int i = 0; i < n; i++) {
    if (!exists(table[i].unit))
      return npu_fail(NPU_NO_UNIT);
    if (!clocked(table[i].unit))
      return npu_fail(NPU_REFUSED);
  }
  for (int i = 0; i < n; i++)
    start(table[i].unit);
  return NPU_OK;
}

int LL_ATON_DisableUnits_Init(const LL_ATON_DisableUnits_InitTypeDef *table, int n)
{
  int result = NPU_OK;

  for (int i = 0; i < n; i++) {
    int code = stop(table[i].unit);

    if (code != NPU_OK)
      result = code;
  }
  return result;
}

static int reset_units(void)
{
  int result = NPU_OK;

  for (uint32_t kind = 0; kind < KINDS; kind++)
    for (uint32_t i = 0; i < kinds[kind].count; i++) {
      int code = npu_clear(kinds[kind].page + i, kinds[kind].control_reset);

      if (code != NPU_OK)
        result = code;
    }
  return result;
}

int npu_init(void)
{
  int result;

  npu_write(CONTROL(NPU_CLKCTRL_PAGE), NPU_CTRL_EN);
  npu_write(NPU_OFFSET(NPU_CLKCTRL_PAGE, NPU_CLKCTRL_AGATES0), ALL);
  npu_write(NPU_OFFSET(NPU_CLKCTRL_PAGE, NPU_CLKCTRL_AGATES1), ALL);
  /* A unit without a clock would not answer the reset. */
  npu_write(GATES, ALL);
  result = reset_units();
  npu_write(GATES, 0);
  for (uint32_t i = 0; i < NPU_BUSIF_COUNT; i++)
    npu_write(CONTROL(NPU_BUSIF_PAGE + i), NPU_CTRL_EN);
  npu_write(CONTROL(NPU_INTCTRL_PAGE), NPU_CTRL_EN);
  return result;
}

void npu_deinit(void)
{
  npu_write(CONTROL(NPU_INTCTRL_PAGE), 0);
  for (uint32_t i = 0; i < NPU_BUSIF_COUNT; i++)
    npu_write(CONTROL(NPU_BUSIF_PAGE + i), 0);
  npu_write(GATES, 0);
  npu_write(NPU_OFFSET(NPU_CLKCTRL_PAGE, NPU_CLKCTRL_AGATES0), 0);
  npu_write(NPU_OFFSET(NPU_CLKCTRL_PAGE, NPU_CLKCTRL_AGATES1), 0);
  npu_write(CONTROL(NPU_CLKCTRL_PAGE), 0);
}
