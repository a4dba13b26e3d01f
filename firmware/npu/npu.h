/* SPDX-License-Identifier: Apache-2.0
 * What the unit drivers share: register access, a unit's registers as an image, errors. */
#ifndef NPU_H
#define NPU_H

#include <stdbool.h>
#include <stdint.h>

#include "ll_aton.h"
#include "ll_aton_platform.h"
#include "npu_registers.h"

/* Reads of a bit that falls by itself before a unit counts as stuck. */
#ifndef NPU_POLL_LIMIT
#define NPU_POLL_LIMIT 1000000u
#endif

#ifdef NPU_TEST_REGISTERS
/* A test on another machine supplies registers and memory. */
void npu_test_write(uint32_t offset, uint32_t value);
uint32_t npu_test_read(uint32_t offset);
uint8_t npu_test_load(uintptr_t address);

static inline void npu_write(uint32_t offset, uint32_t value) { npu_test_write(offset, value); }
static inline uint32_t npu_read(uint32_t offset) { return npu_test_read(offset); }
static inline uint8_t npu_load(uintptr_t address) { return npu_test_load(address); }
#else
static inline void npu_write(uint32_t offset, uint32_t value)
{
  *(volatile uint32_t *)(uintptr_t)(NPU_BASE + offset) = value;
}
static inline uint32_t npu_read(uint32_t offset)
{
  return *(volatile uint32_t *)(uintptr_t)(NPU_BASE + offset);
}
/* Vectors have no alignment that holds for all of them, so they are read by bytes. */
static inline uint8_t npu_load(uintptr_t address) { return *(const uint8_t *)address; }
#endif

/* What drivers return, with the numbers that the runtime's interface has for these cases. */
enum { NPU_OK = 0, NPU_NO_UNIT = -1, NPU_REFUSED = -2, NPU_STUCK = -3 };

/* A value at its place in a register. */
#define NPU_BITS(field, value) ((uint32_t)(value) << NPU_FIELD_LSB(field))
/* Input shifters count from -16: a register value of 16 shifts by nothing. */
#define NPU_SHIFT_BIAS 16

/* The registers of one unit before they are written, starting from their reset values.
 * A value that has no room marks the image as refused, and nothing of it is written. */
typedef struct {
  const uint32_t *reset;
  uint32_t page;
  uint32_t count;
  bool refused;
  uint32_t words[NPU_MOST_REGISTERS];
} npu_image;

void npu_image_start(npu_image *image, uint32_t page, const uint32_t *reset, uint32_t count);
void npu_put(npu_image *image, uint32_t field, uint32_t value);
void npu_put_signed(npu_image *image, uint32_t field, int32_t value);
/* An input shift, with its bias. Drivers' structs hold it in a byte, with or without a sign. */
void npu_put_shift(npu_image *image, uint32_t field, uint8_t shift);
/* Opens the unit's clock gate and writes CTRL, still off, then what differs from reset. */
int npu_configure(const npu_image *image);

/* a * b, or all ones when that needs more than 32 bits. */
uint32_t npu_product(uint32_t a, uint32_t b);

/* Remembers the first error, as network.c drops what the drivers return; gives its code back. */
int npu_fail(int code);
/* The first error since the last call, NPU_OK if there was none. */
int npu_take_error(void);

/* Whole NPU: clocks, bus interfaces and interrupt controller on, every unit reset; and off. */
int npu_init(void);
void npu_deinit(void);

void npu_clock_on(uint32_t page);
void npu_clock_off(uint32_t page);
/* Empties a unit's pipeline, then gives every register its reset value. */
int npu_clear(uint32_t page, uint32_t control_reset);

/* Those stream engines of the mask that have not finished. */
uint32_t npu_running(uint32_t mask);
/* CTRL of a convolution accelerator as it was configured. */
uint32_t npu_convolution_control(uint32_t number);

/* The epoch controller: a blob's address is that of its magic word. */
int npu_blob_start(uint32_t address);
bool npu_blob_running(void);
uint32_t npu_blob_label(void);
int npu_blob_stop(void);

#endif
