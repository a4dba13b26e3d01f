/* SPDX-License-Identifier: Apache-2.0
 * The layout of a runtime-loadable image: header, context, pool descriptors, trailer.
 *
 *   [header | text | rodata] [data, context, pools, GOT] pad 8 [REL] pad 8 [parameters] [trailer]
 *
 * An address inside an image has its segment in bits 31 to 28 and an offset below.
 */
#ifndef NPUSCOPE_IMAGE_H
#define NPUSCOPE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NPUSCOPE_MAGIC 0x4E49424Eu         /* bytes "NBIN" */
#define NPUSCOPE_TRAILER_MAGIC 0x5254504Eu /* bytes "NPTR" */
#define NPUSCOPE_TRAILER_VERSION 1u
#define NPUSCOPE_TRAILER_BYTES 16u
#define NPUSCOPE_API_MAJOR 8u
#define NPUSCOPE_API_MINOR 0u
#define NPUSCOPE_FLOAT_ABI_HARD 2u
#define NPUSCOPE_MOST_POOLS 10u
#define NPUSCOPE_ENTRIES 10u

enum {
  NPUSCOPE_FLASH = 2,
  NPUSCOPE_RAM = 4,
  NPUSCOPE_PARAM_0 = 8,
  NPUSCOPE_PARAM_1 = 9
};

enum { NPUSCOPE_POOL_RELOC = 1, NPUSCOPE_POOL_COPY = 2, NPUSCOPE_POOL_RESET = 3 };
enum { NPUSCOPE_DATA_PARAM = 1, NPUSCOPE_DATA_ACTIV = 2, NPUSCOPE_DATA_MIXED = 3 };
enum { NPUSCOPE_ACCESS_READ = 1, NPUSCOPE_ACCESS_WRITE = 2, NPUSCOPE_ACCESS_CACHED = 4 };

/* Functions of an image, in the order of the header. */
typedef enum {
  NPUSCOPE_EC_NETWORK_INIT,
  NPUSCOPE_EC_INFERENCE_INIT,
  NPUSCOPE_INPUT_SETTER,
  NPUSCOPE_INPUT_GETTER,
  NPUSCOPE_OUTPUT_SETTER,
  NPUSCOPE_OUTPUT_GETTER,
  NPUSCOPE_EPOCH_ITEMS,
  NPUSCOPE_OUTPUT_BUFFERS,
  NPUSCOPE_INPUT_BUFFERS,
  NPUSCOPE_INTERNAL_BUFFERS
} npuscope_entry;

typedef struct {
  uint32_t magic, flags;
  uint32_t data_start, data_end, data_data;
  uint32_t bss_start, bss_end, got_start, got_end, rel_start, rel_end;
  uint32_t params_start;  /* pool descriptors, not parameters */
  uint32_t params_offset; /* plain file offset, 0: parameters have a file of their own */
  uint32_t entries[NPUSCOPE_ENTRIES];
  uint32_t context;
} npuscope_header;

/* Words that are pointers on the device, as numbers: in the file they are segment addresses. */
typedef struct {
  uint32_t state, file_addr, ram_addr, rom_addr, callbacks;
  uint32_t c_name, acts_sz, params_sz, ext_ram_sz;
  uint32_t rt_version_desc, rt_version, rt_version_extra;
  uint32_t params_bin_sz, params_bin_crc32, struct_sizes;
  uint32_t ll_instance, interface;
} npuscope_context;

enum { NPUSCOPE_STATE_INITIALIZED = 1, NPUSCOPE_STATE_XIP = 2 };

_Static_assert(sizeof(npuscope_header) == 96, "24 words");
_Static_assert(sizeof(npuscope_context) == 68, "17 words");

static inline uint32_t npuscope_segment(uint32_t address) { return address >> 28; }
static inline uint32_t npuscope_offset(uint32_t address) { return address & 0x0FFFFFFFu; }
static inline uint32_t npuscope_align8(uint32_t size) { return (size + 7u) & ~7u; }

/* Does [at, at + bytes) lie in [0, room)? Written so that no sum can wrap. */
static inline bool npuscope_inside(uint32_t at, uint32_t bytes, uint32_t room) {
  return at <= room && bytes <= room - at;
}

#endif
