// SPDX-License-Identifier: MIT
/*
 * model: the file's life, and comparing it with the array.
 */
#include "model.h"

#include <fcntl.h>
#include <unistd.h>

#include "rw/rw.h"
#include "support/scratch.h"

size_t first_difference(const char *a, const char *b, size_t len)
{
	size_t i = 0;

	if (!memcmp(a, b, len))
		return len;
	while (a[i] == b[i])
		i++;
	return i;
}

/* ---- segments -------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return x < y ? -1 : x > y;
}

static void make_segments(struct model *m, struct rng *r)
{
	size_t cut[MAX_SEGMENTS];
	unsigned nr = (unsigned)rng_between(r, m->cfg.threads, MAX_SEGMENTS);
	size_t at = 0;

	for (unsigned i = 0; i < nr; i++)
		cut[i] = 1 + rng_below(r, m->cfg.span - 1);
	qsort(cut, nr, sizeof(cut[0]), by_value);
	cut[nr - 1] = m->cfg.span;
	for (unsigned i = 0; i < nr; i++) {
		if (cut[i] == at)
			continue;
		m->segment[m->nr_segments] = (struct segment){
			at, cut[i], m->nr_segments % m->cfg.threads
		};
		m->nr_segments++;
		at = cut[i];
	}
}

/* ---- life ------------------------------------------------------------ */

static void create_store(struct model *m)
{
	const struct config *c = &m->cfg;
	struct store_fault_options opts = { .seed = c->seed,
					    .delay_us = c->delay_us };
	struct store *store;

	if (c->delay_us || c->faulty)
		CHECK_OK(store_fault_create(c->min_folio, c->align, &opts,
					    &store));
	else
		CHECK_OK(store_mem_create(c->min_folio, c->align, &store));
	store->dev = c->dev;
	m->spy = spy_create(store);
}

static void put_existing(struct model *m, struct rng *r)
{
	int fd;

	m->size = rng_size(r, m->cfg.span);
	rng_fill(r, m->bytes, m->size);
	if (m->spy) {
		spy_put(m->spy, m->bytes, m->size, 0);
		return;
	}
	fd = open(m->path, O_WRONLY | O_CREAT, 0600);
	CHECK(fd >= 0, "%s", m->path);
	CHECK_IS(pwrite(fd, m->bytes, m->size, 0), m->size);
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

struct dbh_file *model_open(struct model *m)
{
	struct dbh_file *file;

	if (!m->spy) {
		CHECK_OK(dbh_open(m->engine, m->path, O_RDWR | O_CREAT, 0600,
				  &file));
		return file;
	}
	CHECK_OK(file_open_store(m->engine, &m->spy->store, O_RDWR, &file));
	atomic_store(&m->spy->mapping, file->m);
	return file;
}

struct model *model_create(const struct config *cfg)
{
	struct dbh_options opts = {
		.struct_size = sizeof(opts),
		.memory_bytes = cfg->memory,
		.queue_depth = cfg->queue_depth,
		.expire_ms = cfg->expire_ms,
		.io_method = cfg->io_method,
	};
	struct model *m = calloc(1, sizeof(*m));
	struct rng r = rng_fork(cfg->seed, 1000);

	CHECK(m, "no memory");
	m->cfg = *cfg;
	m->bytes = calloc(1, cfg->span);
	CHECK(m->bytes, "no memory");
	pthread_rwlock_init(&m->lock, NULL);
	make_segments(m, &r);
	if (!strcmp(cfg->place, "mem"))
		create_store(m);
	else
		snprintf(m->path, sizeof(m->path), "%s",
			 scratch_path(strcmp(cfg->place, "shm") ?
					      scratch_dir() :
					      scratch_shm()));
	if (cfg->existing)
		put_existing(m, &r);
	m->engine = cfg->engine;
	if (!m->engine)
		CHECK_OK(dbh_engine_create(&opts, &m->engine));
	for (unsigned i = 0; i < cfg->threads; i++)
		m->file[i] = model_open(m);
	return m;
}

/* The store is mended; each handle may have news all the same. */
static void close_all(struct model *m)
{
	for (unsigned i = 0; i < m->cfg.threads; i++) {
		int err = dbh_close(m->file[i]);

		if (err)
			model_failed(m, err);
	}
}

void model_destroy(struct model *m)
{
	model_mend(m, m->file[0]);
	model_settle(m);
	model_check_read(m, m->file[0], 0);
	close_all(m);
	model_check_store(m);
	if (!m->cfg.engine)
		CHECK_OK(dbh_engine_destroy(m->engine));
	spy_destroy(m->spy);
	if (!m->spy)
		unlink(m->path);
	pthread_rwlock_destroy(&m->lock);
	free(m->bytes);
	free(m);
}

/* ---- what is known --------------------------------------------------- */

void model_settle(struct model *m)
{
	struct stat st;

	for (unsigned i = 0; i < m->cfg.threads; i++) {
		size_t end = atomic_load(&m->written_end[i]);

		m->size = end > m->size ? end : m->size;
		atomic_store(&m->written_end[i], 0);
	}
	CHECK_OK(dbh_fstat(m->file[0], &st));
	CHECK_IS(st.st_size, m->size);
}

void model_check_read(struct model *m, struct dbh_file *file, unsigned flags)
{
	char *buf = malloc(m->cfg.span + 1);
	size_t same;

	CHECK(buf, "no memory");
	model_read_all(m, file, buf, flags);
	same = first_difference(buf, m->bytes, m->size);
	CHECK(same == m->size, "byte %zu of %zu is %02x, not %02x", same,
	      m->size, (unsigned char)buf[same],
	      (unsigned char)m->bytes[same]);
	free(buf);
}

void model_check_store(struct model *m)
{
	char *buf = malloc(m->cfg.span + 1);
	size_t same, size;
	int fd;

	CHECK(buf, "no memory");
	if (m->spy) {
		size = store_mem_peek(m->spy->inner, buf, m->cfg.span + 1, 0);
	} else {
		fd = open(m->path, O_RDONLY);
		CHECK(fd >= 0, "%s", m->path);
		size = (size_t)pread(fd, buf, m->cfg.span + 1, 0);
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
	CHECK_IS(size, m->size);
	same = first_difference(buf, m->bytes, m->size);
	CHECK(same == m->size,
	      "in the store: byte %zu of %zu is %02x, not %02x", same, m->size,
	      (unsigned char)buf[same], (unsigned char)m->bytes[same]);
	free(buf);
}

void model_check_stats(struct model *m)
{
	struct dbh_stats s = { .struct_size = sizeof(s) };

	CHECK_OK(dbh_stats(m->engine, &s));
	CHECK_IS(s.memory_limit_bytes, m->cfg.memory);
	CHECK(s.memory_used_bytes <= s.memory_limit_bytes, "%llu",
	      (unsigned long long)s.memory_used_bytes);
	CHECK(s.memory_peak_bytes <= s.memory_limit_bytes, "%llu",
	      (unsigned long long)s.memory_peak_bytes);
}
