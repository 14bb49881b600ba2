// SPDX-License-Identifier: MIT
/*
 * alone: what a thread does that holds the lock alone: sizes, and looking at
 * everything there is.
 */
#include "model.h"

void alone_truncate(struct actor *a)
{
	struct model *m = a->m;
	size_t size = rng_below(&a->rng, m->cfg.span + 1);

	if (rng_chance(&a->rng, 30))
		size = size / 4096 * 4096;
	model_truncate(m, m->file[a->id], size);
	if (size < m->size)
		memset(m->bytes + size, 0, m->size - size);
	m->size = size;
	model_settle(m);
}

void alone_append(struct actor *a)
{
	struct model *m = a->m;
	unsigned flags = write_flags(a) & ~DBH_NOWAIT;

	for (int i = 0; i < 8 && m->size < m->cfg.span; i++) {
		size_t len = rng_size(&a->rng, m->cfg.span - m->size);
		ssize_t res;

		rng_fill(&a->rng, a->buf, len);
		res = dbh_pwrite(m->file[a->id], a->buf, len, 0,
				 flags | DBH_APPEND);
		if (res != (ssize_t)len) {
			model_failed(m, res);
			model_repair(m, m->file[a->id], a->buf, len, m->size);
		}
		memcpy(m->bytes + m->size, a->buf, len);
		m->size += len;
	}
	model_settle(m);
}

void alone_sync(struct actor *a)
{
	int err = dbh_fsync(a->m->file[a->id]);

	if (err)
		model_failed(a->m, err);
	else
		model_check_store(a->m);
}

static void check_nothing_left(struct model *m)
{
	struct dbh_stats s = { .struct_size = sizeof(s) };

	/* Others are at work in it. */
	if (m->cfg.engine)
		return;
	CHECK_OK(dbh_stats(m->engine, &s));
	CHECK(!s.dirty && !s.writeback && !s.dontcache_dirty && !s.edges_live,
	      "R10: after the close: dirty %llu writeback %llu "
	      "dontcache_dirty %llu edges %llu",
	      (unsigned long long)s.dirty, (unsigned long long)s.writeback,
	      (unsigned long long)s.dontcache_dirty,
	      (unsigned long long)s.edges_live);
}

void alone_close(struct actor *a)
{
	struct model *m = a->m;
	int err = 0;

	for (unsigned i = 0; i < m->cfg.threads; i++) {
		int res = dbh_close(m->file[i]);

		if (res)
			model_failed(m, res);
		err = err ? err : res;
	}
	/* What could not be written is still in the engine. */
	if (!err) {
		model_check_store(m);
		check_nothing_left(m);
	}
	for (unsigned i = 0; i < m->cfg.threads; i++)
		m->file[i] = model_open(m);
	model_settle(m);
}

void alone_read(struct actor *a)
{
	model_check_read(a->m, a->m->file[a->id], read_flags(a) & ~DBH_NOWAIT);
}
