/* SPDX-License-Identifier: MIT */
/*
 * table: reports for people.
 */
#ifndef BENCH_TABLE_H
#define BENCH_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/results.h"

struct report;

/* The tables of the workloads. */
void table_interleaved(const struct report *r);
void table_noisy(const struct report *r);

/* ---- what they share; each function returns @buf, or prints ---------- */

/** table_number - a figure, or a dash for one that is not known */
const char *table_number(char *buf, size_t size, double value, int decimals);

/** table_spread - a median, with the least and the greatest if they differ */
const char *table_spread(char *buf, size_t size, struct spread s);

/** table_size - bytes, with a suffix where it is a round number */
const char *table_size(char *buf, size_t size, uint64_t bytes);

/** table_place - on what it ran */
void table_place(const struct report *r);

/**
 * struct column - a figure of a case
 * @spread: with the least and the greatest; @decimals is not used then
 */
struct column {
	round_figure *of;
	int width, decimals;
	bool spread;
};

/** table_figures - one after the other, on the line that has begun */
void table_figures(const struct bench_case *c, const struct column *columns,
		   unsigned nr_columns);

/** table_case_ran - false: it has no figures, and why is printed */
bool table_case_ran(const struct bench_case *c);

/** table_verdict - whether the files were right */
void table_verdict(const struct report *r);

#endif
