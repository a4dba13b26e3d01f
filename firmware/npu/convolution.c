/* SPDX-License-Identifier: Apache-2.0
 * Convolution accelerator. */
#include "npu.h"

#define NO_CROP 0xffffu
/* What the sampler pads by itself; more is made of zero frames. */
#define MOST_PAD 2

typedef LL_Convacc_InitTypeDef conv_conf;

static const uint32_t resets[] = NPU_CONVACC_RESET;
static uint32_t controls[NPU_CONVACC_COUNT];

uint32_t npu_convolution_control(uint32_t number) { return controls[number]; }

static void put_modes(npu_image *image, const conv_conf *conf)
{
  npu_put(image, NPU_CONVACC_CTRL_SIMD, conf->simd);
  npu_put(image, NPU_CONVACC_CTRL_NOSUM, !conf->accumulate);
  npu_put(image, NPU_CONVACC_CTRL_NO1SUM, !conf->accumulate_first);
  npu_put(image, NPU_CONVACC_CTRL_GEN1SUM, conf->accumulate_gen_first);
  npu_put(image, NPU_CONVACC_CTRL_AFILTMODE, conf->afilt_mode);
  npu_put(image, NPU_CONVACC_CTRL_KT1, conf->kt1_mode);
  npu_put(image, NPU_CONVACC_CTRL_KSETEN, conf->kseten);
  npu_put(image, NPU_CONVACC_CTRL_FUNSIGNED, conf->f_unsigned);
  npu_put(image, NPU_CONVACC_CTRL_KUNSIGNED, conf->k_unsigned);
  npu_put(image, NPU_CONVACC_CTRL_FSTAT, conf->fstat);
  npu_put(image, NPU_CONVACC_CTRL_DEEPMODE, conf->deepmode);
  npu_put(image, NPU_CONVACC_CTRL_DSS2MODE, conf->dss2mode);
  /* Accelerators of this NPU shift by the same for all kernels. */
  if (conf->vshift)
    image->refused = true;
}

static void put_numbers(npu_image *image, const conv_conf *conf)
{
  npu_put(image, NPU_CONVACC_DFORMAT_FROUND, conf->rounding_f);
  npu_put(image, NPU_CONVACC_DFORMAT_FSAT, conf->saturation_f);
  npu_put(image, NPU_CONVACC_DFORMAT_FRNDMODE, conf->round_mode_f);
  npu_put(image, NPU_CONVACC_DFORMAT_FBYTES, conf->inbytes_f);
  npu_put_shift(image, NPU_CONVACC_DFORMAT_FSHIFT, conf->shift_f);
  npu_put(image, NPU_CONVACC_DFORMAT_INSHIFT, conf->shift_a);
  npu_put(image, NPU_CONVACC_DFORMAT_OUTSHIFT, conf->shift_o);
  npu_put(image, NPU_CONVACC_DFORMAT_RAW, conf->raw_o);
  npu_put(image, NPU_CONVACC_DFORMAT_ROUND, conf->rounding_o);
  npu_put(image, NPU_CONVACC_DFORMAT_SAT, conf->saturation_o);
  npu_put(image, NPU_CONVACC_DFORMAT_ORNDMODE, conf->round_mode_o);
  npu_put(image, NPU_CONVACC_DFORMAT_ORELU, conf->relu_mode_o);
  npu_put(image, NPU_CONVACC_DFORMAT_OBYTES, conf->outbytes_o);
  npu_put_signed(image, NPU_CONVACC_FSUB_FSUB, conf->fsub);
  npu_put_signed(image, NPU_CONVACC_ZFBIAS_ZFBIAS, conf->zfbias);
}

static void put_geometry(npu_image *image, const conv_conf *conf)
{
  npu_put(image, NPU_CONVACC_FFORMAT_WIDTH, npu_product(conf->fWidth, conf->batchDepth));
  npu_put(image, NPU_CONVACC_FFORMAT_HEIGHT, conf->fHeight);
  npu_put(image, NPU_CONVACC_KFORMAT_WIDTH, conf->kernelWidth);
  npu_put(image, NPU_CONVACC_KFORMAT_HEIGHT, conf->kernelHeight);
  npu_put(image, NPU_CONVACC_KFORMAT_BTCDEPTH, conf->batchDepth);
  npu_put(image, NPU_CONVACC_KFORMAT_NR, conf->nKernels);
  npu_put(image, NPU_CONVACC_SAMPLE_HSTRD, conf->hstride);
  npu_put(image, NPU_CONVACC_SAMPLE_VSTRD, conf->vstride);
}

/* Settings that count only when their mode is on. */
static void put_optional(npu_image *image, const conv_conf *conf)
{
  if (conf->kfilt_tot > 0) {
    npu_put(image, NPU_CONVACC_KFILT_TOT, conf->kfilt_tot);
    npu_put(image, NPU_CONVACC_KFILT_FIRST, conf->kfilt_first);
    npu_put(image, NPU_CONVACC_KFILT_LAST, conf->kfilt_last);
  }
  if (conf->afilt_mode != AFILT_MODE_NONE) {
    npu_put(image, NPU_CONVACC_AFILT_TOT, conf->afilt_tot);
    npu_put(image, NPU_CONVACC_AFILT_FIRST, conf->afilt_first);
    npu_put(image, NPU_CONVACC_AFILT_LAST, conf->afilt_last);
  }
  if (conf->fstat)
    npu_put(image, NPU_CONVACC_SAMPLE_FSTATCNT, conf->fstatcnt);
}

/* Zero at the right or the bottom crops nothing and leaves the reset value. */
static void put_crop(npu_image *image, const conv_conf *conf)
{
  uint32_t depth = conf->batchDepth;

  npu_put(image, NPU_CONVACC_FHCROP_LEFT, conf->left_crop * depth);
  npu_put(image, NPU_CONVACC_FVCROP_TOP, conf->top_crop);
  if (conf->right_crop != 0 && conf->right_crop != NO_CROP)
    npu_put(image, NPU_CONVACC_FHCROP_RIGHT, (conf->right_crop + 1u) * depth - 1u);
  if (conf->bot_crop)
    npu_put(image, NPU_CONVACC_FVCROP_BOTTOM, conf->bot_crop);
}

typedef struct {
  uint32_t frame, sample;
  int padding, kernel;
  uint32_t step;
} side;

/* The sampler pads less than the kernel; the rest are zero frames. */
static void put_side(npu_image *image, const side *at, bool frames_only)
{
  int own = at->padding < MOST_PAD ? at->padding : MOST_PAD;

  if (own > at->kernel - 1)
    own = at->kernel - 1;
  if (frames_only)
    own = 0;
  npu_put(image, at->sample, (uint32_t)own);
  npu_put(image, at->frame, npu_product((uint32_t)(at->padding - own), at->step));
}

static void put_padding(npu_image *image, const conv_conf *conf)
{
  /* With deep, DSS2 or a padding value of its own all padding is zero frames. */
  bool frames_only = conf->deepmode || conf->dss2mode || conf->zfbias;
  int width = conf->kernelWidth, height = conf->kernelHeight;
  uint32_t depth = conf->batchDepth;
  const side sides[] = {
    { NPU_CONVACC_ZFRAME_LEFT, NPU_CONVACC_SAMPLE_LPAD, conf->left_padding, width, depth },
    { NPU_CONVACC_ZFRAME_RIGHT, NPU_CONVACC_SAMPLE_RPAD, conf->right_padding, width, depth },
    { NPU_CONVACC_ZFRAME_TOP, NPU_CONVACC_SAMPLE_TPAD, conf->top_padding, height, 1 },
    { NPU_CONVACC_ZFRAME_BOTTOM, NPU_CONVACC_SAMPLE_BPAD, conf->bot_padding, height, 1 },
  };

  for (uint32_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++)
    put_side(image, &sides[i], frames_only);
}

int LL_Convacc_Init(int id, const LL_Convacc_InitTypeDef *conf)
{
  npu_image image;

  if ((unsigned)id >= NPU_CONVACC_COUNT)
    return npu_fail(NPU_NO_UNIT);
  npu_image_start(&image, NPU_CONVACC_PAGE + (uint32_t)id, resets, NPU_CONVACC_REGISTERS);
  put_modes(&image, conf);
  put_numbers(&image, conf);
  put_geometry(&image, conf);
  put_optional(&image, conf);
  put_crop(&image, conf);
  put_padding(&image, conf);
  controls[id] = image.words[NPU_CTRL];
  return npu_configure(&image);
}
