/* SPDX-License-Identifier: Apache-2.0
 * A unit's registers as an image: fields are packed and checked first, then written. */
#include "npu.h"

static int first_error;

int npu_fail(int code)
{
  if (first_error == NPU_OK)
    first_error = code;
  return code;
}

int npu_take_error(void)
{
  int code = first_error;
  first_error = NPU_OK;
  return code;
}

void npu_image_start(npu_image *image, uint32_t page, const uint32_t *reset, uint32_t count)
{
  image->reset = reset;
  image->page = page;
  image->count = count;
  image->refused = false;
  for (uint32_t i = 0; i < count; i++)
    image->words[i] = reset[i];
}

static uint32_t mask_of(uint32_t field) { return 0xffffffffu >> (32u - NPU_FIELD_WIDTH(field)); }

static void put_masked(npu_image *image, uint32_t field, uint32_t value)
{
  uint32_t *word = &image->words[NPU_FIELD_INDEX(field)];
  uint32_t mask = mask_of(field);

  *word = (*word & ~(mask << NPU_FIELD_LSB(field))) | (value & mask) << NPU_FIELD_LSB(field);
}

void npu_put(npu_image *image, uint32_t field, uint32_t value)
{
  if (value > mask_of(field))
    image->refused = true;
  put_masked(image, field, value);
}

void npu_put_signed(npu_image *image, uint32_t field, int32_t value)
{
  int32_t highest = (int32_t)(mask_of(field) >> 1);

  if (value > highest || value < -highest - 1)
    image->refused = true;
  put_masked(image, field, (uint32_t)value);
}

void npu_put_shift(npu_image *image, uint32_t field, uint8_t shift)
{
  int32_t biased = (int8_t)shift + NPU_SHIFT_BIAS;

  npu_put(image, field, (uint32_t)biased);
}

int npu_configure(const npu_image *image)
{
  if (image->refused)
    return npu_fail(NPU_REFUSED);
  npu_clock_on(image->page);
  npu_write(NPU_OFFSET(image->page, NPU_CTRL), image->words[NPU_CTRL]);
  for (uint32_t i = NPU_CTRL + 1; i < image->count; i++)
    if (image->words[i] != image->reset[i])
      npu_write(NPU_OFFSET(image->page, i), image->words[i]);
  return NPU_OK;
}

uint32_t npu_product(uint32_t a, uint32_t b)
{
  uint64_t wide = (uint64_t)a * b;

  return wide > 0xffffffffu ? 0xffffffffu : (uint32_t)wide;
}
