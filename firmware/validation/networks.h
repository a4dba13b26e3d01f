/* SPDX-License-Identifier: Apache-2.0
 * Networks that were loaded, as the server knows them. */
#ifndef NETWORKS_H
#define NETWORKS_H

#include "npuscope_loader.h"
#include "validation.h"

#define NETWORKS_MOST 4u

/* An image and where it may go. */
typedef struct {
  uintptr_t file;
  uint32_t file_bytes;   /* that may be read; 0 for unknown */
  uint32_t params_bytes; /* the same of its parameter file */
  ll_aton_reloc_config places;
} networks_source;

/* Installs an image and adds it to the table; the loader's code. `remark` goes behind the version
 * of the runtime in what the host is told. */
int networks_add(const networks_source *source, const char *remark);
/* Why the last one was not added; "" when it was. */
const char *networks_reason(void);

const validation_network *networks_table(void);
uint32_t networks_count(void);

#endif
