/* SPDX-License-Identifier: Apache-2.0
 * Just enough declarations of the runtime interface to compile a network.c in tests. */
#ifndef STUB_LL_ATON_VERSION_H
#define STUB_LL_ATON_VERSION_H

/* STUB_RUNTIME: 2 for the runtime of generations 2.x, 3 for later ones. */
#ifndef STUB_RUNTIME
#define STUB_RUNTIME 3
#endif

#define LL_ATON_VERSION_MAJOR 1
#define LL_ATON_VERSION_MINOR 1
#if STUB_RUNTIME == 2
#define LL_ATON_VERSION_MICRO 1
#define LL_ATON_VERSION_DEV 14
#else
#define LL_ATON_VERSION_MICRO 3
#define LL_ATON_VERSION_DEV 262
#endif

#endif
