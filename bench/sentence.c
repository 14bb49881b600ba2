/* SPDX-License-Identifier: MIT */
/*
 * sentence: everything said is computed from the results.
 */
#include "bench/sentence.h"

#include <stdio.h>
#include <string.h>

#include "bench/results.h"

/* Two ways of writing records of one size. */
struct pair {
	const struct bench_case *a, *b;
};

/* What is left of zero when a file system reads its own dozen blocks. */
#define NOTHING_READS 20

static double stable(const struct bench_case *c)
{
	return case_spread(c, round_mib_s_stable).median;
}

static double reads(const struct bench_case *c)
{
	return case_spread(c, round_reads_per_write).median;
}

/* The pair where b read back the most; of equals, where a is ahead most. */
static bool better_example(struct pair p, struct pair best)
{
	double more = reads(p.b) - reads(best.b);

	if (more > 0.05 || more < -0.05)
		return more > 0;
	return stable(p.a) / stable(p.b) > stable(best.a) / stable(best.b);
}

static bool find_pair(const struct results *r, const struct contender_ops *a,
		      const struct contender_ops *b, struct pair *best)
{
	unsigned i;

	best->a = NULL;
	for (i = 0; i < r->nr_cases; i++) {
		const struct bench_case *c = &r->cases[i];
		struct pair p = { c,
				  results_find(r, c->record, b, c->variant) };

		/* Where there are cases without dsync, they are the example. */
		if (c->ops != a || !p.b || !case_verified(c) ||
		    !case_verified(p.b) ||
		    (best->a && c->variant.dsync && !best->a->variant.dsync))
			continue;
		if (!best->a || better_example(p, *best))
			*best = p;
	}
	return best->a;
}

static void speed_text(double ratio, const char *than, char *text, size_t size)
{
	if (ratio >= 1.05)
		snprintf(text, size, "%.*f times as fast as %s",
			 ratio < 9.95 ? 1 : 0, ratio, than);
	else
		snprintf(text, size, "at %.0f %% of the speed of %s",
			 100 * ratio, than);
}

static bool read_nothing(const struct bench_case *c)
{
	return case_spread(c, round_device_reads).median <= NOTHING_READS;
}

static void reads_text(const struct bench_case *c, char *text, size_t size)
{
	if (read_nothing(c))
		snprintf(text, size, "read nothing back");
	else
		snprintf(text, size, "read back %.*f blocks per write",
			 reads(c) < 0.01 ? 4 : 2, reads(c));
}

/* @who: with its verb; @their_name: who else reads back */
static void write_sentence(struct pair p, const char *who, const char *other,
			   const char *their_name, char *text, size_t size)
{
	char speed[128], own[64], theirs[64];
	int n;

	speed_text(stable(p.a) / stable(p.b), other, speed, sizeof(speed));
	n = snprintf(text, size, "At %llu-byte records%s %s %s",
		     (unsigned long long)p.a->record,
		     p.a->variant.dsync ? " with dsync" : "", who, speed);
	if (n < 0 || (size_t)n >= size)
		return;
	text += n;
	size -= (size_t)n;
	if (reads(p.a) < 0 || reads(p.b) < 0) {
		snprintf(text, size, ".");
		return;
	}
	if (read_nothing(p.a) && read_nothing(p.b)) {
		snprintf(text, size, "; neither read anything back.");
		return;
	}
	reads_text(p.a, own, sizeof(own));
	reads_text(p.b, theirs, sizeof(theirs));
	snprintf(text, size, " and %s; %s %s.", own, their_name, theirs);
}

bool sentence_make(const struct results *r, char *text, size_t size)
{
	struct pair p;

	if (find_pair(r, &contender_engine_dontcache,
		      &contender_kernel_dontcache, &p))
		write_sentence(p, "the engine wrote", "RWF_DONTCACHE",
			       "the kernel", text, size);
	else if (find_pair(r, &contender_engine_dontcache,
			   &contender_kernel_none, &p))
		write_sentence(p, "the engine wrote", "plain buffered writes",
			       "the kernel", text, size);
	else if (find_pair(r, &contender_kernel_none,
			   &contender_kernel_dontcache, &p))
		write_sentence(p, "plain buffered writes were", "RWF_DONTCACHE",
			       "RWF_DONTCACHE", text, size);
	else
		return false;
	return true;
}
