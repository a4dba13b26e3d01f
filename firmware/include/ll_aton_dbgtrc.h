/* SPDX-License-Identifier: Apache-2.0
 * The debug and trace unit: 16 counters of 32 bits, each on one signal. Names, numbers and meaning
 * are those that applications for the vendor's runtime use. */
#ifndef LL_ATON_DBGTRC_H
#define LL_ATON_DBGTRC_H

#include <stdint.h>

#include "ll_aton_platform.h"

/* Monitored signals: the first of each family; link, interrupt or bus interface is added. An
 * engine that reads memory feeds the switch: its links are output links there. */
enum {
  DBGTRC_GND = 0,
  DBGTRC_VDD = 1,
  SWITCH_OSTRX_STALL = 2,
  DBGTRC_SWITCH_OSTRX_HENV = 56,
  SWITCH_ISTRX_STALL = 83,
  DBGTRC_SWITCH_ISTRX_HENV = 165,
  EXT_TRIGGERS_SYNC = 216,
  DBGTRC_INTCTRL_SIGNALS = 220,
  BUS_INTERFACE_READ1X8B = 276,
  BUS_INTERFACE_READ2X8B = 278,
  BUS_INTERFACE_READ4X8B = 280,
  BUS_INTERFACE_READ8X8B = 282,
  BUS_INTERFACE_WRITE1X8B = 284,
  BUS_INTERFACE_WRITE2X8B = 286,
  BUS_INTERFACE_WRITE4X8B = 288,
  BUS_INTERFACE_WRITE8X8B = 290
};

/* Where the value of a counter is read, and written to set it. There is one unit. */
#define ATON_DEBUG_TRACE_EVENT_CNT_ADDR(UNIT, IDX) \
  ((uintptr_t)NPU_BASE + 0x1F000u + 0x1000u * (UNIT) + 0x84u + 4u * (uint32_t)(IDX))

enum { DBGTRC_EVT_LOW, DBGTRC_EVT_HI, DBGTRC_EVT_POSEDGE, DBGTRC_EVT_NEGEDGE };

typedef struct {
  unsigned int signal;
  unsigned char evt_type;
  unsigned char wrap;        /* else the counter stays at its end */
  unsigned char countdown;
  unsigned char int_disable;
  uint32_t counter;          /* what it starts from */
} LL_Dbgtrc_Counter_InitTypdef;

/* Three counters: two wait for an event, the main one counts cycles between them. */
typedef struct {
  unsigned char mainCounter;
  unsigned char startCounter;
  unsigned int startSignal;
  unsigned char startEvent;
  unsigned char stopCounter;
  unsigned int stopSignal;
  unsigned char stopEvent;
} LL_Dbgtrc_StopWatch_InitTypdef;

int LL_Dbgtrc_Init(int id);
int LL_Dbgtrc_Deinit(int id);
void LL_Dbgtrc_EnableClock(void);
void LL_Dbgtrc_DisableClock(void);

int LL_Dbgtrc_Counter_Init(int id, int counter, const LL_Dbgtrc_Counter_InitTypdef *conf);
int LL_Dbgtrc_Counter_Start(int id, int counter);
int LL_Dbgtrc_Counter_Stop(int id, int counter);
uint32_t LL_Dbgtrc_Counter_Read(int id, int counter);
/* The first event of one counter starts or stops another. */
int LL_Dbgtrc_Counter_BindStart(int id, int srccounter, int dstcounter);
int LL_Dbgtrc_Counter_BindStop(int id, int srccounter, int dstcounter);
int LL_Dbgtrc_Counter_StopWatch(int id, const LL_Dbgtrc_StopWatch_InitTypdef *conf);

/* Each of these sets its counters up from `counter` on, and starts them. */
int LL_Dbgtrc_Count_IRQs(unsigned int counter, unsigned int unitirq);
int LL_Dbgtrc_Count_ExtTrigger(unsigned int counter, unsigned char trigger);
/* `iostall` 0 watches the links of sources (engines that read), else those of destinations. */
int LL_Dbgtrc_Count_Stalls(unsigned int counter, unsigned char iostall, unsigned int signal,
                           unsigned int hilow);
/* Three counters: the one asked for holds the length, the next two wait for start and stop. */
int LL_Dbgtrc_Count_Epoch_Len(unsigned int counter, unsigned int istreng, unsigned int ostreng);
/* Four counters: bursts of 1, 2, 4 and 8 beats. `readwrite` 0 counts writes. */
int LL_Dbgtrc_Count_BurstsLen(unsigned int counter, unsigned char busif, unsigned char readwrite);
/* All 16: interface 0 written and read, interface 1 written and read. */
int LL_Dbgtrc_BurstLenBenchStart(unsigned int counter);
int LL_Dbgtrc_BurstLenGet(unsigned int counter, unsigned int *counters);
/* Bytes of both interfaces since the bench was started. */
int LL_Dbgtrc_GetTotalTranfers(unsigned int counter, unsigned int *totalWrites,
                               unsigned int *totalReads);

/* Cycles that engines are not stalled, in ascending order of the engines; one in both masks has
 * two counters, reading first. Config returns how many counters it took, or an error below 0. */
int LL_Dbgtrc_Count_StrengActive_Config(uint32_t istreng, uint32_t ostreng, unsigned int counter);
int LL_Dbgtrc_Count_StrengActive_Start(uint32_t istreng, uint32_t ostreng, unsigned int counter);
int LL_Dbgtrc_Count_StrengActive_Stop(uint32_t istreng, uint32_t ostreng, unsigned int counter);
/* The largest count; `argmax` is the engine that has it. */
unsigned int LL_Dbgtrc_Count_StrengActive_GetMAX(uint32_t istreng, uint32_t ostreng,
                                                 unsigned int counter, unsigned int *argmax);
/* Cycles inside the envelope of engines that read. */
int LL_Dbgtrc_Count_StrengHENV_Config(uint32_t istreng, unsigned int counter);
int LL_Dbgtrc_Count_StrengHENV_Start(uint32_t istreng, unsigned int counter);
int LL_Dbgtrc_Count_StrengHENV_Stop(uint32_t istreng, unsigned int counter);

#endif
