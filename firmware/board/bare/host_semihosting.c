/* SPDX-License-Identifier: Apache-2.0
 * A host that speaks semihosting: a script of files to load, commands and regions to save.
 *
 * `script.bin` has records of 64 bytes; after each command the mailbox is added to `results.bin`.
 */
#include "mailbox.h"

#define SCRIPT "script.bin"
#define RESULTS "results.bin"

enum { SYS_OPEN = 0x01, SYS_CLOSE = 0x02, SYS_WRITE = 0x05, SYS_READ = 0x06, SYS_EXIT = 0x20 };
enum { MODE_READ = 1, MODE_WRITE = 5 };
enum { EXIT_APPLICATION = 0x20026 };

typedef enum { RECORD_END, RECORD_LOAD, RECORD_COMMAND, RECORD_SAVE } record_kind;

typedef struct {
  uint32_t kind;
  union {
    struct {
      uint32_t address, bytes;
      char name[52];
    } file;
    struct {
      uint32_t command, arguments[12];
    } call;
  };
} record_t;

_Static_assert(sizeof(record_t) == 64, "a record of the script");

static int script = -1, results = -1;

static int semihosting(uint32_t operation, const void *arguments) {
  register uint32_t r0 __asm("r0") = operation;
  register const void *r1 __asm("r1") = arguments;
  __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return (int)r0;
}

static uint32_t length(const char *text) {
  uint32_t count = 0;
  while (text[count]) count++;
  return count;
}

static int open_file(const char *name, uint32_t mode) {
  const uint32_t arguments[] = {(uint32_t)name, mode, length(name)};
  return semihosting(SYS_OPEN, arguments);
}

/* Both tell how many bytes were not moved. */
static int move(uint32_t operation, int file, const void *data, uint32_t bytes) {
  const uint32_t arguments[] = {(uint32_t)file, (uint32_t)data, bytes};
  return semihosting(operation, arguments);
}

static void close_file(int file) {
  const uint32_t argument = (uint32_t)file;
  semihosting(SYS_CLOSE, &argument);
}

static void leave(uint32_t code) {
  const uint32_t arguments[] = {EXIT_APPLICATION, code};
  semihosting(SYS_EXIT, arguments);
  for (;;) __asm volatile("wfi");
}

static void give_back(const npuscope_mailbox *box) {
  if (results < 0) results = open_file(RESULTS, MODE_WRITE);
  if (results < 0 || move(SYS_WRITE, results, box, sizeof *box)) leave(2);
}

static void fail(npuscope_mailbox *box, const char *name) {
  box->status = NPUSCOPE_STATUS_HOST;
  for (uint32_t i = 0; i < sizeof box->reason - 1; i++) {
    box->reason[i] = *name;
    if (!*name++) break;
  }
  give_back(box);
  leave(2);
}

/* An emulator may drop what it should put where nothing is; a load of our own faults there. */
static void touch(uint32_t address, uint32_t bytes) {
  if (!bytes) return;
  (void)*(volatile const uint8_t *)address;
  (void)*(volatile const uint8_t *)(address + bytes - 1);
}

static void move_file(npuscope_mailbox *box, const record_t *record) {
  const int saves = record->kind == RECORD_SAVE;
  const int file = open_file(record->file.name, saves ? MODE_WRITE : MODE_READ);
  void *memory = (void *)record->file.address;
  touch(record->file.address, record->file.bytes);
  if (file < 0 || move(saves ? SYS_WRITE : SYS_READ, file, memory, record->file.bytes))
    fail(box, record->file.name);
  close_file(file);
}

static void take_command(npuscope_mailbox *box, const record_t *record) {
  box->command = record->call.command;
  for (unsigned i = 0; i < 12; i++) box->arguments[i] = record->call.arguments[i];
  box->state = NPUSCOPE_BUSY;
}

void npuscope_next_command(npuscope_mailbox *box) {
  record_t record;
  if (script < 0) script = open_file(SCRIPT, MODE_READ);
  for (;;) {
    if (script < 0 || move(SYS_READ, script, &record, sizeof record)) fail(box, SCRIPT);
    record.file.name[sizeof record.file.name - 1] = 0;
    switch (record.kind) {
      case RECORD_LOAD:
      case RECORD_SAVE: move_file(box, &record); break;
      case RECORD_COMMAND: take_command(box, &record); return;
      default: leave(0);
    }
  }
}

void npuscope_command_done(npuscope_mailbox *box) { give_back(box); }

void npuscope_report_fault(npuscope_mailbox *box) {
  give_back(box);
  leave(3);
}
