/* SPDX-License-Identifier: Apache-2.0
 * Epoch-controller binaries: find the parts of a container, relocate and patch its blob.
 *
 * A container starts with its magic number and byte offsets of its parts (0 = absent). Tables
 * hold a count and rows; offsets in rows count from the table. Places count words of the code,
 * behind the blob's two header words.
 */
#include "ecloader.h"

#include <stddef.h>

#define BLOB_MAGIC 0xCA057A7AUL
#define FIRST_CONTAINER 0xECBF0020UL /* no patch table */
#define CONTAINER 0xECBF0030UL       /* patches: name, mask, count, list */
#define SHIFT_CONTAINER 0xECBF0050UL /* patches: name, shift, mask, count, list */
#define HEADER_WORDS 2
#define RELOCATION_ROW 3

static uint32_t word_at(const uint8_t *bytes, unsigned int index)
{
  return ((const uint32_t *)(const void *)bytes)[index];
}

static bool has_patches(const uint8_t *binary)
{
  return word_at(binary, 0) == CONTAINER || word_at(binary, 0) == SHIFT_CONTAINER;
}

static bool is_container(const uint8_t *binary)
{
  return has_patches(binary) || word_at(binary, 0) == FIRST_CONTAINER;
}

static const uint8_t *part(const uint8_t *binary, unsigned int index)
{
  uint32_t offset = word_at(binary, index);
  return offset && offset % sizeof(uint32_t) == 0 ? binary + offset : NULL;
}

const uint64_t *ec_get_blob_ptr(const uint8_t *binary)
{
  if (word_at(binary, 0) == BLOB_MAGIC) return (const uint64_t *)(const void *)binary;
  if (!is_container(binary)) return NULL;
  return (const uint64_t *)(const void *)part(binary, has_patches(binary) ? 4 : 3);
}

bool ec_copy_blob(ECInstr *blob, const uint8_t *binary, unsigned int *size)
{
  const ECInstr *words = (const ECInstr *)(const void *)ec_get_blob_ptr(binary);
  if (blob == NULL || words == NULL || words[0] != BLOB_MAGIC) return false;
  unsigned int count = HEADER_WORDS + words[1];
  for (unsigned int i = 0; i < count; i++) blob[i] = words[i];
  if (size != NULL) *size = count;
  return true;
}

const ECFileEntry *ec_get_reloc_table_ptr(const uint8_t *binary)
{
  return is_container(binary) ? (const ECFileEntry *)(const void *)part(binary, 1) : NULL;
}

/* The patch table's rows depend on the container; the word before a table would not tell, so
 * the row's length rides in the lowest bits of the pointer: tables are aligned to 8 bytes. */
const ECFileEntry *ec_get_patch_table_ptr(const uint8_t *binary)
{
  const uint8_t *table = has_patches(binary) ? part(binary, 2) : NULL;
  if (table == NULL) return NULL;
  uintptr_t shifted = word_at(binary, 0) == SHIFT_CONTAINER;
  return (const ECFileEntry *)((uintptr_t)table | shifted);
}

typedef struct {
  const ECFileEntry *table;
  unsigned int words; /* of a row */
} rows;

static rows relocation_rows(const ECFileEntry *table)
{
  rows found = {table, RELOCATION_ROW};
  return found;
}

static rows patch_rows(const ECFileEntry *table)
{
  uintptr_t shifted = (uintptr_t)table & 1;
  rows found = {(const ECFileEntry *)((uintptr_t)table - shifted), 4 + (unsigned int)shifted};
  return found;
}

static unsigned int count_of(rows in)
{
  return in.table == NULL ? 0 : in.table[0];
}

static const ECFileEntry *row_of(rows in, unsigned int index)
{
  return in.table + 1 + in.words * index;
}

static const char *name_of(rows in, unsigned int index)
{
  if (index >= count_of(in)) return NULL;
  return (const char *)in.table + row_of(in, index)[0];
}

/* The number of a row with this name, or the number of rows. */
static unsigned int find(rows in, const char *id)
{
  unsigned int index = 0;
  for (; index < count_of(in); index++) {
    const char *name = name_of(in, index), *wanted = id;
    while (*name && *name == *wanted) name++, wanted++;
    if (*name == *wanted) break;
  }
  return index;
}

/* Places of a row: their number and their list are its last two words. */
static const ECFileEntry *places_of(rows in, unsigned int index, unsigned int *count)
{
  const ECFileEntry *row = row_of(in, index);
  *count = row[in.words - 2];
  return (const ECFileEntry *)(const void *)((const uint8_t *)in.table + row[in.words - 1]);
}

unsigned int ec_get_num_relocs(const ECFileEntry *table)
{
  return count_of(relocation_rows(table));
}

const char *ec_get_reloc_id(const ECFileEntry *table, unsigned int index)
{
  return name_of(relocation_rows(table), index);
}

bool ec_reloc(const ECFileEntry *table, ECInstr *blob, unsigned int index, ECAddr base,
              ECAddr *previous)
{
  rows in = relocation_rows(table);
  unsigned int count = 0;
  if (index >= count_of(in)) return false;
  const ECFileEntry *places = places_of(in, index, &count);
  for (unsigned int i = 0; i < count; i++) blob[HEADER_WORDS + places[i]] += base - *previous;
  *previous = base;
  return true;
}

bool ec_reloc_by_id(const ECFileEntry *table, ECInstr *blob, const char *id, ECAddr base,
                    ECAddr *previous)
{
  return ec_reloc(table, blob, find(relocation_rows(table), id), base, previous);
}

unsigned int ec_get_num_patches(const ECFileEntry *table)
{
  return count_of(patch_rows(table));
}

const char *ec_get_patch_id(const ECFileEntry *table, unsigned int index)
{
  return name_of(patch_rows(table), index);
}

/* The mask stands before the count. */
uint32_t ec_get_patch_mask(const ECFileEntry *table, unsigned int index)
{
  rows in = patch_rows(table);
  return index < count_of(in) ? row_of(in, index)[in.words - 3] : 0;
}

/* A shift moves the value right, a negative one left. */
static uint32_t shifted_value(rows in, unsigned int index, uint32_t value)
{
  if (in.words < 5) return value;
  int32_t shift = (int32_t)row_of(in, index)[1];
  if (shift <= -32 || shift >= 32) return 0;
  return shift < 0 ? value << -shift : value >> shift;
}

bool ec_patch(const ECFileEntry *table, ECInstr *blob, unsigned int index, uint32_t value)
{
  rows in = patch_rows(table);
  unsigned int count = 0;
  if (index >= count_of(in)) return false;
  uint32_t mask = ec_get_patch_mask(table, index);
  uint32_t bits = shifted_value(in, index, value) & mask;
  const ECFileEntry *places = places_of(in, index, &count);
  for (unsigned int i = 0; i < count; i++) {
    ECInstr *word = &blob[HEADER_WORDS + places[i]];
    *word = (*word & ~mask) | bits;
  }
  return true;
}

bool ec_patch_by_id(const ECFileEntry *table, ECInstr *blob, const char *id, uint32_t value)
{
  return ec_patch(table, blob, find(patch_rows(table), id), value);
}
