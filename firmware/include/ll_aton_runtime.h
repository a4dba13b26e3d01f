/* SPDX-License-Identifier: Apache-2.0
 * The runtime as an application sees it: a network, its state, and the loop over its epochs. */
#ifndef LL_ATON_RUNTIME_H
#define LL_ATON_RUNTIME_H

#include "ll_aton_NN_interface.h"

typedef struct npuscope_instance NN_Instance_TypeDef;

/* What one call of RunEpochBlock tells its caller. REFUSED is ours: an epoch that this firmware
 * cannot run. It stays until the network is reset, and npuscope_runtime_reason() tells why. */
typedef enum {
  LL_ATON_RT_NO_WFE = 0,
  LL_ATON_RT_WFE = 1,
  LL_ATON_RT_DONE = 2,
  NPUSCOPE_RT_REFUSED = 3
} LL_ATON_RT_RetValues_t;

typedef enum {
  LL_ATON_RT_Callbacktype_PRE_START = 0,
  LL_ATON_RT_Callbacktype_POST_START = 1,
  LL_ATON_RT_Callbacktype_PRE_END = 2,
  LL_ATON_RT_Callbacktype_POST_END = 3,
  LL_ATON_RT_Callbacktype_NN_Init = 4,
  LL_ATON_RT_Callbacktype_NN_DeInit = 5,
  LL_ATON_RT_Callbacktype_RT_Init = 6,
  LL_ATON_RT_Callbacktype_RT_Deinit = 7
} LL_ATON_RT_Callbacktype_t;

typedef void (*TraceRuntime_FuncPtr_t)(LL_ATON_RT_Callbacktype_t type);
typedef void (*TraceEpochBlock_FuncPtr_t)(LL_ATON_RT_Callbacktype_t type,
                                          const NN_Instance_TypeDef *nn_instance,
                                          const NPUSCOPE_ITEM *epoch_block);

/* The functions of a network that is linked into the firmware; of a loaded one only the name is
 * here, its functions are found through its image. */
typedef struct {
  const char *network_name;
  bool (*ec_network_init)(void);
  bool (*ec_inference_init)(void);
  LL_ATON_User_IO_Result_t (*input_setter)(uint32_t num, void *buffer, uint32_t size);
  void *(*input_getter)(uint32_t num);
  LL_ATON_User_IO_Result_t (*output_setter)(uint32_t num, void *buffer, uint32_t size);
  void *(*output_getter)(uint32_t num);
  const NPUSCOPE_ITEM *(*epoch_block_items)(void);
  const LL_Buffer_InfoTypeDef *(*output_buffers_info)(void);
  const LL_Buffer_InfoTypeDef *(*input_buffers_info)(void);
  const LL_Buffer_InfoTypeDef *(*internal_buffers_info)(void);
} NN_Interface_TypeDef;

typedef struct {
  const NPUSCOPE_ITEM *volatile current_epoch_block;
  const NPUSCOPE_ITEM *volatile first_epoch_block;
  const NPUSCOPE_ITEM *volatile next_epoch_block; /* first of a list that was inserted */
  const NPUSCOPE_ITEM *volatile saved_current_epoch_block;
  const NPUSCOPE_ITEM *volatile saved_first_epoch_block;
  bool inference_started;
  volatile uint32_t triggered_events;
  volatile bool current_epoch_block_started;
  TraceEpochBlock_FuncPtr_t epoch_callback_function;
  uintptr_t inst_reloc;    /* context of a loaded network, 0 for a linked one */
  const char *refusal;     /* ours: why the network stands still, or NULL */
} NN_Execution_State_TypeDef;

struct npuscope_instance {
  const NN_Interface_TypeDef *network;
  NN_Execution_State_TypeDef exec_state;
};

void LL_ATON_RT_RuntimeInit(void);
void LL_ATON_RT_RuntimeDeInit(void);
void LL_ATON_RT_Init_Network(NN_Instance_TypeDef *nn_instance);
void LL_ATON_RT_DeInit_Network(NN_Instance_TypeDef *nn_instance);
void LL_ATON_RT_Reset_Network(NN_Instance_TypeDef *nn_instance);
LL_ATON_RT_RetValues_t LL_ATON_RT_RunEpochBlock(NN_Instance_TypeDef *nn_instance);
LL_ATON_RT_RetValues_t LL_ATON_RT_Main(NN_Instance_TypeDef *nn_instance);

void LL_ATON_RT_SetRuntimeCallback(TraceRuntime_FuncPtr_t callback);
void LL_ATON_RT_SetNetworkCallback(NN_Instance_TypeDef *nn_instance,
                                   TraceEpochBlock_FuncPtr_t callback);
/* The older name of the same, its arguments the other way round. */
void LL_ATON_RT_SetEpochCallback(TraceEpochBlock_FuncPtr_t callback,
                                 NN_Instance_TypeDef *nn_instance);

#endif
