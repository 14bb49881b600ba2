/* SPDX-License-Identifier: MIT */
/*
 * residency: how much of a file is in the kernel's page cache.
 */
#ifndef BENCH_RESIDENCY_H
#define BENCH_RESIDENCY_H

#include <stdint.h>
#include <sys/types.h>

/**
 * residency_range - pages of a range in the kernel's cache
 * @len: 0: to the end of the file
 *
 * By cachestat(2), or mincore(2) where that is missing.
 * Return: pages of the system's size, or a negative errno. Does not complain.
 */
int64_t residency_range(int fd, uint64_t off, uint64_t len);

/** residency_fill - read a whole file. Does not complain. */
int residency_fill(const char *path);

/** residency_path - the same of a whole file, which is opened for it */
int64_t residency_path(const char *path);

#endif
