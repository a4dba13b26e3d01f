/* SPDX-License-Identifier: Apache-2.0
 * Blocks that need the NPU. All files of this folder go into every firmware, and one without an
 * NPU has no drivers: there nothing is left of this one. */
#ifdef NPUSCOPE_WITH_NPU
#include "npuscope_npu.h"

#include "debug_unit.h"
#include "npu.h"
#include "npuscope_platform.h"

/* Masks of interrupt line 0; a 1 takes a source out. Line 0 fires on any source that the OR mask
 * leaves, or when all those that the AND mask leaves have come. */
#define OR_MASK NPU_OFFSET(NPU_INTCTRL_PAGE, 5)
#define AND_MASK NPU_OFFSET(NPU_INTCTRL_PAGE, 9)
#define PENDING NPU_OFFSET(NPU_INTCTRL_PAGE, NPU_INTCTRL_INTREG)
#define CLEAR NPU_OFFSET(NPU_INTCTRL_PAGE, NPU_INTCTRL_INTCLR)
#define ALL 0xFFFFFFFFu
#define CONTROLLER (1u << 28)

typedef NN_Instance_TypeDef instance_t;
typedef NPUSCOPE_ITEM item_t;

static volatile uint32_t come;
static int first_error;

static bool is_blob(const item_t *block) { return block->flags & EpochBlock_Flags_blob; }

/* In a blob the wait mask is the number of the epoch controller. */
static uint32_t awaited(const item_t *block) {
  return is_blob(block) ? CONTROLLER : block->wait_mask;
}

static void close_masks(void) {
  npu_write(OR_MASK, ALL);
  npu_write(AND_MASK, ALL);
}

static void keep_error(int code) {
  if (!first_error) first_error = code;
}

int npuscope_npu_take_error(void) {
  const int code = first_error;
  first_error = 0;
  return code;
}

int npuscope_npu_init(void) {
  const int code = npu_init();
  close_masks();
  npu_write(CLEAR, ALL);
  npu_cache_enable();
  npuscope_npu_open_line();
  return code;
}

void npuscope_npu_interrupt(void) {
  const uint32_t pending = npu_read(PENDING);
  npu_write(CLEAR, pending);
  come |= pending;
}

bool npuscope_start_npu(const instance_t *nn_instance, const item_t *block) {
  (void)nn_instance;
  npu_take_error();
  npu_write(CLEAR, ALL);
  come = 0;
  if (is_blob(block))
    npu_write(OR_MASK, ~CONTROLLER);
  else if (block->wait_mask)
    npu_write(AND_MASK, ~block->wait_mask);
  return true;
}

void npuscope_run_blob(const instance_t *nn_instance, const item_t *block) {
  (void)nn_instance;
  npu_blob_start((uint32_t)block->blob_address);
}

bool npuscope_npu_finished(const instance_t *nn_instance, const item_t *block) {
  (void)nn_instance;
  const int code = npu_take_error();
  if (code) keep_error(code);
  return code || (come & awaited(block)) == awaited(block);
}

void npuscope_stop_npu(const instance_t *nn_instance, const item_t *block) {
  (void)nn_instance;
  close_masks();
  if (is_blob(block)) npu_blob_stop();
  keep_error(npu_take_error());
}

/* Interrupts are held back while the processor decides to sleep, else the one it waits for could
 * come in between; a held back one still wakes it. */
void npuscope_wait_for_event(void) {
  __asm volatile("cpsid i" ::: "memory");
  if (!come) __asm volatile("dsb sy\n wfi" ::: "memory");
  __asm volatile("cpsie i\n isb sy" ::: "memory");
}

void npuscope_clean_npu_cache(uintptr_t address, uint32_t size) {
  npu_cache_clean((uint32_t)address, size);
}

void npuscope_clean_invalidate_npu_cache(uintptr_t address, uint32_t size) {
  npu_cache_clean_invalidate((uint32_t)address, size);
}

void npuscope_invalidate_npu_cache(void) { npu_cache_invalidate(); }

#else
typedef int npuscope_has_no_npu;
#endif
