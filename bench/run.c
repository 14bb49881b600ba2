/* SPDX-License-Identifier: MIT */
/*
 * run: prepares the file, has it written, measures, and verifies it.
 *
 * Nothing here has the file open while a contender has, but for the sampler,
 * which borrows the contender's own descriptor.
 */
#include "bench/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/clock.h"
#include "bench/fragment.h"
#include "bench/options.h"
#include "bench/pattern.h"
#include "bench/place.h"
#include "bench/residency.h"
#include "bench/results.h"
#include "bench/sampler.h"
#include "bench/say.h"
#include "bench/stop.h"
#include "bench/writers.h"

static uint64_t record_count(const struct run *run)
{
	return run->o->total_bytes / run->c->record;
}

/* What the file holds before the run, and what it shall hold after it. */
static void make_layouts(const struct run *run, struct layout *before,
			 struct layout *after)
{
	uint64_t old = pattern_phase(2 * run->number);
	uint64_t new = pattern_phase(2 * run->number + 1);

	before->pattern = run->pattern;
	before->size = record_count(run) * run->c->record;
	before->stripe = run->c->record * run->o->threads;
	before->phases[0] = before->phases[1] = old;
	*after = *before;
	after->phases[0] = run->o->warm ? old : new;
	after->phases[1] = new;
}

/* Pages cached that lie wholly in even rows, which --warm leaves alone. */
static uint64_t count_outside(const struct layout *l, const char *path)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t row, start, end, count = 0;
	int64_t n;

	for (row = 0; fd >= 0 && row < l->size; row += 2 * l->stripe) {
		start = (row + page - 1) / page * page;
		end = row + l->stripe;
		/* The page of the end holds nothing beyond it. */
		end = end < l->size ? end / page * page : l->size;
		n = start < end ? residency_range(fd, start, end - start) : 0;
		count += n > 0 ? (uint64_t)n : 0;
	}
	if (fd >= 0)
		close(fd);
	return count;
}

static int prepare(const struct run *run, const struct layout *before,
		   struct round_result *res)
{
	const struct bench_options *o = run->o;
	const char *path = run->place->file;
	int ret;

	ret = place_fresh(run->place);
	if (ret || !o->overwrite)
		return ret;
	ret = o->fragment ? fragment_write(before, run->place) :
			    layout_write(before, path);
	if (ret)
		return ret;
	if (o->fragment)
		res->extents = fragment_extents(path);
	if (!o->warm)
		return 0;
	ret = residency_fill(path);
	if (ret)
		complain("cannot read %s: %s", path, strerror(-ret));
	res->warm_pages_outside = count_outside(before, path);
	return ret;
}

static int open_contender(const struct run *run, struct contender **out)
{
	struct target t = { .path = run->place->file,
			    .dsync = run->c->variant.dsync,
			    .warm = run->o->warm,
			    .budget_bytes = run->o->budget_bytes,
			    .control_path = run->o->control_path,
			    .kick = run->o->kick };

	return run->c->ops->open(&t, out);
}

/* What the device counts from begin_count() to end_count(). */
static bool begin_count(const struct run *run, struct device_counts *before)
{
	return device_count(&run->place->device, before);
}

static bool end_count(const struct run *run, const struct device_counts *before,
		      struct device_counts *grown)
{
	struct device_counts after;

	if (!device_count(&run->place->device, &after))
		return false;
	grown->sectors_read = after.sectors_read - before->sectors_read;
	grown->flushes = before->flushes < 0 ? -1 :
					       after.flushes - before->flushes;
	return true;
}

static double blocks_read(const struct device_counts *grown)
{
	return (double)grown->sectors_read * 512 / 4096;
}

static int write_and_sync(const struct run *run, struct contender *c,
			  struct writers *w, struct round_result *res)
{
	struct device_counts before, grown = { .flushes = -1 };
	struct work_done done;
	int ret;

	res->reads_known = begin_count(run, &before);
	ret = writers_run(w, &done);
	if (!ret)
		ret = run->c->ops->sync(c);
	res->stable_ns = clock_ns() - done.start_ns;
	res->reads_known = res->reads_known && end_count(run, &before, &grown);
	res->device_reads = blocks_read(&grown);
	res->device_flushes = grown.flushes;
	res->write_ns = done.end_ns - done.start_ns;
	res->write_latency = done.latency;
	res->writes = done.writes;
	res->bytes = done.writes * run->c->record;
	return ret;
}

static int measure(const struct run *run, struct contender *c,
		   struct round_result *res)
{
	struct work work = { .ops = run->c->ops,
			     .contender = c,
			     .pattern = run->pattern,
			     .record = run->c->record,
			     .count = record_count(run),
			     .threads = run->o->threads,
			     .odd_rows_only = run->o->warm,
			     .gap_us = run->o->gap_us,
			     .phase_number = 2 * run->number + 1 };
	struct sampler sampler;
	struct writers *w;
	int ret;

	ret = writers_create(&work, &w);
	if (ret)
		return ret;
	ret = sampler_start(&sampler, run->c->ops, c);
	if (!ret) {
		ret = write_and_sync(run, c, w, res);
		sampler_stop(&sampler, &res->kernel_pages_peak,
			     &res->resident_open);
	}
	writers_destroy(w);
	return ret;
}

static int close_contender(const struct run *run, struct contender *c,
			   struct round_result *res)
{
	struct device_counts before, grown = { 0 };
	int ret;

	res->reads_known = res->reads_known && begin_count(run, &before);
	ret = run->c->ops->close(c, &res->report);
	res->reads_known = res->reads_known && end_count(run, &before, &grown);
	res->close_reads = blocks_read(&grown);
	res->peak_bytes = res->report.has_engine ?
				  res->report.stats.memory_peak_bytes :
				  (uint64_t)res->kernel_pages_peak *
					  (uint64_t)sysconf(_SC_PAGESIZE);
	return ret;
}

/* Return: 0 with a reason or without; -EINTR. */
static int contend(const struct run *run, struct round_result *res,
		   char *reason)
{
	struct contender *c = NULL;
	int ret, ret2;

	ret = open_contender(run, &c);
	if (ret) {
		snprintf(reason, REASON_BYTES, "opening the file: %s",
			 strerror(-ret));
		return 0;
	}
	ret = measure(run, c, res);
	ret2 = close_contender(run, c, res);
	if (stop_requested())
		return -EINTR;
	if (ret || ret2)
		snprintf(reason, REASON_BYTES, "%s: %s",
			 ret ? "writing" : "closing",
			 strerror(ret ? -ret : -ret2));
	return 0;
}

static int verify(const struct run *run, const struct layout *after,
		  struct round_result *res, char *reason)
{
	char where[REASON_BYTES / 2];
	int ret;

	ret = layout_verify(after, run->place->file, where, sizeof(where));
	if (ret == -EINTR)
		return ret;
	res->verified = !ret;
	if (ret)
		snprintf(reason, REASON_BYTES, "the file is wrong: %s", where);
	return 0;
}

int run_once(const struct run *run, struct round_result *res, char *reason)
{
	struct layout before, after;
	int ret;

	memset(res, 0, sizeof(*res));
	res->extents = res->resident = res->resident_open = -1;
	res->device_flushes = -1;
	reason[0] = '\0';
	make_layouts(run, &before, &after);
	ret = prepare(run, &before, res);
	if (!ret)
		ret = contend(run, res, reason);
	if (ret || reason[0])
		return ret;
	res->resident = residency_path(run->place->file);
	if (run->o->warm)
		res->warm_kept_pages = count_outside(&before, run->place->file);
	return verify(run, &after, res, reason);
}
