/* SPDX-License-Identifier: Apache-2.0
 * Activation unit: ReLU kinds, or a function in pieces from two tables. */
#include "npu.h"

#define NO_CODE 0xffffffffu
/* The tables in the unit's memory, in words. A row of the second is A, B and C of 16 bits. */
#define ROM0_WORDS 0x100u
#define ROM1 (NPU_MEMORY + ROM0_WORDS)
#define ROM1_ROW_BYTES 6u
#define ROM1_ROWS ((NPU_MEMORY_WORDS - ROM0_WORDS) / 2u)

typedef LL_Activacc_InitTypeDef activ_conf;

static const uint32_t resets[] = NPU_ACTIV_RESET;

static uint32_t code_of(LL_Activacc_Op operation)
{
  switch (operation) {
  case ACTIV_RELU: return 0;
  case ACTIV_PRELU: return 1;
  case ACTIV_TRELU: return 2;
  case ACTIV_FUNC: return 3;
  case ACTIV_LUT: break; /* where its table goes is not known */
  }
  return NO_CODE;
}

static void put_input(npu_image *image, const activ_conf *conf)
{
  npu_put(image, NPU_ACTIV_CTRL_FROUND, conf->rounding_f);
  npu_put(image, NPU_ACTIV_CTRL_FSAT, conf->saturation_f);
  npu_put(image, NPU_ACTIV_CTRL_FRNDMODE, conf->round_mode_f);
  npu_put(image, NPU_ACTIV_CTRL_FBYTES, conf->inbytes_f);
  npu_put_shift(image, NPU_ACTIV_CTRL_FSHIFT, conf->shift_f);
  npu_put(image, NPU_ACTIV_CTRL_FOBYTES, conf->outbytes_f);
  npu_put_signed(image, NPU_ACTIV_FSUB_FSUB, conf->fsub);
}

static void put_output(npu_image *image, const activ_conf *conf)
{
  npu_put(image, NPU_ACTIV_CTRL_ROUND, conf->rounding_o);
  npu_put(image, NPU_ACTIV_CTRL_SAT, conf->saturation_o);
  npu_put(image, NPU_ACTIV_CTRL_ORNDMODE, conf->round_mode_o);
  npu_put(image, NPU_ACTIV_CTRL_ORELU, conf->relu_mode_o);
  npu_put(image, NPU_ACTIV_CTRL_OBYTES, conf->outbytes_o);
  npu_put(image, NPU_ACTIV_FUNC_SIGNEDOP, conf->signedop);
  npu_put(image, NPU_ACTIV_FUNC_OUTSHIFT, conf->shift_o);
}

/* Sources write 16-bit parameters with or without a sign. */
static void put_parameter(npu_image *image, uint32_t field, uint32_t value)
{
  bool negative = value >= 0xffff8000u;

  npu_put(image, field, negative ? value & 0xffffu : value);
}

static void put_function(npu_image *image, const activ_conf *conf)
{
  npu_put(image, NPU_ACTIV_FUNC_BSHIFT, conf->shift_b);
  npu_put(image, NPU_ACTIV_FUNC_CSHIFT, conf->shift_c);
  npu_put(image, NPU_ACTIV_FUNC_BWIDTH, conf->bwidth);
  npu_put(image, NPU_ACTIV_ACTIVPARAM_FUNC, conf->shift_norm);
  if (!conf->ROM0_vector.i || !conf->ROM1_vector.i || conf->ROM0_nbytes > ROM0_WORDS ||
      conf->ROM1_nbytes / ROM1_ROW_BYTES > ROM1_ROWS)
    image->refused = true;
}

static uint32_t half_word(uintptr_t address)
{
  return npu_load(address) | (uint32_t)npu_load(address + 1u) << 8;
}

static void load_tables(uint32_t page, const activ_conf *conf)
{
  uintptr_t row = conf->ROM1_vector.i;
  uint32_t rows = conf->ROM1_nbytes / ROM1_ROW_BYTES;

  for (uint32_t i = 0; i < conf->ROM0_nbytes; i++)
    npu_write(NPU_OFFSET(page, NPU_MEMORY + i), npu_load(conf->ROM0_vector.i + i));
  for (uint32_t i = 0; i < rows; i++, row += ROM1_ROW_BYTES) {
    npu_write(NPU_OFFSET(page, ROM1 + 2u * i), half_word(row) | half_word(row + 2u) << 16);
    npu_write(NPU_OFFSET(page, ROM1 + 2u * i + 1u), half_word(row + 4u));
  }
}

int LL_Activacc_Init(int id, const LL_Activacc_InitTypeDef *conf)
{
  npu_image image;
  int code;

  if ((unsigned)id >= NPU_ACTIV_COUNT)
    return npu_fail(NPU_NO_UNIT);
  npu_image_start(&image, NPU_ACTIV_PAGE + (uint32_t)id, resets, NPU_ACTIV_REGISTERS);
  npu_put(&image, NPU_ACTIV_CTRL_TYPE, code_of(conf->operation));
  put_input(&image, conf);
  put_output(&image, conf);
  put_parameter(&image, NPU_ACTIV_ACTIVPARAM_PARAM, conf->parameter);
  put_parameter(&image, NPU_ACTIV_ACTIVPARAM2_PARAM2, conf->parameter_2);
  if (conf->operation == ACTIV_FUNC)
    put_function(&image, conf);
  code = npu_configure(&image);
  if (code == NPU_OK && conf->operation == ACTIV_FUNC)
    load_tables(image.page, conf);
  return code;
}
