/* SPDX-License-Identifier: MIT */
/*
 * table: what the tables of all workloads are made of.
 */
#include "bench/table.h"

#include <stdio.h>
#include <sys/utsname.h>

#include "bench/options.h"
#include "bench/place.h"
#include "bench/report.h"

const char *table_number(char *buf, size_t size, double value, int decimals)
{
	if (value < 0)
		snprintf(buf, size, "-");
	else
		snprintf(buf, size, "%.*f", decimals, value);
	return buf;
}

const char *table_spread(char *buf, size_t size, struct spread s)
{
	int decimals = s.median < 100 ? 1 : 0;

	if (s.median < 0)
		snprintf(buf, size, "-");
	else if (s.min == s.max)
		snprintf(buf, size, "%.*f", decimals, s.median);
	else
		snprintf(buf, size, "%.*f (%.*f-%.*f)", decimals, s.median,
			 decimals, s.min, decimals, s.max);
	return buf;
}

const char *table_size(char *buf, size_t size, uint64_t bytes)
{
	static const char units[] = { 'k', 'M', 'G' };
	char unit = 0;
	size_t i;

	for (i = 0; i < sizeof(units) && bytes && bytes % 1024 == 0; i++) {
		bytes /= 1024;
		unit = units[i];
	}
	snprintf(buf, size, "%llu%.1s", (unsigned long long)bytes,
		 unit ? &unit : "");
	return buf;
}

void table_place(const struct report *r)
{
	const struct place *p = r->place;
	char block[32], sector[32];
	struct utsname un;

	uname(&un);
	printf("Linux %s, %s with %s blocks", un.release, p->device.fs,
	       table_size(block, sizeof(block), p->block_bytes));
	if (p->device.known)
		printf(", device %s with sectors of %s", p->device.name,
		       table_size(sector, sizeof(sector),
				  p->device.sector_bytes));
	printf("%s\n\n", p->on_scratch ? ", in memory" : "");
}

void table_figures(const struct bench_case *c, const struct column *columns,
		   unsigned nr_columns)
{
	char text[64];
	unsigned i;

	for (i = 0; i < nr_columns; i++) {
		const struct column *k = &columns[i];
		struct spread s = case_spread(c, k->of);

		if (k->spread)
			table_spread(text, sizeof(text), s);
		else
			table_number(text, sizeof(text), s.median, k->decimals);
		printf(" %*s", k->width, text);
	}
}

bool table_case_ran(const struct bench_case *c)
{
	if (c->missing[0])
		printf(" missing: %s", c->missing);
	else if (c->error[0])
		printf(" FAILED: %s", c->error);
	return !c->missing[0] && !c->error[0];
}

void table_verdict(const struct report *r)
{
	printf("%s\n", results_good(r->results) ?
			       "The content of every file was verified." :
			       "NOT every file was as it should be.");
}
