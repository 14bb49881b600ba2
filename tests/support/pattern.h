/* SPDX-License-Identifier: MIT */
/*
 * pattern: content that tells where it belongs: bytes by their position and a
 * generation.
 */
#ifndef DBH_TESTS_PATTERN_H
#define DBH_TESTS_PATTERN_H

#include "support/check.h"
#include "support/rng.h"

/** Bytes [8 * @word, 8 * @word + 8), the first one lowest. */
static inline uint64_t pattern_word(uint64_t word, unsigned gen)
{
	return rng_mix(word + gen * 1000003ull);
}

static inline char pattern_byte(uint64_t pos, unsigned gen)
{
	return (char)(pattern_word(pos / 8, gen) >> (pos % 8 * 8));
}

static inline void pattern_fill(void *buf, size_t len, uint64_t pos,
				unsigned gen)
{
	char *at = buf, *end = at + len;

	for (; at < end && pos % 8; pos++)
		*at++ = pattern_byte(pos, gen);
	for (; end - at >= 8; at += 8, pos += 8)
		memcpy(at, &(uint64_t){ pattern_word(pos / 8, gen) }, 8);
	for (; at < end; pos++)
		*at++ = pattern_byte(pos, gen);
}

static inline void pattern_check(const void *buf, size_t len, uint64_t pos,
				 unsigned gen)
{
	for (size_t i = 0; i < len; i++)
		CHECK(((const char *)buf)[i] == pattern_byte(pos + i, gen),
		      "byte %llu", (unsigned long long)(pos + i));
}

#endif
