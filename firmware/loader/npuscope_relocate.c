/* SPDX-License-Identifier: Apache-2.0
 * Words that hold addresses: the GOT, and the places that REL lists.
 *
 * Values are always taken from the file and written to the copy. So a place that is listed twice
 * gets the same value twice, and the check before sees exactly what is used after it.
 */
#include "npuscope_parts.h"

#define DAMAGED AI_RELOC_RT_ERR_INVALID_BIN

bool npuscope_rebase(const npuscope_places *places, uint32_t word, uint32_t *address) {
  npuscope_span span = {0, 0};
  const uint32_t offset = npuscope_offset(word);
  switch (npuscope_segment(word)) {
    case NPUSCOPE_FLASH: span = places->flash; break;
    case NPUSCOPE_RAM: span = places->ram; break;
    case NPUSCOPE_PARAM_0: span = places->param_0; break;
    case NPUSCOPE_PARAM_1: span = places->param_1; break;
  }
  *address = word ? (uint32_t)span.base + offset : 0;
  return word == 0 || (span.base != 0 && offset <= span.bytes);
}

static const uint32_t *rel_list(const npuscope_image *image) {
  return (const uint32_t *)(image->file + npuscope_offset(image->header->rel_start));
}

static uint32_t rel_count(const npuscope_image *image) {
  return (image->header->rel_end - image->header->rel_start) / 4;
}

static int check_place(const npuscope_image *image, const npuscope_places *places,
                       uint32_t place) {
  const uint32_t *word = npuscope_stored(image, place, 4);
  const bool in_flash = npuscope_segment(place) == NPUSCOPE_FLASH;
  uint32_t address;
  if (!word || place % 4 != 0)
    return npuscope_refuse(DAMAGED, "a relocation lies outside the image");
  if (in_flash && npuscope_offset(place) < sizeof(npuscope_header))
    return npuscope_refuse(DAMAGED, "a relocation lies in the header");
  if (in_flash && !places->copies_code)
    return npuscope_refuse(AI_RELOC_RT_ERR_NOT_SUPPORTED,
                           "code with relocations cannot run in place: copy it");
  if (!npuscope_rebase(places, *word, &address))
    return npuscope_refuse(DAMAGED, "a relocated word points out of the image");
  return AI_RELOC_RT_ERR_NONE;
}

int npuscope_check_words(const npuscope_image *image, const npuscope_places *places) {
  const npuscope_header *header = image->header;
  const uint32_t *rel = rel_list(image);
  int code = AI_RELOC_RT_ERR_NONE;
  for (uint32_t at = header->got_start; at < header->got_end && !code; at += 4)
    code = check_place(image, places, at);
  for (uint32_t i = 0; i < rel_count(image) && !code; i++)
    code = check_place(image, places, rel[i]);
  return code;
}

static void fix(const npuscope_image *image, const npuscope_places *places, uint32_t place) {
  const npuscope_span span =
      npuscope_segment(place) == NPUSCOPE_FLASH ? places->flash : places->ram;
  const uint32_t *word = npuscope_stored(image, place, 4);
  npuscope_rebase(places, *word, (uint32_t *)(span.base + npuscope_offset(place)));
}

void npuscope_relocate(const npuscope_image *image, const npuscope_places *places) {
  const npuscope_header *header = image->header;
  const uint32_t *rel = rel_list(image);
  for (uint32_t at = header->got_start; at < header->got_end; at += 4) fix(image, places, at);
  for (uint32_t i = 0; i < rel_count(image); i++) fix(image, places, rel[i]);
}
