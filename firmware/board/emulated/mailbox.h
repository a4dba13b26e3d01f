/* SPDX-License-Identifier: Apache-2.0
 * What the host leaves in memory before it starts the board, and what it finds there afterwards.
 * Words, little endian, at MAILBOX_ADDRESS. */
#ifndef MAILBOX_H
#define MAILBOX_H

#include <stdint.h>

#define MAILBOX_MAGIC 0x584F424Du /* bytes "MBOX" */
#define MAILBOX_VERSION 1u
#define MAILBOX_ENTRIES 4u

enum {
  ENTRY_EMPTY = 0,   /* nothing to load, or not looked at yet */
  ENTRY_SERVED = 1,
  ENTRY_REFUSED = 2  /* `code` and `reason` tell why */
};

/* Once the mailbox was read. */
enum { MAILBOX_WAITING = 0, MAILBOX_READY = 1, MAILBOX_FAULT = 2 };

typedef struct {
  uint32_t file;         /* 0: no network here */
  uint32_t file_bytes;   /* that may be read; 0 for unknown */
  uint32_t params;       /* 0: the parameters are in the file */
  uint32_t params_bytes;
  uint32_t mode;         /* XIP 1, COPY 2, CLEAR 4 */
  uint32_t exec_ram, exec_ram_bytes;
  uint32_t ext_ram, ext_ram_bytes;
} mailbox_entry;

typedef struct {
  int32_t code;     /* the loader's */
  uint32_t status;
  char reason[88];  /* one sentence, ends with 0 */
} mailbox_result;

typedef struct {
  uint32_t magic, version;
  uint32_t mcu_hz, noc_hz, npu_hz, nic_hz; /* 0: the board's usual clocks */
  uint32_t requires_trailer;               /* 1: files without a checksum are refused */
  uint32_t state;                          /* written by the board */
  mailbox_entry entries[MAILBOX_ENTRIES];
  mailbox_result results[MAILBOX_ENTRIES]; /* written by the board */
  uint32_t fault[4];                       /* written by the board: pc, lr, CFSR, HFSR */
} mailbox;

_Static_assert(sizeof(mailbox_entry) == 36, "9 words");
_Static_assert(sizeof(mailbox_result) == 96, "24 words");
_Static_assert(sizeof(mailbox) == 32 + 4 * 36 + 4 * 96 + 16, "no holes");

#endif
