/* SPDX-License-Identifier: Apache-2.0
 * The runtime interface that a network.c is written against: names and fields, our own words. */
#ifndef LL_ATON_CIPHER_H
#define LL_ATON_CIPHER_H

typedef struct { int enable; } LL_Streng_EncryptionTypedef;

#endif
