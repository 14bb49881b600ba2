/* SPDX-License-Identifier: MIT */
/*
 * rig: an engine with one file on a spied store, and questions about it.
 */
#ifndef DBH_TESTS_RIG_H
#define DBH_TESTS_RIG_H

#include <fcntl.h>

#include "dropbehind/dropbehind.h"
#include "rw/rw.h"
#include "support/pattern.h"
#include "support/spy.h"

struct rig {
	struct dbh_engine *engine;
	struct spy *spy;
	struct dbh_file *file;
};

static inline struct dbh_file *rig_open(struct rig *rig, int flags)
{
	struct dbh_file *file;

	CHECK_OK(file_open_store(rig->engine, &rig->spy->store, flags, &file));
	atomic_store(&rig->spy->mapping, file->m);
	return file;
}

/** @opts: NULL for 64 MiB and the default expiry. The store is taken over. */
static inline void rig_up(struct rig *rig, struct spy *spy,
			  const struct dbh_options *opts)
{
	struct dbh_options usual = { .struct_size = sizeof(usual),
				     .memory_bytes = 64u << 20 };

	rig->spy = spy;
	CHECK_OK(dbh_engine_create(opts ? opts : &usual, &rig->engine));
	rig->file = rig_open(rig, O_RDWR);
}

static inline struct dbh_stats rig_stats(struct rig *rig)
{
	struct dbh_stats s = { .struct_size = sizeof(s) };

	CHECK_OK(dbh_stats(rig->engine, &s));
	CHECK(s.memory_used_bytes <= s.memory_limit_bytes &&
		      s.memory_peak_bytes <= s.memory_limit_bytes,
	      "R12: over the budget");
	return s;
}

static inline struct dbh_residency rig_residency(struct rig *rig)
{
	struct dbh_residency r = { .struct_size = sizeof(r) };

	CHECK_OK(dbh_residency(rig->file, &r));
	return r;
}

/** R10: nothing is counted that is not there. */
static inline void rig_check_idle(struct rig *rig)
{
	struct dbh_stats s = rig_stats(rig);

	CHECK(!s.dirty && !s.writeback && !s.dontcache_dirty && !s.edges_live,
	      "R10: dirty %llu writeback %llu dontcache_dirty %llu edges %llu",
	      (unsigned long long)s.dirty, (unsigned long long)s.writeback,
	      (unsigned long long)s.dontcache_dirty,
	      (unsigned long long)s.edges_live);
}

/** The last close; what is in the store stays to be looked at. */
static inline void rig_close(struct rig *rig)
{
	CHECK_OK(dbh_close(rig->file));
	rig->file = NULL;
	rig_check_idle(rig);
}

static inline void rig_down(struct rig *rig)
{
	if (rig->file)
		rig_close(rig);
	CHECK_OK(dbh_engine_destroy(rig->engine));
	spy_destroy(rig->spy);
}

/** Sleep until at most @pages of the file are cached; the guard ends it. */
static inline void rig_wait_cached(struct rig *rig, uint64_t pages)
{
	while (rig_residency(rig).cached > pages)
		usleep(1000);
}

static inline unsigned rig_reads(struct rig *rig)
{
	return atomic_load(&rig->spy->bios[BIO_READ]);
}

/** Write a piece of the pattern. */
static inline void rig_write(struct rig *rig, size_t len, uint64_t pos,
			     unsigned gen, unsigned flags)
{
	char *buf = malloc(len);

	CHECK(buf, "no memory");
	pattern_fill(buf, len, pos, gen);
	CHECK_IS(dbh_pwrite(rig->file, buf, len, (off_t)pos, flags), len);
	free(buf);
}

/** Read it back through the engine. */
static inline void rig_read(struct rig *rig, size_t len, uint64_t pos,
			    unsigned gen, unsigned flags)
{
	char *buf = malloc(len);

	CHECK(buf, "no memory");
	CHECK_IS(dbh_pread(rig->file, buf, len, (off_t)pos, flags), len);
	pattern_check(buf, len, pos, gen);
	free(buf);
}

/** Look for it in the store. */
static inline void rig_check_store(struct rig *rig, size_t len, uint64_t pos,
				   unsigned gen)
{
	char *buf = malloc(len);

	CHECK(buf, "no memory");
	CHECK_IS(store_mem_peek(rig->spy->inner, buf, len, pos), len);
	pattern_check(buf, len, pos, gen);
	free(buf);
}

/** Content that is there before the engine comes. */
static inline struct spy *spy_with_content(uint32_t min_folio, size_t len,
					   unsigned gen)
{
	struct spy *spy = spy_create_mem(min_folio, 512);
	char *buf = malloc(len);

	CHECK(buf, "no memory");
	pattern_fill(buf, len, 0, gen);
	spy_put(spy, buf, len, 0);
	free(buf);
	return spy;
}

#endif
