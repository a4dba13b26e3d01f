/* SPDX-License-Identifier: Apache-2.0
 * Is this an image, is it for this firmware, and do all words of its header stay inside it? */
#include "ll_aton_version.h"
#include "npuscope_parts.h"
#include "npuscope_platform.h"

#ifndef NPUSCOPE_CPU_PART
#error "define NPUSCOPE_CPU_PART: 0xD21 for a Cortex-M33, 0xD22 for a Cortex-M55"
#endif

#ifndef NPUSCOPE_SECURE
#if defined(__ARM_FEATURE_CMSE) && __ARM_FEATURE_CMSE == 3
#define NPUSCOPE_SECURE 1
#else
#define NPUSCOPE_SECURE 0
#endif
#endif

/* Blobs of the epoch controller need the asynchronous runtime. */
#ifndef NPUSCOPE_ASYNC
#define NPUSCOPE_ASYNC 1
#endif

#ifdef LL_ATON_EB_DBG_INFO
#define DEBUG_INFO 1u
#else
#define DEBUG_INFO 0u
#endif

#define DAMAGED AI_RELOC_RT_ERR_INVALID_BIN
#define OTHER_FIRMWARE AI_RELOC_RT_ERR_NOT_SUPPORTED

static uint32_t bit(uint32_t flags, unsigned number) { return flags >> number & 1u; }

int npuscope_check_flags(const npuscope_image *image) {
  const uint32_t flags = image->header->flags;
  if ((flags & 0xFFFu) != NPUSCOPE_CPU_PART)
    return npuscope_refuse(OTHER_FIRMWARE, "the image is for another CPU");
  if (bit(flags, 12) && !npuscope_fpu_enabled())
    return npuscope_refuse(OTHER_FIRMWARE, "the image needs the FPU, which is off");
  if ((flags >> 13 & 3u) != NPUSCOPE_FLOAT_ABI_HARD)
    return npuscope_refuse(OTHER_FIRMWARE, "the image passes floats another way");
  if (bit(flags, 20) != NPUSCOPE_SECURE)
    return npuscope_refuse(OTHER_FIRMWARE, "secure and non-secure do not mix");
  if (bit(flags, 21) != DEBUG_INFO)
    return npuscope_refuse(OTHER_FIRMWARE, "debug info of epochs differs");
  if (bit(flags, 22) != NPUSCOPE_ASYNC)
    return npuscope_refuse(OTHER_FIRMWARE, "the asynchronous mode differs");
  if (flags >> 24 != (NPUSCOPE_API_MAJOR << 4 | NPUSCOPE_API_MINOR))
    return npuscope_refuse(OTHER_FIRMWARE, "the image has another version of the loader API");
  return AI_RELOC_RT_ERR_NONE;
}

int npuscope_check_versions(const npuscope_image *image) {
  const uint32_t version = (uint32_t)LL_ATON_VERSION_MAJOR << 24 | LL_ATON_VERSION_MINOR << 16 |
                           LL_ATON_VERSION_MICRO << 8;
  const uint32_t sizes = sizeof(NPUSCOPE_ITEM) << 8 | sizeof(LL_Buffer_InfoTypeDef);
  if ((image->context->rt_version & 0xFFFFFF00u) != version)
    return npuscope_refuse(OTHER_FIRMWARE, "the image is for another version of the runtime");
  if ((image->context->struct_sizes & 0xFFFFu) != sizes)
    return npuscope_refuse(OTHER_FIRMWARE, "the image was compiled with other structures");
  return AI_RELOC_RT_ERR_NONE;
}

/* Is `address` a whole word of `segment`, at most at `room`? The end of a range may be there. */
static bool word_of(uint32_t address, uint32_t segment, uint32_t room) {
  return npuscope_segment(address) == segment && npuscope_offset(address) <= room &&
         address % 4 == 0;
}

static bool code_is_inside(npuscope_image *image) {
  const npuscope_header *header = image->header;
  image->code_bytes = npuscope_offset(header->data_data);
  return word_of(header->data_data, NPUSCOPE_FLASH, image->limit) &&
         image->code_bytes >= sizeof *header;
}

static bool relocations_are_inside(const npuscope_image *image) {
  const npuscope_header *header = image->header;
  return word_of(header->rel_start, NPUSCOPE_FLASH, image->limit) &&
         word_of(header->rel_end, NPUSCOPE_FLASH, image->limit) &&
         header->rel_start <= header->rel_end &&
         npuscope_offset(header->rel_start) >= image->code_bytes;
}

static bool ram_is_ordered(npuscope_image *image) {
  const npuscope_header *header = image->header;
  const uint32_t room = npuscope_offset(header->rel_start) - image->code_bytes;
  const uint32_t bss = npuscope_offset(header->bss_start);
  /* Linkers may align the start of bss: then a few bytes before it are not in the file. */
  image->stored_bytes = bss < room ? bss : room;
  image->ram_bytes = npuscope_offset(header->bss_end);
  return header->data_start == (uint32_t)NPUSCOPE_RAM << 28 &&
         npuscope_segment(header->bss_start) == NPUSCOPE_RAM &&
         npuscope_segment(header->bss_end) == NPUSCOPE_RAM &&
         header->bss_start <= header->bss_end &&
         npuscope_segment(header->data_end) == NPUSCOPE_RAM &&
         npuscope_offset(header->data_end) <= image->stored_bytes;
}

static bool got_is_inside(const npuscope_image *image) {
  const npuscope_header *header = image->header;
  return word_of(header->got_start, NPUSCOPE_RAM, image->stored_bytes) &&
         word_of(header->got_end, NPUSCOPE_RAM, image->stored_bytes) &&
         header->got_start <= header->got_end;
}

static bool in_stored_ram(const npuscope_image *image, uint32_t address, uint32_t bytes) {
  return word_of(address, NPUSCOPE_RAM, image->stored_bytes) &&
         npuscope_inside(npuscope_offset(address), bytes, image->stored_bytes);
}

static bool entries_are_code(const npuscope_image *image) {
  for (unsigned i = 0; i < NPUSCOPE_ENTRIES; i++) {
    const uint32_t entry = image->header->entries[i];
    const uint32_t at = npuscope_offset(entry);
    if (npuscope_segment(entry) != NPUSCOPE_FLASH || entry % 2 != 1) return false;
    if (at < sizeof(npuscope_header) || at >= image->code_bytes) return false;
  }
  return true;
}

/* One entry of zeros ends the table; it must be there before the data does. */
static bool pools_end(const npuscope_image *image) {
  const uint32_t at = npuscope_offset(image->header->params_start);
  const ll_aton_reloc_mem_pool_desc *pool = npuscope_pools(image);
  for (uint32_t i = 0; i <= NPUSCOPE_MOST_POOLS; i++) {
    if (!npuscope_inside(at, (i + 1) * sizeof *pool, image->stored_bytes)) return false;
    if (pool[i].flags == 0) return true;
  }
  return false;
}

static bool parameters_are_inside(const npuscope_image *image) {
  const uint32_t at = image->header->params_offset;
  if (at == 0) return true;
  return at % 8 == 0 && at >= npuscope_offset(image->header->rel_end) &&
         npuscope_inside(at, image->context->params_bin_sz, image->limit);
}

static bool text_ends(const npuscope_image *image, uint32_t address) {
  const uint32_t room =
      npuscope_segment(address) == NPUSCOPE_FLASH ? image->code_bytes : image->stored_bytes;
  const char *text = npuscope_stored(image, address, 1);
  if (address == 0) return true;
  if (!text) return false;
  for (uint32_t i = npuscope_offset(address); i < room; i++, text++)
    if (*text == 0) return true;
  return false;
}

static bool context_is_sound(const npuscope_image *image) {
  const npuscope_context *context = image->context;
  const uint32_t interface = context->interface;
  return text_ends(image, context->c_name) && text_ends(image, context->rt_version_desc) &&
         (interface == 0 || (interface % 4 == 0 && npuscope_stored(image, interface, 4)));
}

int npuscope_check_layout(npuscope_image *image) {
  const npuscope_header *header = image->header;
  if (!code_is_inside(image)) return npuscope_refuse(DAMAGED, "code is not inside the file");
  if (!relocations_are_inside(image))
    return npuscope_refuse(DAMAGED, "relocations are not inside the file");
  if (!ram_is_ordered(image)) return npuscope_refuse(DAMAGED, "data and bss are not in order");
  if (!got_is_inside(image)) return npuscope_refuse(DAMAGED, "the GOT is not inside the data");
  if (!entries_are_code(image)) return npuscope_refuse(DAMAGED, "an entry point is not code");
  if (!in_stored_ram(image, header->context, sizeof(npuscope_context)))
    return npuscope_refuse(DAMAGED, "the context is not inside the data");
  if (!in_stored_ram(image, header->params_start, sizeof(ll_aton_reloc_mem_pool_desc)))
    return npuscope_refuse(DAMAGED, "pool descriptors are not inside the data");
  image->context = npuscope_stored(image, header->context, sizeof(npuscope_context));
  if (!pools_end(image)) return npuscope_refuse(DAMAGED, "pool descriptors have no end");
  if (!parameters_are_inside(image))
    return npuscope_refuse(DAMAGED, "parameters are not inside the file");
  if (!context_is_sound(image))
    return npuscope_refuse(DAMAGED, "the context points out of the image");
  return AI_RELOC_RT_ERR_NONE;
}
