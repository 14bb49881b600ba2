/* SPDX-License-Identifier: MIT */
/*
 * compiler: the few words that the language lacks.
 */
#ifndef DBH_BASE_COMPILER_H
#define DBH_BASE_COMPILER_H

#include <assert.h>
#include <stdint.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/** A function of the public interface; everything else is hidden. */
#define DBH_PUBLIC __attribute__((visibility("default")))

#define CACHELINE 64
#define cacheline_aligned __attribute__((aligned(CACHELINE)))

#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/** To a multiple of @a, a power of two, in the type of @x. */
#define ALIGN_DOWN(x, a) ((x) & ~((__typeof__(x))(a)-1))
#define ALIGN_UP(x, a) ALIGN_DOWN((x) + ((__typeof__(x))(a)-1), a)

#endif
