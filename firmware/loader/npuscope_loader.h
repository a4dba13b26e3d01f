/* SPDX-License-Identifier: Apache-2.0
 * Loader of runtime-loadable images. Names, fields and codes are those that applications for the
 * vendor's loader use; functions that begin with npuscope_ are ours.
 */
#ifndef NPUSCOPE_LOADER_H
#define NPUSCOPE_LOADER_H

#include "ll_aton_runtime.h"

#define AI_RELOC_RT_LOAD_MODE_XIP 1u
#define AI_RELOC_RT_LOAD_MODE_COPY 2u
#define AI_RELOC_RT_LOAD_MODE_CLEAR 4u

#define AI_RELOC_RT_ERR_NONE 0
#define AI_RELOC_RT_ERR_INVALID_BIN (-1)
#define AI_RELOC_RT_ERR_MEMORY (-2)
#define AI_RELOC_RT_ERR_NOT_SUPPORTED (-3)
#define AI_RELOC_RT_ERR_ARG (-4)
#define AI_RELOC_RT_ERR_INVALID_HDL (-5)
#define AI_RELOC_RT_ERR_INSTALL (-6)
#define AI_RELOC_RT_ERR_PARAM_ADDR (-7)
#define AI_RELOC_RT_ERR_PARAM_DESC (-8)

typedef struct {
  uintptr_t exec_ram_addr;
  uint32_t exec_ram_size;
  uintptr_t ext_ram_addr;
  size_t ext_ram_size;
  uintptr_t ext_param_addr; /* 0: the parameters are in the image's file */
  uint32_t mode;
} ll_aton_reloc_config;

typedef struct {
  const char *c_name;
  uint32_t variant; /* the header's flags */
  uint32_t code_sz;
  uint32_t params_off, params_sz, acts_sz, ext_ram_sz;
  uint32_t rt_ram_xip, rt_ram_copy;
  const char *rt_version_desc;
  uint32_t rt_version, rt_version_extra;
  uint32_t npuscope_has_trailer; /* ours: 1 when a checksum was there, and right */
} ll_aton_reloc_info;

typedef struct {
  const char *name; /* a segment address as long as the image is not installed */
  uint32_t flags, foff, dst, size;
} ll_aton_reloc_mem_pool_desc;

/* The library calls have their arguments' types in the application that implements them. */
typedef int (*npuscope_library_call)(void);
typedef void (*npuscope_range_call)(uintptr_t address, uint32_t size);

struct ll_aton_reloc_callback {
  void (*assert_func)(const char *file, int line, const char *function, const char *expression);
  void (*ll_lib_error)(int code, int line, const char *function);
  npuscope_range_call ll_aton_cache_mcu_clean_range;
  npuscope_range_call ll_aton_cache_mcu_invalidate_range;
  npuscope_range_call ll_aton_cache_mcu_clean_invalidate_range;
  npuscope_range_call ll_aton_cache_npu_clean_range;
  npuscope_range_call ll_aton_cache_npu_clean_invalidate_range;
  npuscope_library_call ll_aton_lib_concat;
  npuscope_library_call ll_aton_lib_cast;
  npuscope_library_call ll_aton_lib_softmax;
  npuscope_library_call ll_aton_lib_dma_imagetorow;
  npuscope_library_call ll_aton_lib_dma_spacetodepth;
  npuscope_library_call ll_aton_lib_dma_rowtoimage;
  npuscope_library_call ll_aton_lib_dma_depthtospace;
  npuscope_library_call ll_aton_lib_dma_outputs_flat_copy;
  npuscope_library_call ll_aton_lib_dma_outputs_slice_splitlike;
  npuscope_library_call ll_aton_lib_dma_outputs_channel_split_aton;
  npuscope_library_call ll_aton_lib_dma_outputs_channel_split_batched;
  npuscope_library_call ll_aton_lib_dma_pad_memset;
  npuscope_library_call ll_aton_lib_dma_pad_filling;
  npuscope_library_call ll_aton_lib_dma_transpose;
};

/* Memory that images may fill or clear through pools with an absolute address. */
typedef struct {
  uintptr_t address;
  uint32_t bytes;
} npuscope_memory;

/* Without a table no pool with an absolute address is accepted. The table stays the caller's. */
void npuscope_loader_set_memories(const npuscope_memory *table, uint32_t count);
/* How many bytes may be read from the start of an image's file, and from its parameter file.
 * 0 stands for unknown: then only the image's own words bound what is read. */
void npuscope_loader_set_file_limit(uint32_t bytes);
void npuscope_loader_set_params_limit(uint32_t bytes);
/* Refuse files without our trailer (the vendor's have none). */
void npuscope_loader_require_trailer(bool required);
/* One sentence about the last refusal, "" after a success. */
const char *npuscope_loader_reason(void);

void ll_aton_reloc_log_info(uintptr_t file_ptr);
int ll_aton_reloc_get_info(uintptr_t file_ptr, ll_aton_reloc_info *info);
int ll_aton_reloc_install(uintptr_t file_ptr, const ll_aton_reloc_config *config,
                          NN_Instance_TypeDef *nn_instance);
int ll_aton_reloc_is_valid(const NN_Instance_TypeDef *nn_instance);
int ll_aton_reloc_get_file_ptr(const NN_Instance_TypeDef *nn_instance, uintptr_t *file_ptr);
const ll_aton_reloc_mem_pool_desc *ll_aton_reloc_get_mem_pool_desc(uintptr_t file_ptr, int index);
int ll_aton_reloc_set_callbacks(const NN_Instance_TypeDef *nn_instance,
                                const struct ll_aton_reloc_callback *callbacks);

LL_ATON_User_IO_Result_t ll_aton_reloc_set_input(const NN_Instance_TypeDef *nn_instance,
                                                 uint32_t num, void *buffer, uint32_t size);
LL_ATON_User_IO_Result_t ll_aton_reloc_set_output(const NN_Instance_TypeDef *nn_instance,
                                                  uint32_t num, void *buffer, uint32_t size);
void *ll_aton_reloc_get_input(const NN_Instance_TypeDef *nn_instance, uint32_t num);
void *ll_aton_reloc_get_output(const NN_Instance_TypeDef *nn_instance, uint32_t num);
const LL_Buffer_InfoTypeDef *ll_aton_reloc_get_input_buffers_info(
    const NN_Instance_TypeDef *nn_instance, int32_t num);
const LL_Buffer_InfoTypeDef *ll_aton_reloc_get_output_buffers_info(
    const NN_Instance_TypeDef *nn_instance, int32_t num);
const LL_Buffer_InfoTypeDef *ll_aton_reloc_get_internal_buffers_info(
    const NN_Instance_TypeDef *nn_instance);

#endif
