/* SPDX-License-Identifier: Apache-2.0
 * An installed image as its user sees it: valid or not, its buffers, its callbacks. */
#include "npuscope_entries.h"

#include "npuscope_loader.h"
#include "npuscope_parts.h"

typedef NN_Instance_TypeDef instance_t;

/* R9 belongs to the caller in firmware code and is the image's data base in its own: it is saved
 * around the call. Callbacks and interrupts keep it, as the procedure call standard asks. */
__attribute__((naked)) static uint32_t call_with_base(uintptr_t base, uintptr_t function,
                                                      uint32_t a, uint32_t b, uint32_t c) {
  __asm volatile(
      "push.w {r9, lr}\n"
      "mov r9, r0\n"
      "mov r12, r1\n"
      "mov r0, r2\n"
      "mov r1, r3\n"
      "ldr r2, [sp, #8]\n"
      "blx r12\n"
      "pop.w {r9, pc}\n");
}

static npuscope_context *context_of(const instance_t *nn_instance) {
  return (npuscope_context *)nn_instance->exec_state.inst_reloc;
}

static const npuscope_header *header_of(const npuscope_context *context) {
  return (const npuscope_header *)(uintptr_t)context->rom_addr;
}

uint32_t npuscope_call_image(const instance_t *nn_instance, uintptr_t function, uint32_t a,
                             uint32_t b, uint32_t c) {
  return call_with_base(context_of(nn_instance)->ram_addr, function, a, b, c);
}

uint32_t npuscope_call_entry(const instance_t *nn_instance, npuscope_entry entry, uint32_t a,
                             uint32_t b, uint32_t c) {
  const npuscope_context *context = context_of(nn_instance);
  const uint32_t offset = npuscope_offset(header_of(context)->entries[entry]);
  return call_with_base(context->ram_addr, context->rom_addr + offset, a, b, c);
}

int ll_aton_reloc_is_valid(const instance_t *nn_instance) {
  if (!nn_instance || !nn_instance->exec_state.inst_reloc)
    return npuscope_refuse(AI_RELOC_RT_ERR_INVALID_HDL, "no image is installed here");
  const npuscope_context *context = context_of(nn_instance);
  if (!(context->state & NPUSCOPE_STATE_INITIALIZED) || !context->rom_addr ||
      header_of(context)->magic != NPUSCOPE_MAGIC)
    return npuscope_refuse(AI_RELOC_RT_ERR_INVALID_BIN, "the installed image was overwritten");
  return AI_RELOC_RT_ERR_NONE;
}

int ll_aton_reloc_get_file_ptr(const instance_t *nn_instance, uintptr_t *file_ptr) {
  const int code = ll_aton_reloc_is_valid(nn_instance);
  if (!file_ptr) return npuscope_refuse(AI_RELOC_RT_ERR_ARG, "nowhere to put the address");
  *file_ptr = code ? 0 : context_of(nn_instance)->file_addr;
  return code;
}

int ll_aton_reloc_set_callbacks(const instance_t *nn_instance,
                                const struct ll_aton_reloc_callback *callbacks) {
  const int code = ll_aton_reloc_is_valid(nn_instance);
  if (code) return code;
  if (!callbacks) return npuscope_refuse(AI_RELOC_RT_ERR_ARG, "no callbacks");
  context_of(nn_instance)->callbacks = (uint32_t)(uintptr_t)callbacks;
  return AI_RELOC_RT_ERR_NONE;
}

static LL_ATON_User_IO_Result_t set(const instance_t *nn_instance, npuscope_entry entry,
                                    uint32_t num, void *buffer, uint32_t size) {
  if (ll_aton_reloc_is_valid(nn_instance)) return LL_ATON_User_IO_WRONG_INDEX;
  return (LL_ATON_User_IO_Result_t)npuscope_call_entry(nn_instance, entry, num,
                                                       (uint32_t)(uintptr_t)buffer, size);
}

static void *get(const instance_t *nn_instance, npuscope_entry entry, uint32_t num) {
  if (ll_aton_reloc_is_valid(nn_instance)) return NULL;
  return (void *)(uintptr_t)npuscope_call_entry(nn_instance, entry, num, 0, 0);
}

static const LL_Buffer_InfoTypeDef *buffer(const instance_t *nn_instance, npuscope_entry entry,
                                           int32_t num) {
  const LL_Buffer_InfoTypeDef *info = get(nn_instance, entry, 0);
  if (!info || num < 0) return NULL;
  while (num-- > 0 && info->name) info++;
  return info->name ? info : NULL;
}

LL_ATON_User_IO_Result_t ll_aton_reloc_set_input(const instance_t *nn_instance, uint32_t num,
                                                 void *buffer, uint32_t size) {
  return set(nn_instance, NPUSCOPE_INPUT_SETTER, num, buffer, size);
}

LL_ATON_User_IO_Result_t ll_aton_reloc_set_output(const instance_t *nn_instance, uint32_t num,
                                                  void *buffer, uint32_t size) {
  return set(nn_instance, NPUSCOPE_OUTPUT_SETTER, num, buffer, size);
}

void *ll_aton_reloc_get_input(const instance_t *nn_instance, uint32_t num) {
  return get(nn_instance, NPUSCOPE_INPUT_GETTER, num);
}

void *ll_aton_reloc_get_output(const instance_t *nn_instance, uint32_t num) {
  return get(nn_instance, NPUSCOPE_OUTPUT_GETTER, num);
}

const LL_Buffer_InfoTypeDef *ll_aton_reloc_get_input_buffers_info(const instance_t *nn_instance,
                                                                  int32_t num) {
  return buffer(nn_instance, NPUSCOPE_INPUT_BUFFERS, num);
}

const LL_Buffer_InfoTypeDef *ll_aton_reloc_get_output_buffers_info(const instance_t *nn_instance,
                                                                   int32_t num) {
  return buffer(nn_instance, NPUSCOPE_OUTPUT_BUFFERS, num);
}

const LL_Buffer_InfoTypeDef *ll_aton_reloc_get_internal_buffers_info(
    const instance_t *nn_instance) {
  return get(nn_instance, NPUSCOPE_INTERNAL_BUFFERS, 0);
}
