/* SPDX-License-Identifier: Apache-2.0
 * Memory pools of an image: may it have them, and what comes into them. */
#include "npuscope_memory.h"
#include "npuscope_parts.h"
#include "npuscope_platform.h"

#define BAD_ADDRESS AI_RELOC_RT_ERR_PARAM_ADDR
#define BAD_DESCRIPTOR AI_RELOC_RT_ERR_PARAM_DESC
#define NO_MEMORY AI_RELOC_RT_ERR_MEMORY

/* The NPU's cache serves external memory only, which begins above this address. */
#define EXTERNAL_MEMORY 0x60000000u

typedef ll_aton_reloc_mem_pool_desc pool_t;

static const npuscope_memory *memories;
static uint32_t memory_count;

void npuscope_loader_set_memories(const npuscope_memory *table, uint32_t count) {
  memories = table;
  memory_count = table ? count : 0;
}

static uint32_t kind_of(const pool_t *pool) { return pool->flags >> 24; }
static uint32_t data_of(const pool_t *pool) { return pool->flags >> 16 & 0xFFu; }
static uint32_t access_of(const pool_t *pool) { return pool->flags >> 8 & 0xFFu; }
static uint32_t number_of(const pool_t *pool) { return pool->flags & 0xFFu; }
static bool is_cached(const pool_t *pool) { return access_of(pool) & NPUSCOPE_ACCESS_CACHED; }
static bool has_bytes(const pool_t *pool) { return data_of(pool) != NPUSCOPE_DATA_ACTIV; }
static bool lies_outside_npu_cache(uintptr_t address) { return address <= EXTERNAL_MEMORY; }

bool npuscope_overlap(npuscope_span a, npuscope_span b) {
  return a.bytes && b.bytes && (a.base < b.base ? b.base - a.base < a.bytes
                                                : a.base - b.base < b.bytes);
}

static bool is_offered(npuscope_span span) {
  for (uint32_t i = 0; i < memory_count; i++)
    if (span.base >= memories[i].address &&
        npuscope_inside((uint32_t)(span.base - memories[i].address), span.bytes,
                        memories[i].bytes))
      return true;
  return false;
}

static npuscope_span file_of(const npuscope_image *image) {
  const uint32_t end = npuscope_offset(image->header->rel_end);
  const uint32_t params = image->header->params_offset;
  return (npuscope_span){image->file, params ? params + image->context->params_bin_sz : end};
}

/* What is written while code and data go to the exec RAM, or read then, may not be a pool's. */
static bool is_in_use(const npuscope_image *image, const npuscope_places *places,
                      npuscope_span span) {
  return npuscope_overlap(span, places->exec) || npuscope_overlap(span, file_of(image)) ||
         npuscope_overlap(span, places->parameters);
}

static int check_fields(const pool_t *pool, const npuscope_places *places) {
  const uint32_t kind = kind_of(pool), data = data_of(pool);
  if (kind < NPUSCOPE_POOL_RELOC || kind > NPUSCOPE_POOL_RESET || !pool->name)
    return npuscope_refuse(BAD_DESCRIPTOR, "a pool of an unknown kind");
  if (data < NPUSCOPE_DATA_PARAM || data > NPUSCOPE_DATA_MIXED)
    return npuscope_refuse(BAD_DESCRIPTOR, "a pool with data of an unknown kind");
  if (kind == NPUSCOPE_POOL_RESET ? has_bytes(pool)
                                  : kind == NPUSCOPE_POOL_COPY && !has_bytes(pool))
    return npuscope_refuse(BAD_DESCRIPTOR, "a pool whose kind and data do not fit together");
  if (has_bytes(pool) && !npuscope_inside(pool->foff, pool->size, places->parameters.bytes))
    return npuscope_refuse(places->parameters.base ? BAD_DESCRIPTOR : BAD_ADDRESS,
                           "a pool's bytes are not inside the parameters");
  return AI_RELOC_RT_ERR_NONE;
}

static int check_parameters_pool(const pool_t *pool, npuscope_places *places) {
  if (data_of(pool) != NPUSCOPE_DATA_PARAM || access_of(pool) & NPUSCOPE_ACCESS_WRITE)
    return npuscope_refuse(BAD_DESCRIPTOR, "relocated parameters must be read-only");
  if (is_cached(pool) && lies_outside_npu_cache(places->parameters.base))
    return npuscope_refuse(BAD_ADDRESS, "cached parameters must lie in external memory");
  places->param_0 = (npuscope_span){places->parameters.base + pool->foff, pool->size};
  return AI_RELOC_RT_ERR_NONE;
}

static int check_external_pool(const npuscope_image *image, const ll_aton_reloc_config *config,
                               const pool_t *pool, npuscope_places *places) {
  const npuscope_span span = {config->ext_ram_addr, pool->size};
  if (config->ext_ram_addr == 0 || pool->size > config->ext_ram_size)
    return npuscope_refuse(BAD_ADDRESS, "the external RAM is missing or too small");
  if (data_of(pool) == NPUSCOPE_DATA_PARAM)
    return npuscope_refuse(BAD_DESCRIPTOR, "external RAM holds activations, parameters beside");
  if (is_cached(pool) && lies_outside_npu_cache(config->ext_ram_addr))
    return npuscope_refuse(BAD_ADDRESS, "a cached pool must lie in external memory");
  if (pool->size > 0u - (uint32_t)span.base || is_in_use(image, places, span))
    return npuscope_refuse(NO_MEMORY, "the external RAM overlaps what is loaded");
  places->param_1 = span;
  return AI_RELOC_RT_ERR_NONE;
}

static int check_absolute_pool(const npuscope_image *image, const pool_t *pool,
                               const npuscope_places *places) {
  const npuscope_span span = {pool->dst, pool->size};
  if (is_cached(pool) && lies_outside_npu_cache(pool->dst))
    return npuscope_refuse(BAD_ADDRESS, "a cached pool must lie in external memory");
  if (!is_offered(span))
    return npuscope_refuse(NO_MEMORY, "a pool does not fit the memories on offer");
  if (is_in_use(image, places, span))
    return npuscope_refuse(NO_MEMORY, "a pool overlaps what is loaded");
  return AI_RELOC_RT_ERR_NONE;
}

static int check_pool(const npuscope_image *image, const ll_aton_reloc_config *config,
                      const pool_t *pool, npuscope_places *places) {
  const int code = check_fields(pool, places);
  if (code) return code;
  if (kind_of(pool) != NPUSCOPE_POOL_RELOC) return check_absolute_pool(image, pool, places);
  if (number_of(pool) == 0) return check_parameters_pool(pool, places);
  if (number_of(pool) == 1) return check_external_pool(image, config, pool, places);
  return npuscope_refuse(BAD_DESCRIPTOR, "a relocated pool has the number 0 or 1");
}

/* One base a segment: a second pool of the same number would have none. */
static bool relocates_twice(const pool_t *pools, const pool_t *pool) {
  for (const pool_t *other = pools; other < pool; other++)
    if (kind_of(other) == NPUSCOPE_POOL_RELOC && kind_of(pool) == NPUSCOPE_POOL_RELOC &&
        number_of(other) == number_of(pool))
      return true;
  return false;
}

/* Only when all are read it is known where the external RAM lies. */
static bool external_is_apart(const pool_t *pool, const npuscope_places *places) {
  for (; pool->flags; pool++) {
    const npuscope_span span = {pool->dst, pool->size};
    if (kind_of(pool) != NPUSCOPE_POOL_RELOC && npuscope_overlap(span, places->param_1))
      return false;
  }
  return true;
}

int npuscope_check_pools(const npuscope_image *image, const ll_aton_reloc_config *config,
                         npuscope_places *places) {
  const pool_t *pools = npuscope_pools(image);
  for (const pool_t *pool = pools; pool->flags; pool++) {
    const int code = check_pool(image, config, pool, places);
    if (code) return code;
    if (relocates_twice(pools, pool))
      return npuscope_refuse(BAD_DESCRIPTOR, "two relocated pools have one number");
  }
  if (!external_is_apart(pools, places))
    return npuscope_refuse(NO_MEMORY, "a pool overlaps the external RAM");
  return AI_RELOC_RT_ERR_NONE;
}

static uintptr_t destination(const pool_t *pool, const npuscope_places *places) {
  return kind_of(pool) == NPUSCOPE_POOL_RELOC ? places->param_1.base : pool->dst;
}

static void move_pool(const pool_t *pool, const npuscope_places *places, bool clears) {
  void *target = (void *)destination(pool, places);
  if (kind_of(pool) == NPUSCOPE_POOL_RELOC && number_of(pool) == 0) return;
  if (has_bytes(pool))
    memcpy(target, (const void *)(places->parameters.base + pool->foff), pool->size);
  else if (clears)
    memset(target, 0, pool->size);
  else
    return;
  npuscope_clean_data_cache((uintptr_t)target, pool->size);
  npuscope_invalidate_data_cache((uintptr_t)target, pool->size);
}

void npuscope_move_pools(const npuscope_image *image, const ll_aton_reloc_config *config,
                         const npuscope_places *places) {
  const bool clears = config->mode & AI_RELOC_RT_LOAD_MODE_CLEAR;
  bool cached = false;
  for (const pool_t *pool = npuscope_pools(image); pool->flags; pool++) {
    move_pool(pool, places, clears);
    cached |= is_cached(pool);
  }
  if (cached) npuscope_invalidate_npu_cache();
}
