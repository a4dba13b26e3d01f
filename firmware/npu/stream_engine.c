/* SPDX-License-Identifier: Apache-2.0
 * Stream engine: memory to link or link to memory. */
#include "npu.h"

#define LANE_BITS 8u
#define LANES 3u

typedef LL_Streng_TensorInitTypeDef engine_conf;

static const uint32_t resets[] = NPU_STRENG_RESET;

static void put_flags(npu_image *image, const engine_conf *conf)
{
  npu_put(image, NPU_STRENG_CTRL_DIR, conf->dir);
  npu_put(image, NPU_STRENG_CTRL_RAW, conf->raw);
  npu_put(image, NPU_STRENG_CTRL_RAW_OUT, conf->raw_out);
  npu_put(image, NPU_STRENG_CTRL_CONT, conf->continuous);
  npu_put(image, NPU_STRENG_CTRL_NOBLK, conf->noblk);
  npu_put(image, NPU_STRENG_CTRL_NOINC, conf->noinc);
  npu_put(image, NPU_STRENG_CTRL_LSBMODE, conf->align_right);
  npu_put(image, NPU_STRENG_CTRL_SIGNEXT, conf->align_right && !conf->nbits_unsigned);
  npu_put(image, NPU_STRENG_CTRL_SINGLE, conf->frame_tot_cnt == 1);
}

static void put_bus(npu_image *image, const engine_conf *conf)
{
  npu_put(image, NPU_STRENG_CID_CACHE_CID, conf->bus_cid);
  npu_put(image, NPU_STRENG_CID_CACHE_CACHEABLE, conf->cacheable);
  npu_put(image, NPU_STRENG_CID_CACHE_ALLOC, conf->cache_allocate);
  npu_put(image, NPU_STRENG_CID_CACHE_PFETCH, conf->bus_pfetch);
  npu_put(image, NPU_STRENG_CID_CACHE_LINESIZE, conf->cache_linesize);
  npu_put(image, NPU_STRENG_ENCR_MSB_EN, conf->cipher_en);
  npu_put(image, NPU_STRENG_ENCR_MSB_KEY_SEL, conf->key_sel);
}

static void put_places(npu_image *image, const engine_conf *conf)
{
  uint32_t base = (uint32_t)conf->addr_base.i;

  npu_put(image, NPU_STRENG_ADDR_REG, base + conf->offset_start);
  if (conf->offset_limit) {
    npu_put(image, NPU_STRENG_LIMITEN_ADDRLIMIT, 1);
    npu_put(image, NPU_STRENG_LIMITADDR_REG, base + conf->offset_limit - 1u);
  }
}

static void put_loops(npu_image *image, const engine_conf *conf)
{
  npu_put(image, NPU_STRENG_FOFFSET_REG, conf->frame_offset);
  npu_put(image, NPU_STRENG_FRPTOFF_REG, conf->loop_offset);
  npu_put(image, NPU_STRENG_FRAME_RPT_REG, conf->frame_loop_cnt);
  npu_put(image, NPU_STRENG_LIMIT_CNT, conf->frame_tot_cnt);
  npu_put(image, NPU_STRENG_LIMITEN_FRAMELIMIT, 1);
  npu_put(image, NPU_STRENG_POS_GAPCYCLES, 0);
  /* Engines of this NPU have one loop only. */
  if (conf->loop_offset2 || conf->frame_loop_cnt2)
    image->refused = true;
}

static void put_events(npu_image *image, const engine_conf *conf)
{
  npu_put(image, NPU_STRENG_EVENT_EN_ILLCFG, 1);
  if (conf->sync_with_other && !conf->dir) {
    npu_put(image, NPU_STRENG_EVENT_FRMTRG_EN, 1);
    npu_put(image, NPU_STRENG_EVENT_FRMTRG_SRC, conf->sync_dma);
  }
}

static uint32_t lane_field(uint32_t lane)
{
  return NPU_STRENG_CTRL_SIZE0 + lane * (NPU_STRENG_CTRL_SIZE1 - NPU_STRENG_CTRL_SIZE0);
}
_Static_assert(NPU_STRENG_CTRL_SIZE2 - NPU_STRENG_CTRL_SIZE1 ==
                 NPU_STRENG_CTRL_SIZE1 - NPU_STRENG_CTRL_SIZE0,
               "lanes are evenly spaced");

/* Lanes carry what memory and link have in common. Aligned to the right they fill from the
 * lowest lane up, else from the link's uppermost lane down. */
static void put_lanes(npu_image *image, uint32_t bits, uint32_t link, bool right)
{
  uint32_t highest = (link + LANE_BITS - 1u) / LANE_BITS - 1u;

  for (uint32_t i = 0; bits && i <= highest; i++) {
    uint32_t piece = bits < LANE_BITS ? bits : LANE_BITS;

    npu_put(image, lane_field(right ? i : highest - i), piece);
    bits -= piece;
  }
}

static void put_widths(npu_image *image, const engine_conf *conf)
{
  uint32_t link = conf->dir ? conf->nbits_in : conf->nbits_out;
  uint32_t stored = conf->dir ? conf->nbits_out : conf->nbits_in;

  if (link > LANES * LANE_BITS || stored > LANES * LANE_BITS || (!link && !stored)) {
    image->refused = true;
    return;
  }
  if (stored > link) {
    uint32_t gap = conf->mem_lsb ? NPU_STRENG_STRD_FGAP : NPU_STRENG_STRD_BGAP;

    npu_put(image, gap, stored - link);
    stored = link;
  }
  put_lanes(image, stored, link, conf->align_right);
}

/* Elements of a raw frame: floor(bytes * 8 / bits), made so that nothing overflows. */
static uint32_t raw_elements(const engine_conf *conf)
{
  uint32_t bits = conf->dir ? conf->nbits_out : conf->nbits_in;
  uint32_t bytes = conf->offset_end - conf->offset_start;

  if (conf->frame_count || !bits)
    return conf->frame_count;
  return bytes / bits * 8u + bytes % bits * 8u / bits;
}

static void put_raster(npu_image *image, const engine_conf *conf)
{
  uint32_t line = conf->line_offset ? conf->line_offset : conf->fwidth * conf->batch_offset;

  npu_put(image, NPU_STRENG_FSIZE_WIDTH, conf->fwidth);
  npu_put(image, NPU_STRENG_FSIZE_HEIGHT, conf->fheight);
  npu_put(image, NPU_STRENG_DEPTH_SIZE, conf->batch_depth);
  npu_put(image, NPU_STRENG_DEPTH_OFFSET, conf->batch_offset & 0xffffu);
  npu_put(image, NPU_STRENG_LIMITEN_DOFF_MSB, conf->batch_offset >> 16);
  npu_put(image, NPU_STRENG_STRD_LOFF, line & 0xffffu);
  npu_put(image, NPU_STRENG_CID_CACHE_LOFF_MSB, line >> 16);
}

int LL_Streng_TensorInit(int id, const LL_Streng_TensorInitTypeDef *conf, int n)
{
  npu_image image;

  if ((unsigned)id >= NPU_STRENG_COUNT)
    return npu_fail(NPU_NO_UNIT);
  if (n != 1)
    return npu_fail(NPU_REFUSED);
  npu_image_start(&image, NPU_STRENG_PAGE + (uint32_t)id, resets, NPU_STRENG_REGISTERS);
  put_flags(&image, conf);
  put_bus(&image, conf);
  put_places(&image, conf);
  put_loops(&image, conf);
  put_events(&image, conf);
  put_widths(&image, conf);
  if (conf->raw)
    /* A raw engine has one count of 32 bits where a raster has width and height. */
    image.words[NPU_STRENG_FSIZE] = raw_elements(conf);
  else
    put_raster(&image, conf);
  return npu_configure(&image);
}

uint32_t npu_running(uint32_t mask)
{
  uint32_t found = 0;

  for (uint32_t i = 0; i < NPU_STRENG_COUNT; i++)
    if (mask >> i & 1u && npu_read(NPU_OFFSET(NPU_STRENG_PAGE + i, NPU_CTRL)) & NPU_CTRL_RUNNING)
      found |= 1u << i;
  return found;
}
