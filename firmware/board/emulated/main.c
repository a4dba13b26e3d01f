/* SPDX-License-Identifier: Apache-2.0
 * The validation application: loads the networks that the mailbox names, then serves the host. */
#include "board.h"
#include "instrument.h"
#include "networks.h"
#include "npuscope_npu.h"
#include "validation.h"

#define DEVICE_ID 0x486u
#define USUAL_MCU_HZ 800000000u
#define USUAL_NOC_HZ 400000000u
#define USUAL_NPU_HZ 1000000000u
#define USUAL_NIC_HZ 900000000u
/* Hosts show it, so that nobody takes these numbers for measured ones. */
#define REMARK "emulated"

_Static_assert(NETWORKS_MOST >= MAILBOX_ENTRIES, "every entry may be served");

static uint32_t failures[MAILBOX_ENTRIES];

/* What images may fill through pools with absolute addresses: not the flash, nor the firmware. */
static const npuscope_memory pools[] = {
    {POOLS_ADDRESS, INTERNAL_RAM_END - POOLS_ADDRESS},
    {NETWORK_RAM_ADDRESS, NETWORK_RAM_BYTES},
};

/* The firmware itself can be looked at but not overwritten. */
static const validation_memory memories[] = {
    {FIRMWARE_ADDRESS, FIRMWARE_BYTES, (uint8_t *)FIRMWARE_ADDRESS, false},
    {EXEC_RAM_ADDRESS, INTERNAL_RAM_END - EXEC_RAM_ADDRESS, (uint8_t *)EXEC_RAM_ADDRESS, true},
    {EXTERNAL_RAM_ADDRESS, EXTERNAL_RAM_BYTES, (uint8_t *)EXTERNAL_RAM_ADDRESS, true},
    {FLASH_ADDRESS, FLASH_BYTES, (uint8_t *)FLASH_ADDRESS, false},
};

uint32_t instrument_mcu_cycles(void) { return BOARD_WORD(CYCLE_COUNTER_ADDRESS); }

void npuscope_npu_open_line(void) {
  BOARD_WORD(0xE000E100u + 4u * (NPU_INTERRUPT / 32u)) = 1u << NPU_INTERRUPT % 32u;
}

static networks_source source_of(volatile const mailbox_entry *entry) {
  return (networks_source){
      .file = entry->file,
      .file_bytes = entry->file_bytes,
      .params_bytes = entry->params_bytes,
      .places = {.exec_ram_addr = entry->exec_ram,
                 .exec_ram_size = entry->exec_ram_bytes,
                 .ext_ram_addr = entry->ext_ram,
                 .ext_ram_size = entry->ext_ram_bytes,
                 .ext_param_addr = entry->params,
                 .mode = entry->mode},
  };
}

static void tell(volatile mailbox_result *result, int code, const char *reason) {
  uint32_t at = 0;
  for (; reason[at] && at < sizeof result->reason - 1; at++) result->reason[at] = reason[at];
  result->reason[at] = 0;
  result->code = code;
  result->status = code ? ENTRY_REFUSED : ENTRY_SERVED;
}

static bool inside(uint32_t address, uint32_t bytes, uint32_t start, uint32_t end) {
  return address >= start && address <= end && bytes <= end - address;
}

/* Code may be put where the firmware is not. */
static bool is_free(volatile const mailbox_entry *entry) {
  const uint32_t address = entry->exec_ram, bytes = entry->exec_ram_bytes;
  return inside(address, bytes, EXEC_RAM_ADDRESS, INTERNAL_RAM_END) ||
         inside(address, bytes, NETWORK_RAM_ADDRESS, MAILBOX_ADDRESS);
}

static bool overlap(volatile const mailbox_entry *a, volatile const mailbox_entry *b) {
  return a->exec_ram < b->exec_ram + b->exec_ram_bytes &&
         b->exec_ram < a->exec_ram + a->exec_ram_bytes;
}

/* An entry whose exec RAM another one uses would overwrite that network's code. */
static bool is_apart(volatile const mailbox *box, uint32_t index) {
  for (uint32_t i = 0; i < index; i++)
    if (box->results[i].status == ENTRY_SERVED && overlap(&box->entries[i], &box->entries[index]))
      return false;
  return true;
}

static int add(volatile const mailbox *box, uint32_t index, const char **reason) {
  const networks_source source = source_of(&box->entries[index]);
  *reason = "the exec RAM is not one of this board, or another network's";
  if (!is_free(&box->entries[index]) || !is_apart(box, index)) return AI_RELOC_RT_ERR_MEMORY;
  const int code = networks_add(&source, REMARK);
  *reason = networks_reason();
  return code;
}

/* A network that is refused leaves the others alone. */
static uint32_t load(volatile mailbox *box) {
  uint32_t refused = 0;
  for (uint32_t i = 0; i < MAILBOX_ENTRIES; i++) {
    const char *reason;
    box->results[i].status = ENTRY_EMPTY;
    if (!box->entries[i].file) continue;
    const int code = add(box, i, &reason);
    tell(&box->results[i], code, reason);
    if (code) failures[refused++] = i << 16 | ((uint32_t)code & 0xFFFFu);
  }
  return refused;
}

static uint32_t hz(uint32_t told, uint32_t usual) { return told ? told : usual; }

static bool is_filled(volatile const mailbox *box) {
  return box->magic == MAILBOX_MAGIC && box->version == MAILBOX_VERSION;
}

static void memory_written(uint32_t address, uint32_t bytes) {
  npuscope_clean_invalidate_npu_cache(address, bytes);
}

static void prepare(bool requires_trailer) {
  npuscope_loader_set_memories(pools, sizeof pools / sizeof *pools);
  npuscope_loader_require_trailer(requires_trailer);
  npuscope_npu_init();
  LL_ATON_RT_SetRuntimeCallback(instrument_on_runtime);
  LL_ATON_RT_RuntimeInit();
}

int main(void) {
  volatile mailbox *box = BOARD_MAILBOX;
  const bool filled = is_filled(box);
  prepare(filled && box->requires_trailer);
  const uint32_t refused = filled ? load(box) : 0;
  const validation_board board = {
      .device_id = DEVICE_ID,
      .mcu_hz = hz(filled ? box->mcu_hz : 0, USUAL_MCU_HZ),
      .noc_hz = hz(filled ? box->noc_hz : 0, USUAL_NOC_HZ),
      .npu_hz = hz(filled ? box->npu_hz : 0, USUAL_NPU_HZ),
      .nic_hz = hz(filled ? box->nic_hz : 0, USUAL_NIC_HZ),
      .has_npu_cache = true,
      .loads_networks = true,
      .networks = networks_table(),
      .network_count = networks_count(),
      .memories = memories,
      .memory_count = sizeof memories / sizeof *memories,
      .failures = failures,
      .failure_count = refused,
      .memory_written = memory_written,
  };
  const wire_line *line = board_line(board.mcu_hz);
  box->state = MAILBOX_READY;
  validation_serve(&board, line);
  return 0;
}
