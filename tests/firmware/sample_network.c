/* SPDX-License-Identifier: Apache-2.0
 * A network of two software epochs that add numbers, for tests of the loader. */
#include "ll_aton_runtime.h"
#define COUNT 8
typedef struct { const char *name; uint32_t flags, foff, dst, size; } pool_t;
typedef struct { uint32_t places[4]; void (**callbacks)(uintptr_t, uint32_t);
  const char *c_name; uint32_t acts_sz, params_sz, ext_ram_sz; const char *desc;
  uint32_t version, extra, bin_sz, bin_crc, sizes; void *instance; const void *interface;
} context_t;
extern context_t context;
/* The linker script gives their addresses: the first is in PARAM_0, the second in PARAM_1. */
extern int32_t weights_symbol[], middle_symbol[];
int32_t *weights = weights_symbol, *middle = middle_symbol, *input, *output;
int32_t bias = 1000, inferences, prepared;
static int32_t *const copied = (int32_t *)COPY_POOL, *const cleared = (int32_t *)RESET_POOL;
#ifdef GOT
__attribute__((section(".got_words"))) int32_t *got[] = {&bias, weights_symbol};
#define BIAS (*((int32_t *volatile *)got)[0])
#else
#define BIAS bias
#endif
#ifdef FLASH_WORD
int32_t *const table[] = {&bias, &inferences};
int32_t *const *volatile chosen = table;
#define EXTRA (*chosen[0] - bias)
#else
#define EXTRA 0
#endif
static int32_t twice(int32_t x) { return 2 * x; }
int32_t (*volatile through_pointer)(int32_t) = twice;

#if NPUSCOPE_DIALECT != 3
#define EPOCH(name) static void name(const void *block)
#define STARTED 1
#else
#define EPOCH(name) \
  static void name(const NPUSCOPE_ITEM *block, const NN_Instance_TypeDef *instance)
#define STARTED instance->exec_state.inference_started
#endif

EPOCH(add_weights) {
#if NPUSCOPE_DIALECT == 3
  (void)instance;
#endif
  (void)block;
  for (int i = 0; i < COUNT; i++) middle[i] = input[i] + weights[i] + EXTRA;
}

EPOCH(add_rest) {
  const int32_t past = through_pointer(inferences);
  for (int i = 0; i < COUNT; i++) output[i] = middle[i] + copied[i] + cleared[i] + BIAS + past;
  context.callbacks[2]((uintptr_t)output, 4 * COUNT); /* clean the data cache */
  output[COUNT] = ((const NPUSCOPE_ITEM *)block)->epoch_num;
  output[COUNT + 1] = STARTED;
}
NPUSCOPE_ITEM items[] = {
    {.start_epoch_block = add_weights, .flags = 0x23, .epoch_num = 1, .last_epoch_num = 1},
    {.end_epoch_block = add_rest, .flags = 0x43, .epoch_num = 2, .last_epoch_num = 2},
#ifdef NPU_EPOCH
    {.flags = 0x13, .wait_mask = 4, .epoch_num = 3, .last_epoch_num = 3},
#endif
    {.flags = 8}};
LL_Buffer_InfoTypeDef inputs[] = {{.name = "in", .offset_end = 4 * COUNT}, {.name = 0}};
LL_Buffer_InfoTypeDef outputs[] = {{.name = "out", .offset_end = 4 * COUNT + 8}, {.name = 0}};
LL_Buffer_InfoTypeDef internals[] = {{.name = "middle", .offset_end = 4 * COUNT}, {.name = 0}};

bool ec_network_init(void) { return prepared = 1; }
bool ec_inference_init(void) { inferences += prepared; return input && output; }
static LL_ATON_User_IO_Result_t set(int32_t **place, uint32_t num, void *buffer, uint32_t size,
                                    uint32_t wanted) {
  if (num) return LL_ATON_User_IO_WRONG_INDEX;
  if (size < wanted) return LL_ATON_User_IO_WRONG_SIZE;
  *place = buffer;
  return LL_ATON_User_IO_NOERROR;
}
LL_ATON_User_IO_Result_t input_setter(uint32_t num, void *buffer, uint32_t size) {
  return set(&input, num, buffer, size, 4 * COUNT);
}
LL_ATON_User_IO_Result_t output_setter(uint32_t num, void *buffer, uint32_t size) {
  return set(&output, num, buffer, size, 4 * COUNT + 8);
}
void *input_getter(uint32_t num) { return num ? 0 : input; }
void *output_getter(uint32_t num) { return num ? 0 : output; }
const NPUSCOPE_ITEM *get_epoch_items(void) { return items; }
const LL_Buffer_InfoTypeDef *get_output_buffers_info(void) { return outputs; }
const LL_Buffer_InfoTypeDef *get_input_buffers_info(void) { return inputs; }
const LL_Buffer_InfoTypeDef *get_internal_buffers_info(void) { return internals; }

NN_Interface_TypeDef interface = {.network_name = "sample"};
__attribute__((section(".pools"), used)) pool_t pools[] = {
    {"weights", 0x01010500, 0, 0, 4 * COUNT}, {"middle", 0x01020601, 0, 0, 4 * COUNT},
    {"copied", 0x02030200, 4 * COUNT, COPY_POOL, 4 * COUNT},
    {"cleared", 0x03020200, 0, RESET_POOL, 4 * COUNT}, {0}};
__attribute__((section(".context"), used)) context_t context = {
  {0}, 0, "sample", 8 * COUNT, 8 * COUNT, 4 * COUNT, "sample runtime",
  LL_ATON_VERSION_MAJOR << 24 | LL_ATON_VERSION_MINOR << 16 | LL_ATON_VERSION_MICRO << 8,
  LL_ATON_VERSION_DEV, 8 * COUNT, 0, sizeof(NPUSCOPE_ITEM) << 8 | sizeof(LL_Buffer_InfoTypeDef),
  0, &interface};
