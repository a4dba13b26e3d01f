/* SPDX-License-Identifier: Apache-2.0
 * What an image tells its loader beside the code: context and pool descriptors. */
#ifndef NPUSCOPE_IMAGE_CONTEXT_H
#define NPUSCOPE_IMAGE_CONTEXT_H

#include "callbacks.h"

/* The loader fills state to callbacks and ll_instance when it installs the image. */
typedef struct {
  volatile uint32_t state;
  uint32_t file_addr, ram_addr, rom_addr;
  const npuscope_callbacks *callbacks;
  const char *c_name;
  uint32_t acts_sz, params_sz, ext_ram_sz;
  const char *rt_version_desc;
  uint32_t rt_version, rt_version_extra;
  uint32_t params_bin_sz, params_bin_crc32;
  uint32_t struct_sizes;
  void *ll_instance;
  const void *interface;
} npuscope_image_context;

typedef struct {
  const char *name;
  uint32_t flags, foff, dst, size;
} npuscope_image_pool;

/* A firmware's runtime reads the name; the functions it finds through the header. As many words
 * as the interface has in the runtime with the most. */
typedef struct {
  const char *network_name;
  uint32_t functions[12];
} npuscope_image_interface;

/* A loader compares them with its own: enums and padding differ between compilers. */
#define NPUSCOPE_STRUCT_SIZES \
  (sizeof(LL_Buffer_InfoTypeDef) | (uint32_t)sizeof(NPUSCOPE_ITEM) << 8)

/* Both are written for each network by the packager, and both lie in RAM: a pointer in flash
 * could not be rebased when the image runs where it lies. */
extern npuscope_image_context npuscope_rt_context;
extern npuscope_image_pool npuscope_rt_pools[];

_Static_assert(sizeof(npuscope_image_context) == 68, "17 words");
_Static_assert(sizeof(npuscope_image_pool) == 20, "5 words");

#endif
