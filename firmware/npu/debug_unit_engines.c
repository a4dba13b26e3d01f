/* SPDX-License-Identifier: Apache-2.0
 * One counter for each stream engine of a mask. */
#include "debug_unit.h"

/* What to do with the counter of each engine in a mask; the counters follow each other. */
typedef int visit(uint32_t counter, uint32_t engine);

static int for_each(uint32_t mask, uint32_t *counter, visit *act)
{
  int code = NPU_OK;

  for (uint32_t engine = 0; code == NPU_OK && engine < NPU_ENGINES; engine++)
    if (mask >> engine & 1u)
      code = act((*counter)++, engine);
  return code;
}

static int for_both(uint32_t inputs, uint32_t outputs, uint32_t counter, visit *on_input,
                    visit *on_output)
{
  int code = for_each(inputs, &counter, on_input);

  return code == NPU_OK ? for_each(outputs, &counter, on_output) : code;
}

static int prepare(uint32_t counter, uint32_t signal, uint32_t event)
{
  const LL_Dbgtrc_Counter_InitTypdef conf = {
    .signal = signal, .evt_type = (unsigned char)event, .int_disable = 1};

  return LL_Dbgtrc_Counter_Init(0, (int)counter, &conf);
}

static int prepare_input(uint32_t counter, uint32_t engine)
{
  return prepare(counter, DBGTRC_OUTPUT_STALL + engine, DBGTRC_EVT_LOW);
}

static int prepare_output(uint32_t counter, uint32_t engine)
{
  return prepare(counter, DBGTRC_INPUT_STALL + engine, DBGTRC_EVT_LOW);
}

static int prepare_envelope(uint32_t counter, uint32_t engine)
{
  return prepare(counter, DBGTRC_OUTPUT_HENV + engine, DBGTRC_EVT_HI);
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
  return for_both(istreng, ostreng, counter, prepare_input, prepare_output);
}

int LL_Dbgtrc_Count_StrengActive_Start(uint32_t istreng, uint32_t ostreng, unsigned int counter)
{
  return for_both(istreng, ostreng, counter, start, start);
}

int LL_Dbgtrc_Count_StrengActive_Stop(uint32_t istreng, uint32_t ostreng, unsigned int counter)
{
  return for_both(istreng, ostreng, counter, stop, stop);
}

static uint32_t engines_in(uint32_t mask)
{
  uint32_t count = 0;

  for (uint32_t engine = 0; engine < NPU_ENGINES; engine++)
    count += mask >> engine & 1u;
  return count;
}

unsigned int LL_Dbgtrc_Count_StrengActive_GetMAX(uint32_t istreng, uint32_t ostreng,
                                                 unsigned int counter, unsigned int *argmax)
{
  uint32_t most = 0;

  *argmax = 0;
  for (uint32_t i = 0; i < engines_in(istreng) + engines_in(ostreng); i++) {
    uint32_t value = LL_Dbgtrc_Counter_Read(0, (int)(counter + i));

    if (value > most) {
      most = value;
      *argmax = i;
    }
  }
  return most;
}

int LL_Dbgtrc_Count_StrengHENV_Config(uint32_t istreng, unsigned int counter)
{
  return for_both(istreng, 0, counter, prepare_envelope, prepare_envelope);
}

int LL_Dbgtrc_Count_StrengHENV_Start(uint32_t istreng, unsigned int counter)
{
  return for_both(istreng, 0, counter, start, start);
}

int LL_Dbgtrc_Count_StrengHENV_Stop(uint32_t istreng, unsigned int counter)
{
  return for_both(istreng, 0, counter, stop, stop);
}
