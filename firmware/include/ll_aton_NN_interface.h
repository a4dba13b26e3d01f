/* SPDX-License-Identifier: Apache-2.0
 * The runtime interface that a network.c is written against: names and fields, our own words. */
#ifndef LL_ATON_NN_INTERFACE_H
#define LL_ATON_NN_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ll_aton_version.h"

#define LL_ATON_LIB_UNUSED(x) ((void)(x))
#define ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR(x) (x)
#define __LL_ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR(x) (x)

/* Bit fields with the driver's widths, so that the compiler finds values that do not fit. */
#define BITS(name, width) unsigned int name : width

typedef union { unsigned char *p; uintptr_t i; } npuscope_pointer;

typedef enum {
  LL_ATON_User_IO_NOERROR,
  LL_ATON_User_IO_WRONG_ALIGN,
  LL_ATON_User_IO_WRONG_SIZE,
  LL_ATON_User_IO_WRONG_INDEX
} LL_ATON_User_IO_Result_t;

typedef enum {
  EpochBlock_Flags_NONE = 0,
  EpochBlock_Flags_epoch_start = 1,
  EpochBlock_Flags_epoch_end = 2,
  EpochBlock_Flags_blob = 4,
  EpochBlock_Flags_last_eb = 8,
  EpochBlock_Flags_pure_hw = 16,
  EpochBlock_Flags_pure_sw = 32,
  EpochBlock_Flags_hybrid = 64,
  EpochBlock_Flags_internal = 128,
  EpochBlock_Flags_blob_encrypted = 256
} EpochBlock_Flags_t;

#if NPUSCOPE_DIALECT != 3
#define NPUSCOPE_ITEM EpochBlock_ItemTypeDef
typedef void (*npuscope_epoch_function)(const void *epoch_block);
#else
#define NPUSCOPE_ITEM LL_ATON_RT_EpochBlockItem_t
typedef struct npuscope_instance NN_Instance_TypeDef;
struct npuscope_item;
typedef void (*npuscope_epoch_function)(const struct npuscope_item *epoch_block,
                                    const NN_Instance_TypeDef *nn_instance);
#endif

typedef struct npuscope_item {
  npuscope_epoch_function start_epoch_block;
  npuscope_epoch_function end_epoch_block;
  uintptr_t blob_address;
  uint32_t wait_mask;
  uint16_t flags;
#ifdef LL_ATON_EB_DBG_INFO
  int16_t epoch_num;
  int16_t last_epoch_num;
  uint32_t in_streng_mask;
  uint32_t out_streng_mask;
  uint64_t estimated_npu_cycles;
  uint64_t estimated_tot_cycles;
#endif
} NPUSCOPE_ITEM;

/* The item's name in the other generation: applications use both. */
#if NPUSCOPE_DIALECT != 3
typedef NPUSCOPE_ITEM LL_ATON_RT_EpochBlockItem_t;
#else
typedef NPUSCOPE_ITEM EpochBlock_ItemTypeDef;
#endif

typedef enum {
  DataType_UNDEFINED,
  DataType_FLOAT,
  DataType_UINT8,
  DataType_INT8,
  DataType_UINT16,
  DataType_INT16,
  DataType_INT32,
  DataType_INT64,
  DataType_FLOAT16,
  DataType_UINT32,
  DataType_UINT64,
  DataType_FXP = 100
} npuscope_data_type;

typedef enum { CHPos_UNDEFINED, CHPos_First, CHPos_Last, CHPos_Mixed } npuscope_channel_position;

typedef struct {
  const char *name;
  npuscope_pointer addr_base;
  uint32_t offset_start, offset_end, offset_limit;
  uint8_t is_user_allocated, is_param;
  uint16_t epoch;
  uint32_t batch;
  const uint32_t *mem_shape;
  uint16_t mem_ndims;
  npuscope_channel_position chpos;
  npuscope_data_type type;
  int8_t Qm, Qn;
  uint8_t Qunsigned, ndims, nbits, per_channel;
  const uint32_t *shape;
  const float *scale;
  const int16_t *offset;
} LL_Buffer_InfoTypeDef;

#endif
