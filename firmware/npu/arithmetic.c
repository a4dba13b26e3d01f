/* SPDX-License-Identifier: Apache-2.0
 * Arithmetic unit: registers, and how a broadcast walks through the coefficients. */
#include "arithmetic.h"

#define NO_CODE 0xffffffffu
#define STEP_MASK 0x1ffu /* steps of the entry number wrap around */

typedef LL_Arithacc_InitTypeDef arith_conf;

static const uint32_t resets[] = NPU_ARITH_RESET;

static uint32_t code_of(LL_Arithacc_Op operation)
{
  switch (operation) {
  case ARITH_AFFINE: return 0x00;
  case ARITH_MIN: return 0x01;
  case ARITH_MAX: return 0x02;
  case ARITH_MUL: return 0x07;
  case ARITH_X_AND_Y: return 0x0b;
  case ARITH_X_OR_Y: return 0x0f;
  case ARITH_NOT_X: return 0x13;
  case ARITH_X_XOR_Y: return 0x17;
  case ARITH_X_EQ_Y: return 0x1b;
  case ARITH_X_LT_Y: return 0x1f;
  case ARITH_X_LE_Y: return 0x23;
  case ARITH_X_GT_Y: return 0x27;
  case ARITH_X_GE_Y: return 0x2b;
  case ARITH_ABS_X: return 0x2f;
  case ARITH_SIGN_X: return 0x33;
  case ARITH_CLIP: return 0x37;
  }
  return NO_CODE;
}

static void put_operation(npu_image *image, const arith_conf *conf)
{
  npu_put(image, NPU_ARITH_CTRL_OP, code_of(conf->operation));
  npu_put(image, NPU_ARITH_CTRL_LOGICALOP, conf->operation == ARITH_NOT_X);
  npu_put(image, NPU_ARITH_CTRL_DUALIN, conf->dualinput);
  npu_put(image, NPU_ARITH_CTRL_COMBINEBC, conf->combinebc);
  npu_put(image, NPU_ARITH_CTRL_CLIPOUT, conf->clipout);
  npu_put(image, NPU_ARITH_SHIFT_AX, conf->Ax_shift);
  npu_put(image, NPU_ARITH_SHIFT_BY, conf->By_shift);
  npu_put(image, NPU_ARITH_SHIFT_C, conf->C_shift);
  npu_put(image, NPU_ARITH_SHIFT_RES, conf->shift_o);
  if (conf->clipout) {
    npu_put_signed(image, NPU_ARITH_CLIPRANGE_CLIPMAX, conf->clipmax);
    npu_put_signed(image, NPU_ARITH_CLIPRANGE_CLIPMIN, conf->clipmin);
  }
}

static void put_x(npu_image *image, const arith_conf *conf)
{
  npu_put(image, NPU_ARITH_INSHIFTER_FROUNDX, conf->rounding_x);
  npu_put(image, NPU_ARITH_INSHIFTER_FSATX, conf->saturation_x);
  npu_put(image, NPU_ARITH_INSHIFTER_FRNDMODEX, conf->round_mode_x);
  npu_put(image, NPU_ARITH_INSHIFTER_FBYTESX, conf->inbytes_x);
  npu_put(image, NPU_ARITH_INSHIFTER_FOBYTESX, conf->outbytes_x);
  npu_put_shift(image, NPU_ARITH_INSHIFTER_FSHIFTX, (uint8_t)conf->shift_x);
}

static void put_y(npu_image *image, const arith_conf *conf)
{
  npu_put(image, NPU_ARITH_INSHIFTER_FROUNDY, conf->rounding_y);
  npu_put(image, NPU_ARITH_INSHIFTER_FSATY, conf->saturation_y);
  npu_put(image, NPU_ARITH_INSHIFTER_FRNDMODEY, conf->round_mode_y);
  npu_put_shift(image, NPU_ARITH_INSHIFTER_FSHIFTY, (uint8_t)conf->shift_y);
  /* Without a second operand its widths are 0; the unit keeps its reset values. */
  if (conf->inbytes_y)
    npu_put(image, NPU_ARITH_INSHIFTER_FBYTESY, conf->inbytes_y);
  if (conf->outbytes_y)
    npu_put(image, NPU_ARITH_INSHIFTER_FOBYTESY, conf->outbytes_y);
}

static void put_output(npu_image *image, const arith_conf *conf)
{
  npu_put(image, NPU_ARITH_CTRL_ROUND, conf->rounding_o);
  npu_put(image, NPU_ARITH_CTRL_SAT, conf->saturation_o);
  npu_put(image, NPU_ARITH_CTRL_ORNDMODE, conf->round_mode_o);
  npu_put(image, NPU_ARITH_CTRL_ORELU, conf->relu_mode_o);
  npu_put(image, NPU_ARITH_CTRL_OBYTES, conf->outbytes_o);
}

static void put_scalars(npu_image *image, const arith_conf *conf)
{
  npu_put_signed(image, NPU_ARITH_COEFFAC_A, conf->A_scalar);
  npu_put_signed(image, NPU_ARITH_COEFFAC_C, conf->C_scalar);
  npu_put_signed(image, NPU_ARITH_COEFFB_B, conf->B_scalar);
}

/* A counter ends a run of elements; the entry number then moves by the step. */
static void put_counter(npu_image *image, uint32_t reset, uint32_t offset, uint32_t elements,
                        uint32_t step)
{
  npu_put(image, reset, elements - 1u);
  npu_put(image, offset, step & STEP_MASK);
}

static void put_increment(npu_image *image, uint32_t every)
{
  npu_put(image, NPU_ARITH_INCCNT_INCVAL, every - 1u);
  npu_put(image, NPU_ARITH_INCOFFSET_VAL, 1);
}

/* One entry a channel: counters for batch, frame and all frames. Gives the entries. */
static uint32_t put_channels(npu_image *image, const arith_conf *conf)
{
  uint32_t batch = conf->batchDepth, channels = conf->fChannels;
  uint32_t pixels = npu_product(conf->fWidth, conf->fHeight);

  npu_put(image, NPU_ARITH_CTRL_CNT2, 1);
  npu_put(image, NPU_ARITH_CTRL_CNT3, 1);
  put_increment(image, 1);
  put_counter(image, NPU_ARITH_RSTCNT1_RSTCNT, NPU_ARITH_ADDROFFSET_OFFSET1, batch, 1u - batch);
  put_counter(image, NPU_ARITH_RSTCNT2_RSTCNT, NPU_ARITH_ADDROFFSET_OFFSET2,
              npu_product(pixels, batch), 1);
  put_counter(image, NPU_ARITH_RSTCNT3_RSTCNT, NPU_ARITH_ADDROFFSET_OFFSET3,
              npu_product(pixels, channels), 1u - channels);
  return channels;
}

/* The next entry after every so many elements, round and round. */
static uint32_t put_steps(npu_image *image, uint32_t entries, uint32_t every)
{
  put_increment(image, every);
  put_counter(image, NPU_ARITH_RSTCNT1_RSTCNT, NPU_ARITH_ADDROFFSET_OFFSET1,
              npu_product(entries, every), 1u - entries);
  put_counter(image, NPU_ARITH_RSTCNT2_RSTCNT, NPU_ARITH_ADDROFFSET_OFFSET2, 1, 0);
  put_counter(image, NPU_ARITH_RSTCNT3_RSTCNT, NPU_ARITH_ADDROFFSET_OFFSET3, 1, 0);
  return entries;
}

static uint32_t put_broadcast(npu_image *image, const arith_conf *conf)
{
  uint32_t width = conf->fWidth, height = conf->fHeight, batch = conf->batchDepth;

  switch (conf->bcast) {
  case ARITH_BCAST_CHAN: return put_channels(image, conf);
  case ARITH_BCAST_HEIGHT: return put_steps(image, height, npu_product(width, batch));
  case ARITH_BCAST_WIDTH: return put_steps(image, width, batch);
  case ARITH_BCAST_HEIGHT_WIDTH: return put_steps(image, npu_product(height, width), batch);
  case ARITH_BCAST_SCALAR: return 1;
  case ARITH_BCAST_NONE: break;
  }
  return 0;
}

/* Gives the number of entries that are to be loaded. */
static uint32_t put_vectors(npu_image *image, const arith_conf *conf)
{
  uint32_t entries = put_broadcast(image, conf);

  npu_put(image, NPU_ARITH_CTRL_CNT1, 1);
  npu_put(image, NPU_ARITH_CTRL_COEFFA, 1);
  npu_put(image, NPU_ARITH_CTRL_COEFFB, 1);
  npu_put(image, NPU_ARITH_CTRL_COEFFC, 1);
  if (!entries || entries > NPU_ARITH_ENTRIES || !npu_arithmetic_widths(conf))
    image->refused = true;
  return entries;
}

int LL_Arithacc_Init(int id, const LL_Arithacc_InitTypeDef *conf)
{
  npu_image image;
  uint32_t entries = 0;
  int code;

  if ((unsigned)id >= NPU_ARITH_COUNT)
    return npu_fail(NPU_NO_UNIT);
  npu_image_start(&image, NPU_ARITH_PAGE + (uint32_t)id, resets, NPU_ARITH_REGISTERS);
  put_operation(&image, conf);
  put_x(&image, conf);
  put_y(&image, conf);
  put_output(&image, conf);
  put_scalars(&image, conf);
  if (!conf->scalar)
    entries = put_vectors(&image, conf);
  else if (conf->dualinput && conf->bcast == ARITH_BCAST_CHAN)
    /* Which registers keep a vector that arrives at port 1 is not known. */
    image.refused = true;
  code = npu_configure(&image);
  if (code == NPU_OK && entries)
    npu_arithmetic_load(image.page, conf, entries);
  return code;
}
