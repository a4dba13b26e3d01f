/* SPDX-License-Identifier: Apache-2.0
 * For code that is compiled without any library: a network.c sees no other headers. */
#ifndef NPUSCOPE_STDDEF_H
#define NPUSCOPE_STDDEF_H

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __WCHAR_TYPE__ wchar_t;

#ifndef NULL
#define NULL ((void *)0)
#endif
#define offsetof(type, member) __builtin_offsetof(type, member)

#endif
