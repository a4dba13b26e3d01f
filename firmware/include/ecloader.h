/* SPDX-License-Identifier: Apache-2.0
 * Epoch-controller binaries: a blob, or a container with relocations and patches around it. */
#ifndef ECLOADER_H
#define ECLOADER_H

#include <stdbool.h>
#include <stdint.h>

typedef uint32_t ECInstr;
typedef uint32_t ECAddr;
typedef uint32_t ECFileEntry;

/* The blob inside a binary; NULL where it is neither a blob nor a container. */
const uint64_t *ec_get_blob_ptr(const uint8_t *binary);
/* Copy the blob with its two header words; `size` becomes its number of words. */
bool ec_copy_blob(ECInstr *blob, const uint8_t *binary, unsigned int *size);

const ECFileEntry *ec_get_reloc_table_ptr(const uint8_t *binary);
unsigned int ec_get_num_relocs(const ECFileEntry *table);
const char *ec_get_reloc_id(const ECFileEntry *table, unsigned int index);
/* Move all places of a relocation from their previous base to a new one. */
bool ec_reloc(const ECFileEntry *table, ECInstr *blob, unsigned int index, ECAddr base,
              ECAddr *previous);
bool ec_reloc_by_id(const ECFileEntry *table, ECInstr *blob, const char *id, ECAddr base,
                    ECAddr *previous);

const ECFileEntry *ec_get_patch_table_ptr(const uint8_t *binary);
unsigned int ec_get_num_patches(const ECFileEntry *table);
const char *ec_get_patch_id(const ECFileEntry *table, unsigned int index);
uint32_t ec_get_patch_mask(const ECFileEntry *table, unsigned int index);
/* Set the masked bits of all places of a patch. */
bool ec_patch(const ECFileEntry *table, ECInstr *blob, unsigned int index, uint32_t value);
bool ec_patch_by_id(const ECFileEntry *table, ECInstr *blob, const char *id, uint32_t value);

#endif
