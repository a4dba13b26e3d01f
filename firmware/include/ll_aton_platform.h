/* SPDX-License-Identifier: Apache-2.0
 * Where the NPU is, and how many units it has. */
#ifndef LL_ATON_PLATFORM_H
#define LL_ATON_PLATFORM_H

/* The secure alias of the STM32N6's NPU. */
#ifndef NPU_BASE
#define NPU_BASE 0x580E0000u
#endif

/* Plain numbers: applications compare them with an int. */
#define ATON_STRENG_NUM 10
#define ATON_CONVACC_NUM 4
#define ATON_DECUN_NUM 2
#define ATON_ACTIV_NUM 2
#define ATON_ARITH_NUM 4
#define ATON_POOL_NUM 2
#define ATON_DEBUG_TRACE_NUM 1

#endif
