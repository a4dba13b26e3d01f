/* SPDX-License-Identifier: Apache-2.0
 * For code that is compiled without any library: a network.c sees no other headers. */
#ifndef NPUSCOPE_STDBOOL_H
#define NPUSCOPE_STDBOOL_H

#define bool _Bool
#define true 1
#define false 0

#endif
