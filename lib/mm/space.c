// SPDX-License-Identifier: MIT
/*
 * space: whether a write may be taken in, when what was taken in before cannot
 * be written (R15), or hardly any room is left on the device.
 *
 * A failing mapping keeps its data and tries again; its writers get the error
 * when it holds its share of memory. Where the error is that there is no
 * space, a write that goes beyond the on-disk end needs some: it gets the
 * error at once, after one more try, so that space which was freed is noticed.
 *
 * A file system that delays allocation reserves space for each dirty page. We
 * cannot; but near the end a writer first waits until its file's data is
 * written. So the answer is the file system's own, and what was accepted
 * before it is known is little.
 */
#include "mm/space.h"

#include <errno.h>

#include "mm/engine.h"

/* Less than this, beyond what is dirty: look each time. */
#define SPACE_LOW_BYTES (16u << 20)
/* Look again when so much of what was found has become dirty. */
#define SPACE_PART 4

/* No more than its part of what all failing ones may hold. */
static bool over_share(struct mapping *m)
{
	struct dbh_engine *e = m->engine;
	long others = MAX(atomic_load(&e->nr_failing), 1l);

	return atomic_load(&m->nr_dirty) >= e->limit.failing_pages / others ||
	       atomic_load(&e->nr_failed) >= e->limit.failing_pages;
}

static bool no_space(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}

/* Is there hardly more than what is dirty already? */
static bool space_low(struct mapping *m)
{
	struct wb *wb = m->wb;
	long dirtied = wb_stat(wb, WB_DIRTIED);
	uint64_t left, used;

	if (likely(dirtied < atomic_load_explicit(&wb->space_next,
						  memory_order_relaxed)) ||
	    !m->store->ops->space)
		return false;
	if (m->store->ops->space(m->store, &left))
		return false;
	used = (uint64_t)atomic_load(&wb->dt.nr_dirty) * PAGE_BYTES;
	if (left < used + SPACE_LOW_BYTES)
		return true;
	left = (left - used) / PAGE_BYTES / SPACE_PART;
	/* 2^40 pages are enough for everyone. */
	atomic_store_explicit(&wb->space_next,
			      dirtied + (long)MIN(left, 1ull << 40),
			      memory_order_relaxed);
	return false;
}

enum admission write_admit(struct mapping *m, uint64_t pos, bool written,
			   int *err)
{
	bool beyond = pos >= atomic_load(&m->disk_size);

	if (unlikely(mapping_failing(m))) {
		*err = -(int)(errseq_sample(&m->wb_err) & ERRSEQ_ERRNO);
		if (over_share(m))
			return ADMIT_NOT;
		if (beyond && no_space(*err))
			return written ? ADMIT_NOT : ADMIT_WHEN_WRITTEN;
	}
	return beyond && !written && space_low(m) ? ADMIT_WHEN_WRITTEN :
						    ADMIT;
}
