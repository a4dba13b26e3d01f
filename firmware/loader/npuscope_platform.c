/* SPDX-License-Identifier: Apache-2.0
 * A board without caches and without a console; weak, so that a richer board replaces it. */
#include "npuscope_platform.h"

#include "npuscope_parts.h"

#define WEAK __attribute__((weak))

/* Coprocessor access control register: full access to the floating-point unit is 0xF << 20. */
#define CPACR (*(volatile const uint32_t *)0xE000ED88u)

WEAK bool npuscope_fpu_enabled(void) { return (CPACR >> 20 & 0xFu) == 0xFu; }

WEAK void npuscope_loader_print(const char *text) { (void)text; }

static void finish_writes(void) { __asm volatile("dsb sy" ::: "memory"); }

WEAK void npuscope_clean_data_cache(uintptr_t address, uint32_t size) {
  (void)address, (void)size;
  finish_writes();
}

WEAK void npuscope_invalidate_data_cache(uintptr_t address, uint32_t size) {
  (void)address, (void)size;
  finish_writes();
}

WEAK void npuscope_clean_npu_cache(uintptr_t address, uint32_t size) {
  (void)address, (void)size;
  finish_writes();
}

WEAK void npuscope_invalidate_npu_cache(void) { finish_writes(); }

WEAK void npuscope_invalidate_code_cache(void) {
  finish_writes();
  __asm volatile("isb sy" ::: "memory");
}

/* Going on after a failed assertion would hide it: stop where a debugger sees it. */
WEAK void npuscope_image_asserts(const char *file, int line, const char *function,
                                 const char *expression) {
  (void)file, (void)line, (void)function;
  npuscope_loader_print("assertion in the network failed:");
  npuscope_loader_print(expression);
  __builtin_trap();
}

WEAK void npuscope_image_errs(int code, int line, const char *function) {
  npuscope_image_asserts("", line, function, code ? "library error" : "library");
}

static void clean_and_invalidate(uintptr_t address, uint32_t size) {
  npuscope_clean_data_cache(address, size);
  npuscope_invalidate_data_cache(address, size);
}

static int no_library(void) {
  npuscope_loader_print("the network calls a library function that this firmware does not have");
  return -1;
}

const struct ll_aton_reloc_callback *npuscope_default_callbacks(void) {
  static const struct ll_aton_reloc_callback defaults = {
      npuscope_image_asserts,
      npuscope_image_errs,
      npuscope_clean_data_cache,
      npuscope_invalidate_data_cache,
      clean_and_invalidate,
      npuscope_clean_npu_cache,
      npuscope_clean_npu_cache,
      no_library, no_library, no_library, no_library, no_library, no_library, no_library,
      no_library, no_library, no_library, no_library, no_library, no_library, no_library,
  };
  return &defaults;
}
