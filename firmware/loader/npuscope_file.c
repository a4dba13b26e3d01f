/* SPDX-License-Identifier: Apache-2.0
 * Reading an image's file: no byte behind its limit, and is it whole? */
#include "npuscope_parts.h"
#include "npuscope_platform.h"

#define DAMAGED AI_RELOC_RT_ERR_INVALID_BIN

static uint32_t file_limit, params_limit;
static bool trailer_required;
static const char *last_reason = "";

void npuscope_loader_set_file_limit(uint32_t bytes) { file_limit = bytes; }
void npuscope_loader_set_params_limit(uint32_t bytes) { params_limit = bytes; }
void npuscope_loader_require_trailer(bool required) { trailer_required = required; }
const char *npuscope_loader_reason(void) { return last_reason; }

int npuscope_refuse(int code, const char *reason) {
  last_reason = reason;
  return code;
}

/* Bytes from `start` on: the application's limit, or the end of the address space. */
static uint32_t readable(uintptr_t start, uint32_t limit) {
  const uint32_t left = 0u - (uint32_t)start;
  return limit && limit < left ? limit : left;
}

uint32_t npuscope_params_limit(uintptr_t params) { return readable(params, params_limit); }

int npuscope_open(uintptr_t file, npuscope_image *image) {
  npuscope_refuse(AI_RELOC_RT_ERR_NONE, "");
  *image = (npuscope_image){.file = file, .header = (const npuscope_header *)file};
  if (file == 0 || file % 8 != 0) return npuscope_refuse(DAMAGED, "the address is not aligned");
  image->limit = readable(file, file_limit);
  if (image->limit < sizeof(npuscope_header))
    return npuscope_refuse(DAMAGED, "the file ends inside its header");
  if (image->header->magic != NPUSCOPE_MAGIC)
    return npuscope_refuse(DAMAGED, "this is not an image: wrong magic");
  return AI_RELOC_RT_ERR_NONE;
}

const void *npuscope_stored(const npuscope_image *image, uint32_t address, uint32_t bytes) {
  const uint32_t at = npuscope_offset(address);
  if (npuscope_segment(address) == NPUSCOPE_FLASH && npuscope_inside(at, bytes, image->code_bytes))
    return (const void *)(image->file + at);
  if (npuscope_segment(address) == NPUSCOPE_RAM && npuscope_inside(at, bytes, image->stored_bytes))
    return (const void *)(image->file + image->code_bytes + at);
  return NULL;
}

const ll_aton_reloc_mem_pool_desc *npuscope_pools(const npuscope_image *image) {
  const uint32_t address = image->header->params_start;
  return npuscope_stored(image, address, sizeof(ll_aton_reloc_mem_pool_desc));
}

/* CRC-32 as zlib has it. Half a byte at a time: a table of 16 words instead of 256. */
static uint32_t crc32(const void *data, uint32_t bytes) {
  static const uint32_t table[16] = {
      0x00000000, 0x1DB71064, 0x3B6E20C8, 0x26D930AC,
      0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C,
      0xEDB88320, 0xF00F9344, 0xD6D6A3E8, 0xCB61B38C,
      0x9B64C2B0, 0x86D3D2D4, 0xA00AE278, 0xBDBDF21C,
  };
  const uint8_t *byte = data;
  uint32_t crc = ~0u;
  while (bytes--) {
    crc ^= *byte++;
    crc = crc >> 4 ^ table[crc & 15u];
    crc = crc >> 4 ^ table[crc & 15u];
  }
  return ~crc;
}

/* Parameters may have any length: what follows them need not be aligned. */
static uint32_t word_at(uintptr_t address) {
  const uint8_t *byte = (const uint8_t *)address;
  return byte[0] | (uint32_t)byte[1] << 8 | (uint32_t)byte[2] << 16 | (uint32_t)byte[3] << 24;
}

static bool begins_a_trailer(uintptr_t address, uint32_t room) {
  static const uint8_t magic[4] = {'N', 'P', 'T', 'R'};
  const uint8_t *byte = (const uint8_t *)address;
  for (uint32_t i = 0; i < 4 && i < room; i++)
    if (byte[i] != magic[i]) return false;
  return room > 0;
}

static int check_trailer(uintptr_t file, uint32_t length, uint32_t limit, bool *found) {
  const uintptr_t trailer = file + length;
  const uint32_t room = length <= limit ? limit - length : 0;
  *found = begins_a_trailer(trailer, room);
  if (!*found && trailer_required) return npuscope_refuse(DAMAGED, "the file has no trailer");
  if (!*found) return AI_RELOC_RT_ERR_NONE;
  if (room < NPUSCOPE_TRAILER_BYTES) return npuscope_refuse(DAMAGED, "the trailer is cut off");
  if (word_at(trailer + 4) != NPUSCOPE_TRAILER_VERSION || word_at(trailer + 8) != length)
    return npuscope_refuse(DAMAGED, "the trailer belongs to another file");
  if (word_at(trailer + 12) != crc32((const void *)file, length))
    return npuscope_refuse(DAMAGED, "the checksum is wrong: the file is damaged");
  return AI_RELOC_RT_ERR_NONE;
}

int npuscope_check_whole(npuscope_image *image) {
  const npuscope_header *header = image->header;
  const uint32_t length = header->params_offset
                              ? header->params_offset + image->context->params_bin_sz
                              : npuscope_align8(npuscope_offset(header->rel_end));
  return check_trailer(image->file, length, image->limit, &image->has_trailer);
}

int npuscope_check_params_file(const npuscope_image *image, const npuscope_places *places) {
  const npuscope_span parameters = places->parameters;
  const bool in_image = parameters.base == image->file + image->header->params_offset;
  bool found;
  if (in_image || !parameters.bytes) return AI_RELOC_RT_ERR_NONE;
  const uint32_t limit = npuscope_params_limit(parameters.base);
  const int code = check_trailer(parameters.base, parameters.bytes, limit, &found);
  if (!found) npuscope_loader_print("no trailer: the parameters' bytes were not checked");
  return code;
}
