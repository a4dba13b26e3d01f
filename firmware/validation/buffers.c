/* SPDX-License-Identifier: Apache-2.0
 * The three tables of a network: inputs with the parameters behind them, outputs, the rest. */
#include "buffers.h"

#include "npuscope_loader.h"

#define ALIGN 32u
#define MOST_ELEMENT_BYTES 8u

typedef LL_Buffer_InfoTypeDef info_t;
typedef NN_Instance_TypeDef instance_t;

static uint32_t bytes_of(const info_t *info) { return info->offset_end - info->offset_start; }

/* It is the user's to give. */
static bool lacks_memory(const info_t *info) {
  return info->is_user_allocated || !info->addr_base.p;
}

static const info_t *input(const instance_t *nn_instance, uint32_t index) {
  const info_t *info = ll_aton_reloc_get_input_buffers_info(nn_instance, (int32_t)index);
  return info && !info->is_param ? info : NULL;
}

static const info_t *output(const instance_t *nn_instance, uint32_t index) {
  return ll_aton_reloc_get_output_buffers_info(nn_instance, (int32_t)index);
}

uint32_t buffers_inputs(const instance_t *nn_instance) {
  uint32_t count = 0;
  while (input(nn_instance, count)) count++;
  return count;
}

uint32_t buffers_outputs(const instance_t *nn_instance) {
  uint32_t count = 0;
  while (output(nn_instance, count)) count++;
  return count;
}

static uint32_t element_bits(const info_t *info) { return info->nbits ? info->nbits : 8u; }

static uint32_t format_of(const info_t *info) {
  const uint32_t bits = element_bits(info);
  switch (info->type) {
    case DataType_FLOAT:
    case DataType_FLOAT16: return validation_format(ELEMENT_FLOAT, 1, bits);
    case DataType_UINT8:
    case DataType_UINT16:
    case DataType_UINT32:
    case DataType_UINT64: return validation_format(ELEMENT_WHOLE, 0, bits);
    case DataType_FXP:
    case DataType_UNDEFINED: return validation_format(ELEMENT_WHOLE, !info->Qunsigned, bits);
    default: return validation_format(ELEMENT_WHOLE, 1, bits);
  }
}

/* As the bytes lie; a table without that has at least the shape. */
static bool take_shape(const info_t *info, validation_tensor *tensor) {
  const uint32_t *dims = info->mem_shape ? info->mem_shape : info->shape;
  const uint32_t rank = info->mem_shape ? info->mem_ndims : info->ndims;
  if (!dims || !rank || rank > VALIDATION_MOST_DIMENSIONS) return false;
  tensor->rank = rank;
  for (uint32_t i = 0; i < rank; i++) tensor->dims[i] = dims[i];
  return validation_bytes(tensor) == bytes_of(info);
}

/* What the wire cannot tell otherwise is bytes. */
static void as_bytes(const info_t *info, validation_tensor *tensor) {
  tensor->format = validation_format(ELEMENT_WHOLE, 0, 8);
  tensor->element_bytes = 1;
  tensor->rank = 1;
  tensor->dims[0] = bytes_of(info);
}

static void place(validation_tensor *tensor, void *data) {
  tensor->data = data;
  tensor->address = (uint32_t)(uintptr_t)data;
}

void buffers_describe(const info_t *info, validation_tensor *tensor) {
  *tensor = (validation_tensor){
      .name = info->name,
      .format = format_of(info),
      .element_bytes = (element_bits(info) + 7u) / 8u,
      .scale = info->scale ? info->scale[0] : 0,
      .zero_point = info->scale && info->offset ? info->offset[0] : 0,
  };
  if (tensor->element_bytes > MOST_ELEMENT_BYTES || !take_shape(info, tensor))
    as_bytes(info, tensor);
  place(tensor, info->addr_base.p + info->offset_start);
}

void buffers_describe_input(const instance_t *nn_instance, uint32_t index,
                            validation_tensor *tensor) {
  const info_t *info = input(nn_instance, index);
  buffers_describe(info, tensor);
  if (lacks_memory(info)) place(tensor, ll_aton_reloc_get_input(nn_instance, index));
}

void buffers_describe_output(const instance_t *nn_instance, uint32_t index,
                             validation_tensor *tensor) {
  const info_t *info = output(nn_instance, index);
  buffers_describe(info, tensor);
  if (lacks_memory(info)) place(tensor, ll_aton_reloc_get_output(nn_instance, index));
}

static uint32_t add_written(const info_t *info, int32_t epoch, const void **found, uint32_t count,
                            uint32_t most) {
  for (; info && info->name; info++)
    if (count < most && !info->is_param && !lacks_memory(info) && info->epoch == epoch)
      found[count++] = info;
  return count;
}

uint32_t buffers_written(const instance_t *nn_instance, const NPUSCOPE_ITEM *block,
                         const void **found, uint32_t most) {
#ifdef LL_ATON_EB_DBG_INFO
  const int32_t epoch = block->last_epoch_num;
  const uint32_t count =
      add_written(ll_aton_reloc_get_internal_buffers_info(nn_instance), epoch, found, 0, most);
  return add_written(output(nn_instance, 0), epoch, found, count, most);
#else
  (void)nn_instance, (void)block, (void)found, (void)most;
  return 0;
#endif
}

static void *taken(buffers_room *room, uint32_t bytes) {
  const uintptr_t start = room->next;
  if (!start || start > room->end || bytes > room->end - start) return NULL;
  room->next = (start + bytes + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1);
  return (void *)start;
}

static bool give_input(const instance_t *nn_instance, uint32_t index, buffers_room *room) {
  const uint32_t bytes = bytes_of(input(nn_instance, index));
  void *buffer = taken(room, bytes);
  return buffer && ll_aton_reloc_set_input(nn_instance, index, buffer, bytes) ==
                       LL_ATON_User_IO_NOERROR;
}

static bool give_output(const instance_t *nn_instance, uint32_t index, buffers_room *room) {
  const uint32_t bytes = bytes_of(output(nn_instance, index));
  void *buffer = taken(room, bytes);
  return buffer && ll_aton_reloc_set_output(nn_instance, index, buffer, bytes) ==
                       LL_ATON_User_IO_NOERROR;
}

bool buffers_give(const instance_t *nn_instance, buffers_room *room) {
  const info_t *info;
  for (uint32_t i = 0; (info = input(nn_instance, i)); i++)
    if (lacks_memory(info) && !give_input(nn_instance, i, room)) return false;
  for (uint32_t i = 0; (info = output(nn_instance, i)); i++)
    if (lacks_memory(info) && !give_output(nn_instance, i, room)) return false;
  return true;
}
