/* SPDX-License-Identifier: Apache-2.0
 * Counters of the debug and trace unit. */
#include "debug_unit.h"

#define CONTROL NPU_OFFSET(NPU_DEBUG_TRACE_PAGE, NPU_DEBUG_TRACE_CTRL)
#define CONFIG(counter) (NPU_OFFSET(NPU_DEBUG_TRACE_PAGE, 0) + 0x40u + 4u * (uint32_t)(counter))
#define VALUE(counter) ((uint32_t)(ATON_DEBUG_TRACE_EVENT_CNT_ADDR(0, counter) - NPU_BASE))

#define COUNTS (1u << 0)
#define SIGNAL_LSB 1
#define EVENT_LSB 14
#define WRAPS_LSB 16
#define COUNTS_DOWN_LSB 17
#define SILENT_LSB 18
#define WAITS_FOR_START (1u << 19)
#define WAITS_FOR_STOP (1u << 20)
#define START_SOURCE_LSB 21
#define STOP_SOURCE_LSB 25
#define SOURCE_MASK 0xFu
#define BEAT_BYTES 8u
#define LENGTHS 4u

_Static_assert(VALUE(0) == NPU_OFFSET(NPU_DEBUG_TRACE_PAGE, 0) + 0x84u, "the unit's page");

static bool exists(int id, int counter)
{
  return id == 0 && counter >= 0 && (uint32_t)counter < NPU_COUNTERS;
}

void LL_Dbgtrc_EnableClock(void) { npu_clock_on(NPU_DEBUG_TRACE_PAGE); }

void LL_Dbgtrc_DisableClock(void) { npu_clock_off(NPU_DEBUG_TRACE_PAGE); }

int LL_Dbgtrc_Init(int id)
{
  if (id != 0)
    return NPU_NO_UNIT;
  npu_write(CONTROL, NPU_CTRL_EN);
  return NPU_OK;
}

int LL_Dbgtrc_Deinit(int id)
{
  if (id != 0)
    return NPU_NO_UNIT;
  for (uint32_t counter = 0; counter < NPU_COUNTERS; counter++) {
    npu_write(CONFIG(counter), 0);
    npu_write(VALUE(counter), 0);
  }
  npu_write(CONTROL, 0);
  return NPU_OK;
}

int LL_Dbgtrc_Counter_Init(int id, int counter, const LL_Dbgtrc_Counter_InitTypdef *conf)
{
  if (!exists(id, counter))
    return NPU_NO_UNIT;
  npu_write(CONFIG(counter), conf->signal << SIGNAL_LSB | (uint32_t)conf->evt_type << EVENT_LSB |
                                 (uint32_t)conf->wrap << WRAPS_LSB |
                                 (uint32_t)conf->countdown << COUNTS_DOWN_LSB |
                                 (uint32_t)conf->int_disable << SILENT_LSB);
  npu_write(VALUE(counter), conf->counter);
  return NPU_OK;
}

int LL_Dbgtrc_Counter_Start(int id, int counter)
{
  if (!exists(id, counter))
    return NPU_NO_UNIT;
  npu_write(CONFIG(counter), npu_read(CONFIG(counter)) | COUNTS);
  return NPU_OK;
}

int LL_Dbgtrc_Counter_Stop(int id, int counter)
{
  if (!exists(id, counter))
    return NPU_NO_UNIT;
  npu_write(CONFIG(counter), npu_read(CONFIG(counter)) & ~COUNTS);
  return NPU_OK;
}

uint32_t LL_Dbgtrc_Counter_Read(int id, int counter)
{
  return exists(id, counter) ? npu_read(VALUE(counter)) : 0;
}

static int bind(int id, int source, int target, uint32_t waits, uint32_t lsb)
{
  uint32_t word;

  if (!exists(id, source) || !exists(id, target))
    return NPU_NO_UNIT;
  word = npu_read(CONFIG(target)) & ~(SOURCE_MASK << lsb);
  npu_write(CONFIG(target), word | waits | (uint32_t)source << lsb);
  return NPU_OK;
}

int LL_Dbgtrc_Counter_BindStart(int id, int srccounter, int dstcounter)
{
  return bind(id, srccounter, dstcounter, WAITS_FOR_START, START_SOURCE_LSB);
}

int LL_Dbgtrc_Counter_BindStop(int id, int srccounter, int dstcounter)
{
  return bind(id, srccounter, dstcounter, WAITS_FOR_STOP, STOP_SOURCE_LSB);
}

static int prepare(uint32_t counter, uint32_t signal, uint32_t event)
{
  const LL_Dbgtrc_Counter_InitTypdef conf = {
    .signal = signal, .evt_type = (unsigned char)event, .int_disable = 1};

  return LL_Dbgtrc_Counter_Init(0, (int)counter, &conf);
}

static int watch(uint32_t counter, uint32_t signal, uint32_t event)
{
  int code = prepare(counter, signal, event);

  return code == NPU_OK ? LL_Dbgtrc_Counter_Start(0, (int)counter) : code;
}

int LL_Dbgtrc_Counter_StopWatch(int id, const LL_Dbgtrc_StopWatch_InitTypdef *conf)
{
  if (!exists(id, conf->mainCounter) || !exists(id, conf->startCounter) ||
      !exists(id, conf->stopCounter))
    return NPU_NO_UNIT;
  watch(conf->startCounter, conf->startSignal, conf->startEvent);
  watch(conf->stopCounter, conf->stopSignal, conf->stopEvent);
  prepare(conf->mainCounter, DBGTRC_VDD, DBGTRC_EVT_HI);
  LL_Dbgtrc_Counter_BindStart(id, conf->startCounter, conf->mainCounter);
  LL_Dbgtrc_Counter_BindStop(id, conf->stopCounter, conf->mainCounter);
  return LL_Dbgtrc_Counter_Start(id, conf->mainCounter);
}

int LL_Dbgtrc_Count_IRQs(unsigned int counter, unsigned int unitirq)
{
  return watch(counter, DBGTRC_INTCTRL_SIGNALS + unitirq, DBGTRC_EVT_POSEDGE);
}

int LL_Dbgtrc_Count_ExtTrigger(unsigned int counter, unsigned char trigger)
{
  return watch(counter, EXT_TRIGGERS_SYNC + (uint32_t)trigger, DBGTRC_EVT_POSEDGE);
}

int LL_Dbgtrc_Count_Stalls(unsigned int counter, unsigned char iostall, unsigned int signal,
                           unsigned int hilow)
{
  uint32_t first = iostall ? SWITCH_ISTRX_STALL : SWITCH_OSTRX_STALL;

  return watch(counter, first + signal, hilow ? DBGTRC_EVT_HI : DBGTRC_EVT_LOW);
}

int LL_Dbgtrc_Count_Epoch_Len(unsigned int counter, unsigned int istreng, unsigned int ostreng)
{
  const LL_Dbgtrc_StopWatch_InitTypdef conf = {
    .mainCounter = (unsigned char)counter,
    .startCounter = (unsigned char)(counter + 1),
    .startSignal = DBGTRC_SWITCH_OSTRX_HENV + istreng,
    .startEvent = DBGTRC_EVT_POSEDGE,
    .stopCounter = (unsigned char)(counter + 2),
    .stopSignal = DBGTRC_INTCTRL_SIGNALS + ostreng,
    .stopEvent = DBGTRC_EVT_POSEDGE,
  };

  return LL_Dbgtrc_Counter_StopWatch(0, &conf);
}

int LL_Dbgtrc_Count_BurstsLen(unsigned int counter, unsigned char busif, unsigned char readwrite)
{
  uint32_t first = readwrite ? BUS_INTERFACE_READ1X8B : BUS_INTERFACE_WRITE1X8B;
  int code = NPU_OK;

  for (uint32_t i = 0; code == NPU_OK && i < LENGTHS; i++)
    code = watch(counter + i, first + 2u * i + busif, DBGTRC_EVT_HI);
  return code;
}

int LL_Dbgtrc_BurstLenBenchStart(unsigned int counter)
{
  int code = NPU_OK;

  for (uint32_t i = 0; code == NPU_OK && i < NPU_COUNTERS / LENGTHS; i++)
    code = LL_Dbgtrc_Count_BurstsLen(counter + LENGTHS * i, (unsigned char)(i / 2), i % 2);
  return code;
}

int LL_Dbgtrc_BurstLenGet(unsigned int counter, unsigned int *counters)
{
  if (counter)
    return NPU_NO_UNIT;
  for (uint32_t i = 0; i < NPU_COUNTERS; i++)
    counters[i] = LL_Dbgtrc_Counter_Read(0, (int)i);
  return NPU_OK;
}

int LL_Dbgtrc_GetTotalTranfers(unsigned int counter, unsigned int *totalWrites,
                               unsigned int *totalReads)
{
  unsigned int counts[NPU_COUNTERS];
  unsigned int *totals[] = {totalWrites, totalReads};

  *totalWrites = *totalReads = 0;
  if (LL_Dbgtrc_BurstLenGet(counter, counts) != NPU_OK)
    return NPU_NO_UNIT;
  for (uint32_t i = 0; i < NPU_COUNTERS; i++)
    *totals[i / LENGTHS % 2] += (BEAT_BYTES * counts[i]) << i % LENGTHS;
  return NPU_OK;
}
