/* SPDX-License-Identifier: Apache-2.0
 * The runtime interface that a network.c is written against: names and fields, our own words. */
#ifndef LL_ATON_VERSION_H
#define LL_ATON_VERSION_H

/* NPUSCOPE_DIALECT: 2 for the runtime of generation 2.2, 21 for that of 2.1, 20 for that of 2.0, 30 for that of 3.0, 3 for later ones. */
#ifndef NPUSCOPE_DIALECT
#define NPUSCOPE_DIALECT 3
#endif

#define LL_ATON_VERSION_MAJOR 1
#if NPUSCOPE_DIALECT == 20
#define LL_ATON_VERSION_MINOR 0
#else
#define LL_ATON_VERSION_MINOR 1
#endif
#if NPUSCOPE_DIALECT == 20
#define LL_ATON_VERSION_MICRO 0
#define LL_ATON_VERSION_DEV 16
#elif NPUSCOPE_DIALECT == 2
#define LL_ATON_VERSION_MICRO 1
#define LL_ATON_VERSION_DEV 14
#elif NPUSCOPE_DIALECT == 21
#define LL_ATON_VERSION_MICRO 0
#define LL_ATON_VERSION_DEV 31
#elif NPUSCOPE_DIALECT == 30
#define LL_ATON_VERSION_MICRO 3
#define LL_ATON_VERSION_DEV 8
#else
#define LL_ATON_VERSION_MICRO 3
#define LL_ATON_VERSION_DEV 262
#endif

#endif
