/* SPDX-License-Identifier: MIT */
/*
 * fragment: files that lie on the device in small pieces.
 */
#ifndef BENCH_FRAGMENT_H
#define BENCH_FRAGMENT_H

#include <stdint.h>

struct layout;
struct place;

/**
 * fragment_write - write the place's file so that its extents are short
 *
 * Pieces of eight blocks are written in turn to it and to the place's filler,
 * which stays. The content is the layout's first phase, nothing is cached.
 */
int fragment_write(const struct layout *l, const struct place *p);

/** fragment_extents - of a file; -1 if the file system does not say. */
int64_t fragment_extents(const char *path);

#endif
