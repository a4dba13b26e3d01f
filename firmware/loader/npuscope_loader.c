/* SPDX-License-Identifier: Apache-2.0
 * Installing an image. First every check, reading only; then the writes, which cannot fail. */
#include "npuscope_loader.h"

#include "npuscope_memory.h"
#include "npuscope_parts.h"
#include "npuscope_platform.h"

#define MODES (AI_RELOC_RT_LOAD_MODE_XIP | AI_RELOC_RT_LOAD_MODE_COPY | AI_RELOC_RT_LOAD_MODE_CLEAR)

static uint32_t xip_bytes(const npuscope_image *image) { return npuscope_align8(image->ram_bytes); }

static uint32_t copy_bytes(const npuscope_image *image) {
  return npuscope_align8(image->code_bytes) + xip_bytes(image);
}

/* For this firmware or another: what any reader of the file may rely on. */
static int read_image(uintptr_t file, npuscope_image *image) {
  int code = npuscope_open(file, image);
  if (!code) code = npuscope_check_layout(image);
  if (!code) code = npuscope_check_whole(image);
  return code;
}

static int read_image_for_us(uintptr_t file, npuscope_image *image) {
  int code = npuscope_open(file, image);
  if (!code) code = npuscope_check_flags(image);
  if (!code) code = npuscope_check_layout(image);
  if (!code) code = npuscope_check_versions(image);
  if (!code) code = npuscope_check_whole(image);
  return code;
}

static const char *text_of(const npuscope_image *image, uint32_t address) {
  return address ? npuscope_stored(image, address, 1) : "";
}

static ll_aton_reloc_info info_of(const npuscope_image *image) {
  const npuscope_header *header = image->header;
  const npuscope_context *context = image->context;
  return (ll_aton_reloc_info){
      .c_name = text_of(image, context->c_name),
      .variant = header->flags,
      .code_sz = npuscope_offset(header->rel_end),
      .params_off = header->params_offset,
      .params_sz = context->params_sz,
      .acts_sz = context->acts_sz,
      .ext_ram_sz = npuscope_align8(context->ext_ram_sz),
      .rt_ram_xip = xip_bytes(image),
      .rt_ram_copy = copy_bytes(image),
      .rt_version_desc = text_of(image, context->rt_version_desc),
      .rt_version = context->rt_version,
      .rt_version_extra = context->rt_version_extra,
      .npuscope_has_trailer = image->has_trailer,
  };
}

int ll_aton_reloc_get_info(uintptr_t file_ptr, ll_aton_reloc_info *info) {
  npuscope_image image;
  if (!info) return npuscope_refuse(AI_RELOC_RT_ERR_ARG, "nowhere to put the info");
  const int code = read_image(file_ptr, &image);
  if (!code) *info = info_of(&image);
  return code;
}

const ll_aton_reloc_mem_pool_desc *ll_aton_reloc_get_mem_pool_desc(uintptr_t file_ptr, int index) {
  npuscope_image image;
  if (index < 0 || npuscope_open(file_ptr, &image) || npuscope_check_layout(&image)) return NULL;
  const ll_aton_reloc_mem_pool_desc *pool = npuscope_pools(&image);
  while (index-- > 0 && pool->flags) pool++;
  return pool->flags ? pool : NULL;
}

static int check_config(const ll_aton_reloc_config *config) {
  if (!config) return npuscope_refuse(AI_RELOC_RT_ERR_ARG, "no configuration");
  if (config->mode & ~MODES || !(config->mode & ~AI_RELOC_RT_LOAD_MODE_CLEAR))
    return npuscope_refuse(AI_RELOC_RT_ERR_ARG, "the mode is XIP or COPY, CLEAR besides");
  if (config->ext_ram_addr % 8 != 0 || config->ext_param_addr % 8 != 0)
    return npuscope_refuse(AI_RELOC_RT_ERR_PARAM_ADDR, "external RAM or parameters not aligned");
  return AI_RELOC_RT_ERR_NONE;
}

/* The application's address comes first, as with the vendor's loader. */
static int place_parameters(const npuscope_image *image, const ll_aton_reloc_config *config,
                            npuscope_places *places) {
  const uint32_t bytes = image->context->params_bin_sz;
  const uint32_t offset = image->header->params_offset;
  if (config->ext_param_addr) {
    if (bytes > npuscope_params_limit(config->ext_param_addr))
      return npuscope_refuse(AI_RELOC_RT_ERR_PARAM_ADDR, "the parameter file is too short");
    places->parameters = (npuscope_span){config->ext_param_addr, bytes};
  } else if (offset) {
    places->parameters = (npuscope_span){image->file + offset, bytes};
  } else if (bytes) {
    return npuscope_refuse(AI_RELOC_RT_ERR_PARAM_ADDR, "parameters are in a file of their own");
  }
  places->param_0 = places->parameters;
  return AI_RELOC_RT_ERR_NONE;
}

static npuscope_places places_in(const npuscope_image *image, const ll_aton_reloc_config *config) {
  const bool copies = config->mode & AI_RELOC_RT_LOAD_MODE_COPY;
  const uintptr_t exec = config->exec_ram_addr;
  const uintptr_t ram = copies ? exec + npuscope_align8(image->code_bytes) : exec;
  return (npuscope_places){
      .flash = {copies ? exec : image->file, image->code_bytes},
      .ram = {ram, image->ram_bytes},
      .exec = {exec, copies ? copy_bytes(image) : xip_bytes(image)},
      .copies_code = copies,
  };
}

int npuscope_check_places(const npuscope_image *image, const ll_aton_reloc_config *config,
                          npuscope_places *places) {
  *places = places_in(image, config);
  const npuscope_span exec = places->exec;
  const npuscope_span file = {image->file, npuscope_offset(image->header->rel_end)};
  if (exec.base == 0 || exec.base % 8 != 0)
    return npuscope_refuse(AI_RELOC_RT_ERR_MEMORY, "the exec RAM is missing or not aligned");
  if (exec.bytes > config->exec_ram_size || exec.bytes > 0u - (uint32_t)exec.base)
    return npuscope_refuse(AI_RELOC_RT_ERR_MEMORY, "the exec RAM is too small");
  const int code = place_parameters(image, config, places);
  if (code) return code;
  if (npuscope_overlap(exec, file) || npuscope_overlap(exec, places->parameters))
    return npuscope_refuse(AI_RELOC_RT_ERR_MEMORY, "the exec RAM overlaps the file");
  return AI_RELOC_RT_ERR_NONE;
}

static int check_all(const npuscope_image *image, const ll_aton_reloc_config *config,
                     npuscope_places *places) {
  int code = check_config(config);
  if (!code) code = npuscope_check_places(image, config, places);
  if (!code) code = npuscope_check_params_file(image, places);
  if (!code) code = npuscope_check_pools(image, config, places);
  if (!code) code = npuscope_check_words(image, places);
  return code;
}

static void copy_segments(const npuscope_image *image, const npuscope_places *places) {
  void *ram = (void *)places->ram.base;
  if (places->copies_code)
    memcpy((void *)places->flash.base, (const void *)image->file, image->code_bytes);
  memcpy(ram, (const void *)(image->file + image->code_bytes), image->stored_bytes);
  memset((char *)ram + image->stored_bytes, 0, image->ram_bytes - image->stored_bytes);
}

static npuscope_context *context_at(const npuscope_image *image, const npuscope_places *places) {
  return (npuscope_context *)(places->ram.base + npuscope_offset(image->header->context));
}

static void fill_context(const npuscope_image *image, const npuscope_places *places,
                         NN_Instance_TypeDef *nn_instance) {
  npuscope_context *context = context_at(image, places);
  context->state = NPUSCOPE_STATE_INITIALIZED | (places->copies_code ? 0 : NPUSCOPE_STATE_XIP);
  context->file_addr = (uint32_t)image->file;
  context->ram_addr = (uint32_t)places->ram.base;
  context->rom_addr = (uint32_t)places->flash.base;
  context->callbacks = (uint32_t)(uintptr_t)npuscope_default_callbacks();
  context->ll_instance = (uint32_t)(uintptr_t)nn_instance;
}

static void fill_instance(const npuscope_image *image, const npuscope_places *places,
                          NN_Instance_TypeDef *nn_instance) {
  uint32_t interface;
  npuscope_rebase(places, image->context->interface, &interface);
  memset(nn_instance, 0, sizeof *nn_instance);
  nn_instance->network = (const NN_Interface_TypeDef *)(uintptr_t)interface;
  nn_instance->exec_state.inst_reloc = (uintptr_t)context_at(image, places);
}

int ll_aton_reloc_install(uintptr_t file_ptr, const ll_aton_reloc_config *config,
                          NN_Instance_TypeDef *nn_instance) {
  npuscope_image image;
  npuscope_places places;
  if (!nn_instance) return npuscope_refuse(AI_RELOC_RT_ERR_ARG, "no instance");
  int code = read_image_for_us(file_ptr, &image);
  if (!code) code = check_all(&image, config, &places);
  if (code) return code;
  if (!image.has_trailer) npuscope_loader_print("no trailer: the file's bytes were not checked");
  npuscope_move_pools(&image, config, &places);
  copy_segments(&image, &places);
  npuscope_relocate(&image, &places);
  fill_context(&image, &places, nn_instance);
  fill_instance(&image, &places, nn_instance);
  npuscope_clean_data_cache(places.exec.base, places.exec.bytes);
  npuscope_invalidate_code_cache();
  return AI_RELOC_RT_ERR_NONE;
}
