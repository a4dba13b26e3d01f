/* SPDX-License-Identifier: Apache-2.0
 * The debug and trace unit: 16 counters of 32 bits, each on one signal; and the monitors of the
 * NPU cache. Names and numbers are those that applications for the vendor's runtime use. */
#ifndef DEBUG_UNIT_H
#define DEBUG_UNIT_H

#include "npu.h"

#define NPU_COUNTERS 16u
#define NPU_ENGINES NPU_STRENG_COUNT

/* First signal of each family; engine, interrupt or bus interface is added. An engine that reads
 * memory feeds the switch: its links are output links there. */
enum {
  DBGTRC_GND = 0,
  DBGTRC_VDD = 1,
  DBGTRC_OUTPUT_STALL = 2,
  DBGTRC_OUTPUT_HENV = 56,
  DBGTRC_INPUT_STALL = 83,
  DBGTRC_TRIGGER = 216,
  DBGTRC_INTERRUPT = 220,
  DBGTRC_BUS_READ = 276,
  DBGTRC_BUS_WRITE = 284
};

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
int LL_Dbgtrc_Count_Stalls(unsigned int counter, unsigned char iostall, unsigned int signal,
                           unsigned int hilow);
/* Three counters; the last is the one to read. */
int LL_Dbgtrc_Count_Epoch_Len(unsigned int counter, unsigned int istreng, unsigned int ostreng);
/* Four counters: bursts of 1, 2, 4 and 8 beats. `readwrite` 0 counts reads. */
int LL_Dbgtrc_Count_BurstsLen(unsigned int counter, unsigned char busif, unsigned char readwrite);
/* All 16: interface 0 written and read, interface 1 written and read. */
int LL_Dbgtrc_BurstLenBenchStart(unsigned int counter);
int LL_Dbgtrc_BurstLenGet(unsigned int counter, unsigned int *counters);
/* Bytes of both interfaces since the bench was started. */
int LL_Dbgtrc_GetTotalTranfers(unsigned int counter, unsigned int *totalWrites,
                               unsigned int *totalReads);

/* Cycles that engines are not stalled: first those of istreng, then those of ostreng. */
int LL_Dbgtrc_Count_StrengActive_Config(uint32_t istreng, uint32_t ostreng, unsigned int counter);
int LL_Dbgtrc_Count_StrengActive_Start(uint32_t istreng, uint32_t ostreng, unsigned int counter);
int LL_Dbgtrc_Count_StrengActive_Stop(uint32_t istreng, uint32_t ostreng, unsigned int counter);
/* `argmax` is the place of the largest among the counters. */
unsigned int LL_Dbgtrc_Count_StrengActive_GetMAX(uint32_t istreng, uint32_t ostreng,
                                                 unsigned int counter, unsigned int *argmax);
/* Cycles inside the envelope of engines that read. */
int LL_Dbgtrc_Count_StrengHENV_Config(uint32_t istreng, unsigned int counter);
int LL_Dbgtrc_Count_StrengHENV_Start(uint32_t istreng, unsigned int counter);
int LL_Dbgtrc_Count_StrengHENV_Stop(uint32_t istreng, unsigned int counter);

/* The NPU cache (CACHEAXI). Monitors: read hit, miss, allocating miss, eviction; write hit, miss,
 * allocating miss, through. */
#define NPU_CACHE_MONITORS 8u
void npu_cache_enable(void);
void npu_cache_invalidate(void);
void npu_cache_clean(uint32_t address, uint32_t bytes);
void npu_cache_clean_invalidate(uint32_t address, uint32_t bytes);
void npu_cache_monitors_start(void);
void npu_cache_monitors_stop(void);
void npu_cache_monitors_read(uint32_t *counts);

#endif
