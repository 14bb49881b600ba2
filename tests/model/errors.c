// SPDX-License-Identifier: MIT
/*
 * errors: what the model does where its store errs (R15): nothing that was
 * accepted is lost, whatever is told is told of a store that errs, and when it
 * is mended everything works again.
 */
#include <errno.h>

#include "model.h"

/* After so many failures in a row the store is mended. */
#define PATIENCE 4

void model_failed(struct model *m, long long res)
{
	CHECK(m->cfg.faulty, "%lld (%s) of a store that does not err", res,
	      res < 0 ? strerror((int)-res) : "short");
	CHECK(res >= 0 || res == -EIO || res == -ENOSPC, "%lld (%s)", res,
	      strerror((int)-res));
}

static void set_errors(struct model *m, const struct store_fault_options *o)
{
	if (m->cfg.faulty)
		store_fault_set(m->spy->inner, o);
}

void model_mend(struct model *m, struct dbh_file *file)
{
	set_errors(m, &(struct store_fault_options){ .delay_us =
							     m->cfg.delay_us });
	/* What failed is tried again at once (R15). After a failed flush this
	 * goes on saying so. */
	dbh_fdatasync(file);
}

void model_set_errors(struct model *m, struct rng *r)
{
	struct store_fault_options o = { .delay_us = m->cfg.delay_us };

	if (rng_chance(r, 50)) {
		o.error_every = (unsigned)rng_below(r, 40);
		o.tail_error_every = (unsigned)rng_below(r, 10);
		o.flush_error_every =
			rng_chance(r, 30) ? (unsigned)rng_below(r, 10) : 0;
		o.error = rng_chance(r, 50) ? EIO : ENOSPC;
	}
	set_errors(m, &o);
}

void model_repair(struct model *m, struct dbh_file *file, const char *buf,
		  size_t len, size_t pos)
{
	unsigned times = 0;
	ssize_t res;

	while ((res = dbh_pwrite(file, buf, len, (off_t)pos, DBH_DONTCACHE)) !=
	       (ssize_t)len) {
		model_failed(m, res);
		if (++times >= PATIENCE)
			model_mend(m, file);
	}
}

void model_read_all(struct model *m, struct dbh_file *file, char *buf,
		    unsigned flags)
{
	unsigned times = 0;
	ssize_t res;

	while ((res = dbh_pread(file, buf, m->cfg.span + 1, 0, flags)) !=
	       (ssize_t)m->size) {
		CHECK(res < (ssize_t)m->size, "%zd bytes, not %zu", res,
		      m->size);
		model_failed(m, res);
		if (++times >= PATIENCE)
			model_mend(m, file);
	}
}

void model_set_limit(struct model *m, size_t size)
{
	if (m->spy)
		atomic_store(&m->spy->size_limit, size);
}

void model_truncate(struct model *m, struct dbh_file *file, size_t size)
{
	unsigned times = 0;
	int err;

	model_set_limit(m, size > m->size ? size : m->size);
	while ((err = dbh_ftruncate(file, (off_t)size))) {
		model_failed(m, err);
		if (++times >= PATIENCE)
			model_mend(m, file);
	}
	model_set_limit(m, 0);
}

int model_fallocate(struct model *m, struct dbh_file *file, int mode, size_t pos,
		    size_t len)
{
	unsigned times = 0;
	int err;

	while ((err = dbh_fallocate(file, mode, (off_t)pos, (off_t)len)) &&
	       err != -EOPNOTSUPP) {
		model_failed(m, err);
		if (++times >= PATIENCE)
			model_mend(m, file);
	}
	return err;
}
