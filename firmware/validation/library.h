/* SPDX-License-Identifier: Apache-2.0
 * What the firmware does for its images: cache operations, and moves of data. The moves are done
 * by the processor, at once: no epoch is inserted behind the caller's. */
#ifndef LIBRARY_H
#define LIBRARY_H

#include "ll_aton_lib.h"
#include "npuscope_loader.h"

#define LIBRARY_MOST_AXES 6u
/* Arguments that name stream engines, and for whom the library works. */
#if NPUSCOPE_DIALECT != 3
#define IGNORE_ENGINES (void)dma_in, (void)dma_out
#else
#define IGNORE_ENGINES (void)dma_in, (void)dma_out, (void)nn_instance
#endif

/* The runtime's codes. */
enum { LIBRARY_OK = 0, LIBRARY_NOT_VALID = -5 };

/* Elements of `count` along each axis, and the bytes to the next one on both sides. */
typedef struct {
  uint32_t rank, element_bytes;
  uint32_t count[LIBRARY_MOST_AXES];
  uint32_t from_step[LIBRARY_MOST_AXES], to_step[LIBRARY_MOST_AXES];
} library_copy;

void library_do(const library_copy *copy, uint8_t *to, const uint8_t *from);

/* A tensor as (N, H, W, C) with its byte steps; false when its layout is not known. */
typedef struct {
  uint32_t size[4], step[4];
  uint32_t element_bytes;
  uint8_t *data;
} library_tensor;

bool library_view(const LL_Buffer_InfoTypeDef *info, library_tensor *tensor);
uint8_t *library_data(const LL_Buffer_InfoTypeDef *info);
uint32_t library_bytes(const LL_Buffer_InfoTypeDef *info);

const struct ll_aton_reloc_callback *library_callbacks(void);

#endif
