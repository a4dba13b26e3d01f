/* SPDX-License-Identifier: Apache-2.0
 * Steps of an installation. Everything up to npuscope_check_words only reads. */
#ifndef NPUSCOPE_PARTS_H
#define NPUSCOPE_PARTS_H

#include "npuscope_image.h"
#include "npuscope_loader.h"

/* An image in its file: what the checked header says, in plain numbers. */
typedef struct {
  uintptr_t file;
  const npuscope_header *header;
  const npuscope_context *context; /* as stored, pointers are segment addresses */
  uint32_t limit;                  /* bytes that may be read */
  uint32_t code_bytes;             /* header, text and rodata */
  uint32_t stored_bytes;           /* of the RAM segment: what is not bss */
  uint32_t ram_bytes;              /* of the RAM segment, with bss */
  bool has_trailer;
} npuscope_image;

typedef struct {
  uintptr_t base;
  uint32_t bytes;
} npuscope_span;

/* Where each segment will lie. */
typedef struct {
  npuscope_span flash, ram, param_0, param_1;
  npuscope_span exec;       /* the part of the exec RAM that is used */
  npuscope_span parameters; /* the parameters as stored */
  bool copies_code;
} npuscope_places;

int npuscope_refuse(int code, const char *reason);

int npuscope_open(uintptr_t file, npuscope_image *image);
int npuscope_check_flags(const npuscope_image *image);
int npuscope_check_layout(npuscope_image *image);
int npuscope_check_versions(const npuscope_image *image);
int npuscope_check_whole(npuscope_image *image);
int npuscope_check_params_file(const npuscope_image *image, const npuscope_places *places);
int npuscope_check_places(const npuscope_image *image, const ll_aton_reloc_config *config,
                          npuscope_places *places);
int npuscope_check_pools(const npuscope_image *image, const ll_aton_reloc_config *config,
                         npuscope_places *places);
int npuscope_check_words(const npuscope_image *image, const npuscope_places *places);

void npuscope_move_pools(const npuscope_image *image, const ll_aton_reloc_config *config,
                         const npuscope_places *places);
void npuscope_relocate(const npuscope_image *image, const npuscope_places *places);

/* A byte of the FLASH or RAM segment as it lies in the file; NULL when it is in neither. */
const void *npuscope_stored(const npuscope_image *image, uint32_t address, uint32_t bytes);
const ll_aton_reloc_mem_pool_desc *npuscope_pools(const npuscope_image *image);
/* The address that a word stands for; false when its segment is unknown or too small. */
bool npuscope_rebase(const npuscope_places *places, uint32_t word, uint32_t *address);
bool npuscope_overlap(npuscope_span a, npuscope_span b);
uint32_t npuscope_params_limit(uintptr_t params);
const struct ll_aton_reloc_callback *npuscope_default_callbacks(void);

#endif
