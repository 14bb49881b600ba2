// SPDX-License-Identifier: MIT
/*
 * paranoid: recounts every counter from the folios (R10), in builds that ask
 * for it.
 *
 * Whoever changes flags, tags and counters is between paranoid_enter() and
 * paranoid_leave(), which may nest; the recount waits until nobody is. It
 * reads the folios without their locks, which is what that allows.
 */
#include "mm/engine.h"

#ifdef DBH_PARANOID

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Readers preferred, the default: a section may sleep for a folio lock whose
 * holder has yet to enter one. */
static pthread_rwlock_t gate = PTHREAD_RWLOCK_INITIALIZER;
static __thread unsigned depth;

void paranoid_enter(void)
{
	if (!depth++)
		pthread_rwlock_rdlock(&gate);
}

void paranoid_leave(void)
{
	if (!--depth)
		pthread_rwlock_unlock(&gate);
}

static void expect(const char *what, long have, long want)
{
	if (have == want)
		return;
	fprintf(stderr, "dropbehind: %s is %ld, counted %ld\n", what, have,
		want);
	abort();
}

struct sums {
	long dirty, writeback, dontcache_dirty, edges, busy, failed;
};

static void count_folio(struct sums *s, const struct folio *f)
{
	const uint32_t dropping = FOLIO_DIRTY | FOLIO_DROPBEHIND;
	long pages = (long)folio_pages(f);

	if (f->flags & FOLIO_DIRTY)
		s->dirty += pages;
	if (f->flags & FOLIO_WRITEBACK)
		s->writeback += pages;
	if ((f->flags & dropping) == dropping)
		s->dontcache_dirty += pages;
	if (f->flags & FOLIO_EDGE)
		s->edges += pages;
	if (f->flags & FOLIO_FAILED)
		s->failed += pages;
	if (f->flags & (FOLIO_DIRTY | FOLIO_WRITEBACK))
		s->busy += pages;
}

static void check_tag(const char *name, uint64_t tag, const struct folio *f,
		      uint32_t flag)
{
	expect(name, (tag & folio_mask(f)) == folio_mask(f),
	       !!(f->flags & flag));
	expect(name, (tag & folio_mask(f)) != 0, !!(f->flags & flag));
}

static void check_node(struct dbh_engine *e, struct node *n, struct sums *all,
		       struct sums *dev, struct wb *wb)
{
	struct mapping *m = atomic_load(&n->mapping);

	for (unsigned i = 0; i < NODE_PAGES; i++) {
		uint32_t id = atomic_load(&n->slot[i]);
		struct folio *f;

		expect("a present tag", n->present >> i & 1, id != 0);
		if (!id)
			continue;
		f = &e->pool.folios[id - 1];
		expect("a folio's mapping", f->mapping == m, true);
		if (f->index % NODE_PAGES != i)
			continue;
		check_tag("a dirty tag", n->dirty, f, FOLIO_DIRTY);
		check_tag("a writeback tag", n->writeback, f, FOLIO_WRITEBACK);
		check_tag("a dropbehind tag", n->dropbehind, f,
			  FOLIO_DROPBEHIND);
		check_tag("an edge tag", n->edge, f, FOLIO_EDGE);
		count_folio(all, f);
		if (m->wb == wb)
			count_folio(dev, f);
	}
}

static void check_wb(struct dbh_engine *e, struct wb *wb, struct sums *all,
		     long *open_nodes)
{
	struct sums dev = { 0 };

	memset(all, 0, sizeof(*all));
	*open_nodes = 0;
	for (uint32_t i = 0; i < e->nodes.nr_nodes; i++) {
		struct node *n = &e->nodes.nodes[i];

		if (!atomic_load(&n->mapping))
			continue;
		check_node(e, n, all, &dev, wb);
		expect("an open node", n->open, node_is_open(n));
		*open_nodes += n->open;
	}
	expect("DIRTY", wb_stat(wb, WB_DIRTY), dev.dirty);
	expect("WRITEBACK", wb_stat(wb, WB_WRITEBACK), dev.writeback);
	/* What writers have reserved and not yet dirtied is more. */
	expect("a device's dirty limit's count is enough",
	       atomic_load(&wb->dt.nr_dirty) >= dev.busy, true);
	expect("a device's failed pages", atomic_load(&wb->nr_failed),
	       dev.failed);
	expect("a device's edges", atomic_load(&wb->nr_edges), dev.edges);
	expect("DONTCACHE_DIRTY", wb_stat(wb, WB_DONTCACHE_DIRTY),
	       dev.dontcache_dirty);
}

void paranoid_recount(struct dbh_engine *e)
{
	pthread_rwlock_wrlock(&gate);
	for (struct wb *wb = wb_first(e); wb; wb = wb_next(wb)) {
		struct sums all;
		long open_nodes;

		check_wb(e, wb, &all, &open_nodes);
		expect("edges", atomic_load(&e->nr_edges), all.edges);
		expect("failed pages", atomic_load(&e->nr_failed), all.failed);
		expect("open nodes", atomic_load(&e->nr_open_nodes),
		       open_nodes);
		/* What writers have reserved and not yet dirtied is more. */
		expect("the dirty limit's count is enough",
		       atomic_load(&e->nr_dirty) >= all.busy, true);
	}
	pthread_rwlock_unlock(&gate);
}

#endif
