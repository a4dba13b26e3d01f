/* SPDX-License-Identifier: Apache-2.0
 * What the application leaves behind for whoever looks at the board's memory. */
#ifndef APPLICATION_H
#define APPLICATION_H

#include <stdint.h>

/* Where the image lies in flash, and the values of its inputs, one behind the other. */
#define APPLICATION_IMAGE_ADDRESS 0x71000000u
#define APPLICATION_INPUTS_ADDRESS 0x72000000u
#define APPLICATION_BUSY 1

/* 0 when all went well, else a code of the loader or of the drivers, and why. */
extern volatile int32_t application_code;
extern const char *volatile application_reason;

#endif
