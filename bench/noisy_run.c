/* SPDX-License-Identifier: MIT */
/*
 * noisy_run: prepares the cached file, lets writers write another one beside
 * its readers for a while, and verifies both.
 *
 * The file that is written is open in the contender only (R22).
 */
#include "bench/run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/clock.h"
#include "bench/contender.h"
#include "bench/noisy.h"
#include "bench/options.h"
#include "bench/pattern.h"
#include "bench/place.h"
#include "bench/readers.h"
#include "bench/residency.h"
#include "bench/results.h"
#include "bench/sample.h"
#include "bench/say.h"
#include "bench/stop.h"
#include "bench/writers.h"

#define NS_PER_S 1000000000u
/* Runs begin with different content; 67 and 257, of pattern_phase(), have no
 * common factor. */
#define PHASES_PER_RUN 67u

/** struct scene - the parts of one run */
struct scene {
	const struct run *run;
	struct layout hot; /* of the cached file */
	struct work work;
	struct writers *writers;
	int hot_fd; /* -1: the engine has it */
	struct round_result *res;
};

static struct layout hot_layout(const struct run *run)
{
	uint64_t phase = pattern_phase(run->number);

	return (struct layout){ .pattern = run->pattern,
				.size = run->o->hot_bytes,
				.stripe = run->o->hot_bytes,
				.phases = { phase, phase } };
}

static struct work make_work(const struct run *run)
{
	const struct bench_options *o = run->o;

	return (struct work){ .ops = run->c->ops,
			      .pattern = run->pattern,
			      .record = run->c->record,
			      .count = o->total_bytes / run->c->record,
			      .threads = run->c->ops->idle ? 0 : o->threads,
			      .laps = true,
			      .phase_number = run->number * PHASES_PER_RUN };
}

/* ---- the cached file ------------------------------------------------- */

static bool engine_has_hot(const struct run *run)
{
	return run->c->variant.engine_reader;
}

/* Return: an error of the place, about which is complained. */
static int prepare(struct scene *s)
{
	const char *path = s->run->place->hot;
	int ret;

	ret = place_fresh(s->run->place);
	if (!ret)
		ret = layout_write(&s->hot, path);
	if (ret || engine_has_hot(s->run))
		return ret;
	ret = residency_fill(path);
	s->hot_fd = ret ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (!ret && s->hot_fd < 0)
		ret = -errno;
	if (ret)
		complain("cannot read %s: %s", path, strerror(-ret));
	return ret;
}

static void check_cached(struct scene *s, char *reason)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int64_t cached;

	s->res->hot_pages = (int64_t)((s->hot.size + page - 1) / page);
	cached = s->hot_fd < 0 ? s->res->hot_pages :
				 residency_range(s->hot_fd, 0, 0);
	if (cached < s->res->hot_pages)
		snprintf(reason, REASON_BYTES,
			 "the kernel caches %lld of %lld pages of what is read",
			 (long long)cached, (long long)s->res->hot_pages);
}

static int kernel_read_hot(void *arg, void *buf, size_t len, off_t off)
{
	const struct scene *s = arg;
	ssize_t n;

	do {
		n = pread(s->hot_fd, buf, len, off);
	} while (n < 0 && errno == EINTR);
	if (n == (ssize_t)len)
		return 0;
	return n < 0 ? -errno : -EIO;
}

static int engine_read_hot(void *arg, void *buf, size_t len, off_t off)
{
	const struct scene *s = arg;

	return s->work.ops->read_hot(s->work.contender, buf, len, off);
}

/* ---- readers beside writers ------------------------------------------ */

/* In slices: a signal ends it. */
static void let_pass(unsigned seconds)
{
	uint64_t until = clock_ns() + (uint64_t)seconds * NS_PER_S;
	struct timespec slice = { .tv_nsec = NS_PER_S / 50 };

	while (!stop_requested() && clock_ns() < until)
		nanosleep(&slice, NULL);
}

static int read_beside(struct scene *s, char *reason)
{
	const struct bench_options *o = s->run->o;
	struct reading reading = { .read = engine_has_hot(s->run) ?
						   engine_read_hot :
						   kernel_read_hot,
				   .arg = s,
				   .layout = &s->hot,
				   .size = o->read_bytes,
				   .threads = o->readers,
				   .rate = o->rate };
	struct reading_done done;
	struct readers *r;
	int ret;

	ret = readers_start(&reading, &r);
	if (!ret) {
		let_pass(o->seconds);
		ret = readers_stop(r, &done);
	}
	if (ret) {
		snprintf(reason, REASON_BYTES, "reading: %s", strerror(-ret));
		return ret;
	}
	s->res->read_ns = done.ns;
	s->res->read_latency = done.latency;
	if (done.wrong)
		snprintf(reason, REASON_BYTES, "%llu reads were wrong",
			 (unsigned long long)done.wrong);
	return done.wrong ? -EILSEQ : 0;
}

static void note_writes(struct scene *s, const struct work_done *done)
{
	s->res->writes = done->writes;
	s->res->bytes = done->writes * s->work.record;
	s->res->write_ns = done->end_ns - done->start_ns;
	s->res->write_latency = done->latency;
}

static void measure(struct scene *s, char *reason)
{
	struct work_done done;
	int ret;

	writers_start(s->writers);
	read_beside(s, reason);
	ret = writers_stop(s->writers, &done);
	if (!ret)
		ret = s->work.ops->sync(s->work.contender);
	note_writes(s, &done);
	if (ret && !reason[0])
		snprintf(reason, REASON_BYTES, "writing: %s", strerror(-ret));
}

/* ---- the whole ------------------------------------------------------- */

static int open_contender(struct scene *s)
{
	const struct run *run = s->run;
	struct target t = { .path = run->place->file,
			    .control_path = run->o->control_path,
			    .kick = run->o->kick,
			    .hot_path = engine_has_hot(run) ? run->place->hot :
							      NULL };

	noisy_budget(run->o, run->c->variant, &t.budget_bytes, &t.dirty_bytes);
	return s->work.ops->open(&t, &s->work.contender);
}

static void count_kept(struct scene *s)
{
	struct round_result *res = s->res;

	if (s->hot_fd >= 0)
		res->hot_kept_pages = residency_range(s->hot_fd, 0, 0);
	else
		res->hot_kept_pages = res->report.hot_pages;
	res->peak_bytes = res->report.stats.memory_peak_bytes;
}

static void contend(struct scene *s, char *reason)
{
	int ret;

	ret = open_contender(s);
	if (ret) {
		snprintf(reason, REASON_BYTES, "opening the file: %s",
			 strerror(-ret));
		return;
	}
	ret = writers_create(&s->work, &s->writers);
	if (ret)
		snprintf(reason, REASON_BYTES, "starting writers: %s",
			 strerror(-ret));
	else
		measure(s, reason);
	ret = s->work.ops->close(s->work.contender, &s->res->report);
	if (ret && !reason[0])
		snprintf(reason, REASON_BYTES, "closing: %s", strerror(-ret));
	count_kept(s);
}

static void verify(struct scene *s, char *reason)
{
	char where[REASON_BYTES / 2];
	int ret = 0;

	if (s->res->writes)
		ret = sample_verify(&s->work, s->writers, s->run->place->file,
				    where, sizeof(where));
	s->res->verified = !ret;
	if (ret)
		snprintf(reason, REASON_BYTES, "the file is wrong: %s", where);
}

int run_noisy(const struct run *run, struct round_result *res, char *reason)
{
	struct scene s = { .run = run,
			   .hot = hot_layout(run),
			   .work = make_work(run),
			   .hot_fd = -1,
			   .res = res };
	int ret;

	memset(res, 0, sizeof(*res));
	res->hot_pages = res->hot_kept_pages = -1;
	reason[0] = '\0';
	ret = prepare(&s);
	if (!ret)
		check_cached(&s, reason);
	if (!ret && !reason[0])
		contend(&s, reason);
	if (!ret && stop_requested())
		ret = -EINTR;
	if (!ret && !reason[0])
		verify(&s, reason);
	writers_destroy(s.writers);
	if (s.hot_fd >= 0)
		close(s.hot_fd);
	return ret;
}
