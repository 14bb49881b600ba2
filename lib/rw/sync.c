// SPDX-License-Identifier: MIT
/*
 * sync: data to the store, and the syncs of a handle.
 */
#include "base/clock.h"
#include "mm/writeback.h"
#include "rw/group_commit.h"
#include "rw/owner.h"
#include "rw/rw.h"

int file_check_error(struct dbh_file *file)
{
	return errseq_check_and_advance(&file->m->wb_err, &file->err_since);
}

/* What is known goes to the store. The block that holds the end of the file is
 * left out and written last; if the file has grown past it meanwhile, it is an
 * ordinary one, and missing: then once more. */
static int write_known(struct mapping *m, pgoff_t first, pgoff_t last)
{
	uint32_t fails = atomic_load(&m->wb_fails);
	struct batch batch;
	uint64_t left, wrote;
	int err;

	do {
		batch_init(&batch);
		left = writeback_range(m, first, last, WRITEBACK_ALL, &batch);
		err = batch_wait(&batch);
		writeback_wait(m, first, last);
		/* What the flusher had in flight is not in the batch. Not
		 * wb_err: that is set before the folio is dirty again, and who
		 * comes between finds neither. */
		if (!err && atomic_load(&m->wb_fails) != fails)
			err = -(int)(errseq_sample(&m->wb_err) & ERRSEQ_ERRNO);
		wrote = left;
		if (left != NO_TAIL && !err)
			err = writeback_tail(m, &wrote);
	} while (wrote != left && !err);
	return err;
}

int mapping_write_range(struct mapping *m, pgoff_t first, pgoff_t last)
{
	struct batch batch;
	int err, res;

	batch_init(&batch);
	fill_range(m, first, last, &batch);
	err = batch_wait(&batch);
	res = write_known(m, first, last);
	return err ? err : res;
}

int file_sync(struct dbh_file *file, uint64_t first_byte, uint64_t last_byte,
	      bool datasync)
{
	struct mapping *m = file->m;
	uint64_t start;
	int err, news;

	if (!m->store->writable) {
		owner_revalidate(m);
		return file_check_error(file);
	}
	start = clock_ns();
	err = group_commit(m, first_byte, last_byte, datasync);
	hist_record(&m->engine->stats.latency[LATENCY_SYNC],
		    clock_ns() - start);
	owner_revalidate(m);
	news = file_check_error(file);
	paranoid_recount(m->engine);
	return err ? err : news;
}

int mapping_write_all(struct mapping *m)
{
	return mapping_write_bytes(m, 0, UINT64_MAX);
}

int mapping_write_known(struct mapping *m)
{
	return write_known(m, 0, UINT64_MAX >> PAGE_SHIFT);
}

int mapping_write_bytes(struct mapping *m, uint64_t first_byte,
			uint64_t last_byte)
{
	if (!m->store->writable)
		return 0;
	return mapping_write_range(m, first_page(m, first_byte),
				   last_page(m, last_byte));
}
