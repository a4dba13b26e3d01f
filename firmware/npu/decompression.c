/* SPDX-License-Identifier: Apache-2.0
 * Decompression unit: kernels from code vectors. */
#include "npu.h"

static const uint32_t resets[] = NPU_DECUN_RESET;

int LL_Decun_Init(int id, const LL_Decun_InitTypeDef *conf)
{
  npu_image image;

  if ((unsigned)id >= NPU_DECUN_COUNT)
    return npu_fail(NPU_NO_UNIT);
  npu_image_start(&image, NPU_DECUN_PAGE + (uint32_t)id, resets, NPU_DECUN_REGISTERS);
  npu_put(&image, NPU_DECUN_CTRL_DUALIN, conf->noDualInput);
  npu_put(&image, NPU_DECUN_CTRL_OW, conf->noOverWrite);
  npu_put(&image, NPU_DECUN_BFORMAT_CVS, conf->nCVperCB - 1u);
  npu_put(&image, NPU_DECUN_BFORMAT_CWS, conf->nCWperCV - 1u);
  npu_put(&image, NPU_DECUN_BFORMAT_OSAM, conf->nRCWlastCV);
  npu_put(&image, NPU_DECUN_DFORMAT_CV8, conf->nFormatBytes == 1);
  npu_put(&image, NPU_DECUN_FFORMAT_BN, conf->nBatches);
  /* How code books lie in the unit's memory is not known: they have to arrive over a link. */
  if (conf->CBs_size || (conf->nFormatBytes != 1 && conf->nFormatBytes != 2))
    image.refused = true;
  return npu_configure(&image);
}
