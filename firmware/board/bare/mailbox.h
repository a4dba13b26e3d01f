/* SPDX-License-Identifier: Apache-2.0
 * The words that a host and the bare firmware exchange in memory. */
#ifndef NPUSCOPE_MAILBOX_H
#define NPUSCOPE_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

/* The arguments of each, in order; what comes back in `results` after the arrow. */
typedef enum {
  NPUSCOPE_DO_INFO = 1,       /* file, limit -> the 13 words of ll_aton_reloc_info */
  NPUSCOPE_DO_INSTALL = 2,    /* see npuscope_install_arguments */
  NPUSCOPE_DO_RUN = 3,        /* inferences -> inferences done, calls of each callback type */
  NPUSCOPE_DO_MEMORIES = 4,   /* count, then address and bytes of each, at most 5 */
  NPUSCOPE_DO_KERNEL = 5,     /* index, address of a npuscope_call */
  NPUSCOPE_DO_SET_INPUT = 6,  /* number, address, bytes -> result of the image's function */
  NPUSCOPE_DO_SET_OUTPUT = 7, /* number, address, bytes -> result of the image's function */
  NPUSCOPE_DO_GET_INPUT = 8,  /* number -> address */
  NPUSCOPE_DO_GET_OUTPUT = 9, /* number -> address */
  NPUSCOPE_DO_BUFFER = 10,    /* 0 inputs, 1 outputs, 2 internal; number -> address of its info */
  NPUSCOPE_DO_POOL = 11,      /* file, limit, index -> the 5 words of a descriptor */
  NPUSCOPE_DO_LOG = 12        /* file, limit -> lines in the log */
} npuscope_command;

typedef struct {
  uint32_t file, file_limit, exec_ram, exec_ram_bytes, ext_ram, ext_ram_bytes;
  uint32_t params, params_limit, mode, requires_trailer;
} npuscope_install_arguments;

/* Statuses besides those of the loader. */
enum {
  NPUSCOPE_STATUS_REFUSED = -20, /* the runtime refused an epoch */
  NPUSCOPE_STATUS_UNKNOWN = -21, /* no such command, kernel or buffer */
  NPUSCOPE_STATUS_FAULT = -22,   /* the processor stopped on a fault: results has where */
  NPUSCOPE_STATUS_HOST = -23     /* the host's script could not be carried out */
};

enum { NPUSCOPE_WAITING = 0x57414954, NPUSCOPE_BUSY = 0x42555359 };

typedef struct {
  uint32_t state; /* WAITING when the host may write a command */
  uint32_t command;
  uint32_t arguments[12];
  int32_t status;
  uint32_t results[16];
  char reason[96]; /* why the status is not 0 */
  uint32_t log_bytes;
  char log[1024]; /* lines of the last command */
} npuscope_mailbox;

extern npuscope_mailbox npuscope_box;

void npuscope_execute(npuscope_mailbox *box);

/* The host's side: take the next command, give back the last. Each board has its own. */
void npuscope_next_command(npuscope_mailbox *box);
void npuscope_command_done(npuscope_mailbox *box);
/* Does not return. */
void npuscope_report_fault(npuscope_mailbox *box);

#endif
