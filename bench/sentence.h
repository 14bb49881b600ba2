/* SPDX-License-Identifier: MIT */
/*
 * sentence: in plain words, what a table shows.
 */
#ifndef BENCH_SENTENCE_H
#define BENCH_SENTENCE_H

#include <stdbool.h>
#include <stddef.h>

struct results;

/**
 * sentence_make - compare the engine with the kernel at the record size where
 * the kernel read back the most; false if there is nothing to compare
 */
bool sentence_make(const struct results *r, char *text, size_t size);

#endif
