/* SPDX-License-Identifier: Apache-2.0
 * What a board may replace: caches, the log, what an image's assertion does. */
#ifndef NPUSCOPE_PLATFORM_H
#define NPUSCOPE_PLATFORM_H

#include <stdbool.h>
#include <stdint.h>

bool npuscope_fpu_enabled(void);
void npuscope_loader_print(const char *text);
void npuscope_clean_data_cache(uintptr_t address, uint32_t size);
void npuscope_invalidate_data_cache(uintptr_t address, uint32_t size);
void npuscope_clean_npu_cache(uintptr_t address, uint32_t size);
void npuscope_invalidate_npu_cache(void);
void npuscope_invalidate_code_cache(void);
void npuscope_image_asserts(const char *file, int line, const char *function,
                            const char *expression);
void npuscope_image_errs(int code, int line, const char *function);

#endif
