/* SPDX-License-Identifier: MIT */
/*
 * store_mem: a store in memory, for tests. One thread transfers the bios in
 * the order they came and ends them.
 */
#include "mem_image.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "ioq.h"

struct store_mem {
	struct mem_base base;
	pthread_t thread;
	pthread_cond_t work; /* with base.lock */
	struct list_head queue; /* under base.lock */
	bool stop; /* under base.lock */
};

static struct store_mem *to_mem(struct store *store)
{
	return container_of(store, struct store_mem, base.store);
}

static void *mem_main(void *arg)
{
	struct store_mem *m = arg;
	struct bio *bio;

	pthread_mutex_lock(&m->base.lock);
	for (;;) {
		while (list_empty(&m->queue) && !m->stop)
			pthread_cond_wait(&m->work, &m->base.lock);
		if (list_empty(&m->queue))
			break;
		bio = list_first_entry(&m->queue, struct bio, list);
		list_del(&bio->list);
		bio->status = mem_base_transfer_locked(&m->base, bio);
		pthread_mutex_unlock(&m->base.lock);
		bio_end(bio);
		pthread_mutex_lock(&m->base.lock);
	}
	pthread_mutex_unlock(&m->base.lock);
	return NULL;
}

static void mem_submit(struct store *store, struct bio *bio)
{
	struct store_mem *m = to_mem(store);

	pthread_mutex_lock(&m->base.lock);
	m->base.nr_bios[bio->op]++;
	list_add_tail(&bio->list, &m->queue);
	pthread_cond_signal(&m->work);
	pthread_mutex_unlock(&m->base.lock);
}

static int mem_flush(struct store *store, bool datasync)
{
	(void)store;
	(void)datasync;
	return 0;
}

static int mem_write_tail(struct store *store, const void *buf, size_t len,
			  uint64_t pos)
{
	struct store_mem *m = to_mem(store);
	int err;

	pthread_mutex_lock(&m->base.lock);
	err = mem_image_write(&m->base.image, buf, len, pos);
	pthread_mutex_unlock(&m->base.lock);
	return err;
}

static int mem_settle(struct store *store)
{
	(void)store;
	return 0;
}

static int mem_truncate(struct store *store, uint64_t size)
{
	struct store_mem *m = to_mem(store);

	pthread_mutex_lock(&m->base.lock);
	mem_image_truncate(&m->base.image, size);
	pthread_mutex_unlock(&m->base.lock);
	return 0;
}

static int mem_fallocate(struct store *store, int mode, uint64_t pos,
			 uint64_t len)
{
	struct store_mem *m = to_mem(store);
	int err;

	pthread_mutex_lock(&m->base.lock);
	err = mem_image_fallocate(&m->base.image, mode, pos, len,
				  store->min_folio_bytes);
	pthread_mutex_unlock(&m->base.lock);
	return err;
}

static int mem_clone(struct store *store, uint64_t pos, struct store *from,
		     uint64_t from_pos, uint64_t len)
{
	return mem_base_clone(store, pos, from, from_pos, len, mem_write_tail);
}

static int mem_stat(struct store *store, struct stat *st)
{
	struct store_mem *m = to_mem(store);

	pthread_mutex_lock(&m->base.lock);
	mem_base_stat_locked(&m->base, st);
	pthread_mutex_unlock(&m->base.lock);
	return 0;
}

static void mem_destroy(struct store *store)
{
	struct store_mem *m = to_mem(store);

	pthread_mutex_lock(&m->base.lock);
	assert(list_empty(&m->queue));
	m->stop = true;
	pthread_cond_signal(&m->work);
	pthread_mutex_unlock(&m->base.lock);
	pthread_join(m->thread, NULL);
	pthread_cond_destroy(&m->work);
	mem_base_fini(&m->base);
	free(m);
}

static const struct store_ops mem_ops = {
	.name = "mem",
	.submit = mem_submit,
	.flush = mem_flush,
	.write_tail = mem_write_tail,
	.settle = mem_settle,
	.truncate = mem_truncate,
	.stat = mem_stat,
	.fallocate = mem_fallocate,
	.seek = mem_base_seek,
	.clone = mem_clone,
	.destroy = mem_destroy,
};

int store_mem_create(uint32_t min_folio_bytes, uint32_t align,
		     struct store **out)
{
	struct store_mem *m = calloc(1, sizeof(*m));
	int err;

	if (!m)
		return -ENOMEM;
	err = mem_base_init(&m->base, &mem_ops, min_folio_bytes, align);
	if (err) {
		free(m);
		return err;
	}
	pthread_cond_init(&m->work, NULL);
	list_init(&m->queue);
	err = block_thread_create(&m->thread, "dbh-mem", mem_main, m);
	if (err) {
		pthread_cond_destroy(&m->work);
		mem_base_fini(&m->base);
		free(m);
		return err;
	}
	*out = &m->base.store;
	return 0;
}

int store_mem_from_image(const struct store *like, struct mem_image *image,
			 struct store **out)
{
	int err = store_mem_create(like->min_folio_bytes, like->offset_align,
				   out);

	if (err)
		return err;
	/* Not published yet: no lock. */
	to_mem(*out)->base.image = *image;
	*image = (struct mem_image){ 0 };
	return 0;
}
