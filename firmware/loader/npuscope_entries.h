/* SPDX-License-Identifier: Apache-2.0
 * Calls into the code of an installed image, which finds its data through R9. */
#ifndef NPUSCOPE_ENTRIES_H
#define NPUSCOPE_ENTRIES_H

#include "ll_aton_runtime.h"
#include "npuscope_image.h"

/* Any function of the image, at its real address. */
uint32_t npuscope_call_image(const NN_Instance_TypeDef *nn_instance, uintptr_t function,
                             uint32_t a, uint32_t b, uint32_t c);
/* One of the ten functions that the header names. */
uint32_t npuscope_call_entry(const NN_Instance_TypeDef *nn_instance, npuscope_entry entry,
                             uint32_t a, uint32_t b, uint32_t c);

#endif
