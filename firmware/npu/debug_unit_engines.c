/* SPDX-License-Identifier: Apache-2.0
 * One counter for each stream engine of a mask. */
#include "debug_unit.h"

_Static_assert(ATON_STRENG_NUM == NPU_ENGINES, "as many engines as the driver has");

/* What to do with the counter of each engine in a mask; the counters follow each other. */
typedef int visit(uint32_t counter, uint32_t engine);

/* How many counters were visited, or the first error. */
static int for_each(uint32_t inputs, uint32_t outputs, uint32_t first, visit *on_input,
                    visit *on_output)
{
  uint32_t counter = first;
  int code = NPU_OK;

  for (uint32_t engine = 0; code == NPU_OK && engine < NPU_ENGINES; engine++) {
    if (inputs >> engine & 1u)
      code = on_input(counter++, engine);
    if (code == NPU_OK && outputs >> engine & 1u)
      code = on_output(counter++, engine);
  }
  return code == NPU_OK ? (int)(counter - first) : code;
}

/* As for_each, for services that only tell whether all went well. */
static int on_all(uint32_t inputs, uint32_t outputs, uint32_t counter, visit *act)
{
  int count = for_each(inputs, outputs, counter, act, act);

  return count < 0 ? count : NPU_OK;
}

static int prepare(uint32_t counter, uint32_t signal, uint32_t event)
{
  const LL_Dbgtrc_Counter_InitTypdef conf = {
    .signal = signal, .evt_type = (unsigned char)event, .int_disable = 1};

  return LL_Dbgtrc_Counter_Init(0, (int)counter, &conf);
}

static int prepare_input(uint32_t counter, uint32_t engine)
{
  return prepare(counter, SWITCH_OSTRX_STALL + engine, DBGTRC_EVT_LOW);
}

static int prepare_output(uint32_t counter, uint32_t engine)
{
  return prepare(counter, SWITCH_ISTRX_STALL + engine, DBGTRC_EVT_LOW);
}

static int prepare_envelope(uint32_t counter, uint32_t engine)
{
  return prepare(counter, DBGTRC_SWITCH_OSTRX_HENV + engine, DBGTRC_EVT_HI);
}

static int start(uint32_t counter, uint32_t engine)
{
  (void)engine;
  return LL_Dbgtrc_Counter_Start(0, (int)counter);
}

static int stop(uint32_t counter, uint32_t engine)
{
  (void)engine;
  return LL_Dbgtrc_Counter_Stop(0, (int)counter);
}

int LL_Dbgtrc_Count_StrengActive_Config(uint32_t istreng, uint32_t ostreng, unsigned int counter)
{
  return for_each(istreng, ostreng, counter, prepare_input, prepare_output);
}

int LL_Dbgtrc_Count_StrengActive_Start(uint32_t istreng, uint32_t ostreng, unsigned int counter)
{
  return on_all(istreng, ostreng, counter, start);
}

int LL_Dbgtrc_Count_StrengActive_Stop(uint32_t istreng, uint32_t ostreng, unsigned int counter)
{
  return on_all(istreng, ostreng, counter, stop);
}

unsigned int LL_Dbgtrc_Count_StrengActive_GetMAX(uint32_t istreng, uint32_t ostreng,
                                                 unsigned int counter, unsigned int *argmax)
{
  uint32_t most = 0;

  *argmax = 0;
  for (uint32_t engine = 0; engine < NPU_ENGINES; engine++)
    for (uint32_t ways = (istreng >> engine & 1u) + (ostreng >> engine & 1u); ways; ways--) {
      uint32_t value = LL_Dbgtrc_Counter_Read(0, (int)counter++);

      if (value > most) {
        most = value;
        *argmax = engine;
      }
    }
  return most;
}

int LL_Dbgtrc_Count_StrengHENV_Config(uint32_t istreng, unsigned int counter)
{
  return for_each(istreng, 0, counter, prepare_envelope, prepare_envelope);
}

int LL_Dbgtrc_Count_StrengHENV_Start(uint32_t istreng, unsigned int counter)
{
  return on_all(istreng, 0, counter, start);
}

int LL_Dbgtrc_Count_StrengHENV_Stop(uint32_t istreng, unsigned int counter)
{
  return on_all(istreng, 0, counter, stop);
}
