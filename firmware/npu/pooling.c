/* SPDX-License-Identifier: Apache-2.0
 * Pooling unit. */
#include "npu.h"

#define NO_CODE 0xffffffffu

typedef LL_Poolacc_InitTypeDef pool_conf;

static const uint32_t resets[] = NPU_POOL_RESET;

static uint32_t code_of(LL_Poolacc_Op operation)
{
  switch (operation) {
  case POOL_MAX: return 0;
  case POOL_MIN: return 1;
  case POOL_AVG: return 2;
  case POOL_GMAX: return 8;
  case POOL_GMIN: return 9;
  case POOL_GAVG: return 10;
  }
  return NO_CODE;
}

static void put_input(npu_image *image, const pool_conf *conf)
{
  npu_put(image, NPU_POOL_CTRL_FROUND, conf->rounding_f);
  npu_put(image, NPU_POOL_CTRL_FSAT, conf->saturation_f);
  npu_put(image, NPU_POOL_RNDCTRL_FRNDMODE, conf->round_mode_f);
  npu_put(image, NPU_POOL_CTRL_FBYTES, conf->inbytes_f);
  npu_put_shift(image, NPU_POOL_CTRL_FSHIFT, conf->shift_f);
  npu_put(image, NPU_POOL_RNDCTRL_FOBYTES, conf->outbytes_f);
}

static void put_output(npu_image *image, const pool_conf *conf)
{
  npu_put(image, NPU_POOL_CTRL_ROUND, conf->rounding_o);
  npu_put(image, NPU_POOL_CTRL_SAT, conf->saturation_o);
  npu_put(image, NPU_POOL_RNDCTRL_ORNDMODE, conf->round_mode_o);
  npu_put(image, NPU_POOL_RNDCTRL_ORELU, conf->relu_mode_o);
  npu_put(image, NPU_POOL_RNDCTRL_OBYTES, conf->outbytes_o);
  npu_put(image, NPU_POOL_CTRL_OUTSHIFT, conf->shift_o);
  npu_put(image, NPU_POOL_MULVAL_MULVAL, (uint16_t)conf->mulval);
}

static void put_window(npu_image *image, const pool_conf *conf)
{
  npu_put(image, NPU_POOL_CTRL_DUALLINE, conf->dualLine);
  npu_put(image, NPU_POOL_PDIMS_WINX, conf->poolWinX);
  npu_put(image, NPU_POOL_PDIMS_WINY, conf->poolWinY);
  npu_put(image, NPU_POOL_PDIMS_STRDX, conf->strideX);
  npu_put(image, NPU_POOL_PDIMS_STRDY, conf->strideY);
  npu_put(image, NPU_POOL_PDIMS_TPAD, conf->topPad);
  npu_put(image, NPU_POOL_PDIMS_BPAD, conf->bottomPad);
  npu_put(image, NPU_POOL_PDIMS_LPAD, conf->leftPad);
  npu_put(image, NPU_POOL_PDIMS_RPAD, conf->rightPad);
  npu_put(image, NPU_POOL_PDIMS_BSIZE, conf->batchSize);
}

static void put_sizes(npu_image *image, const pool_conf *conf)
{
  uint32_t batch = conf->batchSize;
  /* The unit always crops, so zero (crop nothing) becomes the last row or column. */
  uint32_t right = conf->rightCrop ? conf->rightCrop : conf->inputX - 1u;
  uint32_t bottom = conf->bottomCrop ? conf->bottomCrop : conf->inputY - 1u;

  npu_put(image, NPU_POOL_FDIMS_FEATX, conf->inputX * batch);
  npu_put(image, NPU_POOL_FDIMS_FEATY, conf->inputY);
  npu_put(image, NPU_POOL_OUTDIMS_FEATX, conf->outputX);
  npu_put(image, NPU_POOL_OUTDIMS_FEATY, conf->outputY);
  npu_put(image, NPU_POOL_CTRL_CROPEN, 1);
  npu_put(image, NPU_POOL_XCROP_LCROP, conf->leftCrop * batch);
  npu_put(image, NPU_POOL_XCROP_RCROP, (right + 1u) * batch - 1u);
  npu_put(image, NPU_POOL_YCROP_TCROP, conf->topCrop);
  npu_put(image, NPU_POOL_YCROP_BCROP, bottom);
}

int LL_Poolacc_Init(int id, const LL_Poolacc_InitTypeDef *conf)
{
  npu_image image;

  if ((unsigned)id >= NPU_POOL_COUNT)
    return npu_fail(NPU_NO_UNIT);
  npu_image_start(&image, NPU_POOL_PAGE + (uint32_t)id, resets, NPU_POOL_REGISTERS);
  npu_put(&image, NPU_POOL_CTRL_TYPE, code_of(conf->operation));
  put_input(&image, conf);
  put_output(&image, conf);
  put_window(&image, conf);
  put_sizes(&image, conf);
  /* No register of this NPU holds a padding value or leaves padding out of an average. */
  if (conf->pad_val_en || conf->avgnopad)
    image.refused = true;
  return npu_configure(&image);
}
