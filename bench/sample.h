/* SPDX-License-Identifier: MIT */
/*
 * sample: verifies by samples a file that was written in laps.
 */
#ifndef BENCH_SAMPLE_H
#define BENCH_SAMPLE_H

#include <stddef.h>

struct work;
struct writers;

/**
 * sample_verify - compare records of the file with what they should be
 * @w: the writers of @work, which are done
 *
 * Which lap a record must be from follows from how many writes its thread
 * made. The size is compared as well. What the kernel has cached of the file
 * is dropped first.
 * Return: 0; -EILSEQ if it differs, with the place in @where; another error,
 * named in @where too. Does not complain.
 */
int sample_verify(const struct work *work, const struct writers *w,
		  const char *path, char *where, size_t where_size);

#endif
