/* SPDX-License-Identifier: Apache-2.0
 * One inference of a linked network by the unit drivers: every block is started, waited for by
 * interrupt and ended, with counters around it. The byte that asks for it tells how: 'i' sleeps
 * and counts engines that read, 'o' those that write, 'b' bursts; 'p' polls, 's' spins. */
#include "bare.h"
#include "npu.h"

#define INTCTRL(index) NPU_OFFSET(NPU_INTCTRL_PAGE, index)
#define OR_MASK INTCTRL(5u)
#define AND_MASK INTCTRL(9u)
#define CONTROLLER (1u << 28)
#define COUNTERS 16u
#define CONFIG(counter) (NPU_OFFSET(NPU_DEBUG_TRACE_PAGE, 0) + 0x40u + 4u * (counter))
#define VALUE(counter) (NPU_OFFSET(NPU_DEBUG_TRACE_PAGE, 0) + 0x84u + 4u * (counter))
#define COUNT(signal, event) (1u | (signal) << 1 | (event) << 14 | 1u << 16)
#define MONITORS (CACHE_ADDRESS + 0x10u)
#define MONITORS_ON 0x33330000u
#define MONITORS_RESET 0xCCCC0000u
#define MOST_BLOCKS 256u

enum { LOW = 0, HIGH = 1 };

const NPUSCOPE_ITEM *LL_ATON_EpochBlockItems_network(void);

/* By block: counters, cache monitors, cycles of the three phases by both clocks. */
typedef struct {
  uint32_t counters[COUNTERS], monitors[8], phases[3], npu_phases[3];
} block_report;
volatile block_report blocks[MOST_BLOCKS];

static volatile uint32_t events;

void on_npu(void)
{
  uint32_t bits = npu_read(INTCTRL(NPU_INTCTRL_INTREG));

  npu_write(INTCTRL(NPU_INTCTRL_INTCLR), bits);
  events |= bits;
}

static void count(uint32_t counter, uint32_t signal, uint32_t event)
{
  npu_write(CONFIG(counter), 0);
  npu_write(VALUE(counter), 0);
  npu_write(CONFIG(counter), COUNT(signal, event));
}

static void count_bursts(void)
{
  /* Writes and reads of interface 0, then of 1; each by its four lengths. */
  for (uint32_t i = 0; i < COUNTERS; i++)
    count(i, (i & 4u ? 276u : 284u) + 2u * (i & 3u) + (i >> 3), HIGH);
}

/* All engines of one direction; counter 0 is the NPU's clock. */
static void count_engines(uint32_t first_signal)
{
  count(0, 1, HIGH);
  for (uint32_t i = 0; i < NPU_STRENG_COUNT; i++)
    count(1u + i, first_signal + i, LOW);
}

static void set_counters(uint8_t how)
{
  for (uint32_t i = 0; i < COUNTERS; i++)
    npu_write(CONFIG(i), 0);
  if (how == 'b')
    count_bursts();
  else
    count_engines(how == 'o' ? 83u : 2u);
}

static void wait_for(uint32_t mask, uint8_t how)
{
  if (how == 'p')
    while (npu_running(mask & 0x3ffu) || (mask & CONTROLLER && npu_blob_running())) {
    }
  else if (how == 's')
    while ((events & mask) != mask) {
    }
  else
    while ((events & mask) != mask)
      WAIT_FOR_INTERRUPT();
}

static void call(npuscope_epoch_function function, const NPUSCOPE_ITEM *item)
{
  if (!function)
    return;
#if NPUSCOPE_DIALECT != 3
  function(item);
#else
  function(item, NULL);
#endif
}

static void stamp(uint32_t *cycles, uint32_t *npu)
{
  *cycles = CYCLES;
  *npu = npu_read(VALUE(0));
}

static void run(const NPUSCOPE_ITEM *item, volatile block_report *found, uint8_t how)
{
  bool blob = item->flags & EpochBlock_Flags_blob;
  uint32_t mask = blob ? CONTROLLER : item->wait_mask;
  uint32_t cycles[4], npu[4];

  WORD(CACHE_ADDRESS) = MONITORS_ON | MONITORS_RESET;
  set_counters(how);
  events = 0;
  npu_write(AND_MASK, blob || how == 'p' ? ~0u : ~mask);
  npu_write(OR_MASK, blob && how != 'p' ? ~CONTROLLER : ~0u);
  stamp(&cycles[0], &npu[0]);
  call(item->start_epoch_block, item);
  if (blob)
    npu_blob_start((uint32_t)item->blob_address);
  stamp(&cycles[1], &npu[1]);
  wait_for(mask, how);
  stamp(&cycles[2], &npu[2]);
  if (blob)
    npu_blob_stop();
  call(item->end_epoch_block, item);
  npu_write(INTCTRL(NPU_INTCTRL_INTCLR), ~0u);
  stamp(&cycles[3], &npu[3]);
  for (uint32_t i = 0; i < 3u; i++) {
    found->phases[i] = cycles[i + 1] - cycles[i];
    found->npu_phases[i] = npu[i + 1] - npu[i];
  }
  for (uint32_t i = 0; i < COUNTERS; i++)
    found->counters[i] = npu_read(VALUE(i));
  for (uint32_t i = 0; i < 8u; i++)
    found->monitors[i] = WORD(MONITORS + 4u * i);
}

static void infer(uint8_t how)
{
  const NPUSCOPE_ITEM *item = LL_ATON_EpochBlockItems_network();
  uint32_t number = 0;

  for (; !(item->flags & EpochBlock_Flags_last_eb); item++)
    run(item, &blocks[number++ % MOST_BLOCKS], how);
  report[1] = number;
  report[2] = (uint32_t)npu_take_error();
}

int main(void)
{
  NVIC_ENABLE(NPU_INTERRUPT);
  for (;;) {
    uint8_t how = get_byte();

    npu_init();
    infer(how);
    npu_deinit();
    put_byte('.');
  }
}
