/* SPDX-License-Identifier: MIT */
/*
 * pattern: what the files contain, and whether they do.
 *
 * The byte at an offset is a function of the offset and of a phase: it is
 * taken from a table of random bytes whose length is no power of two, so that
 * data in the wrong place differs. A record is written straight from the
 * table: the generator costs the write loop one modulo. Every run has a phase
 * of its own, so that what an earlier one left on the device differs too.
 */
#ifndef BENCH_PATTERN_H
#define BENCH_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A prime number of blocks: an aligned offset gives aligned memory. */
#define PATTERN_PERIOD (257u * 4096u)

/** struct pattern - the table, repeated as far as the longest record needs */
struct pattern {
	uint8_t *bytes;
	size_t size;
	size_t longest;
};

/** pattern_create - @longest: bytes that one pattern_at() may be used for */
int pattern_create(struct pattern *p, size_t longest);
void pattern_destroy(struct pattern *p);

/** pattern_phase - a phase for a number; differs for 256 numbers in a row */
static inline uint64_t pattern_phase(unsigned number)
{
	return (uint64_t)(number % 257) * 96 % 257 * 4096;
}

/** pattern_at - the content at @off; @p->longest bytes may be used */
static inline const uint8_t *pattern_at(const struct pattern *p, uint64_t phase,
					uint64_t off)
{
	return p->bytes + (off + phase) % PATTERN_PERIOD;
}

/**
 * struct layout - what a whole file shall contain
 * @size: of the file, in bytes
 * @stripe: bytes; stripes take the phases in turn
 * @phases: of even and of odd stripes
 */
struct layout {
	const struct pattern *pattern;
	uint64_t size;
	uint64_t stripe;
	uint64_t phases[2];
};

/**
 * layout_verify - compare a file with its layout, read through the kernel
 *
 * What the kernel has cached of it is dropped first.
 * Return: 0; -EILSEQ if it differs, with the place in @where; another error,
 * named in @where too; -EINTR without a word when asked to stop.
 * Does not complain.
 */
int layout_verify(const struct layout *l, const char *path, char *where,
		  size_t where_size);

/**
 * layout_write - write a file with that content through the kernel
 *
 * Both stripes take the first phase. The file is synced, and the kernel's
 * cache of it dropped.
 */
int layout_write(const struct layout *l, const char *path);

#endif
