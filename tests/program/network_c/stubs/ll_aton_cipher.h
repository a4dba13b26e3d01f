/* SPDX-License-Identifier: Apache-2.0
 * Just enough declarations of the runtime interface to compile a network.c in tests. */
#ifndef STUB_LL_ATON_CIPHER_H
#define STUB_LL_ATON_CIPHER_H

typedef struct { int enable; } LL_Streng_EncryptionTypedef;

#endif
