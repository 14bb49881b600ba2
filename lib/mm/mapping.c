// SPDX-License-Identifier: MIT
/*
 * mapping: nodes and their slots; look-up, insertion, removal, splitting.
 *
 * Locks: folio lock, then tree_lock, then node->lock, then hash_lock. The
 * look-up takes none of them. It may be led astray by a node that changes
 * hands under it, and then misses, or finds a folio that folio_is() refuses;
 * whoever misses and cares asks again under tree_lock.
 */
#include "mm/mapping.h"

#include <stdlib.h>
#include <string.h>

#include "base/trace.h"
#include "mm/engine.h"

/* A chain is some nodes long; a walk that was led into other chains ends. */
#define HASH_HOPS 32

static int node_cmp(const struct node *a, const struct node *b)
{
	pgoff_t x = atomic_load_explicit(&a->base, memory_order_relaxed);
	pgoff_t y = atomic_load_explicit(&b->base, memory_order_relaxed);

	return x < y ? -1 : x > y;
}

RB_GENERATE_INTERNAL(node_tree, node, tree, node_cmp,
		     __attribute__((unused)) static)

/* ---- the table ------------------------------------------------------- */

int node_table_init(struct node_table *t, uint32_t nr_nodes,
		    uint32_t max_ghosts)
{
	uint32_t buckets = 64;

	memset(t, 0, sizeof(*t));
	while (buckets < nr_nodes)
		buckets *= 2;
	t->nodes = calloc(nr_nodes, sizeof(struct node));
	t->hash = calloc(buckets, sizeof(t->hash[0]));
	if (!t->nodes || !t->hash) {
		node_table_fini(t);
		return -ENOMEM;
	}
	t->nr_nodes = nr_nodes;
	t->hash_mask = buckets - 1;
	mutex_init(&t->hash_lock, RANK_HASH);
	mutex_init(&t->free_lock, RANK_LEAF);
	mutex_init(&t->ghost_lock, RANK_LEAF);
	list_init(&t->ghosts);
	t->max_ghosts = max_ghosts;
	for (uint32_t i = nr_nodes; i-- > 0;) {
		mutex_init(&t->nodes[i].lock, RANK_NODE);
		list_init(&t->nodes[i].wb_link);
		list_init(&t->nodes[i].ghost);
		atomic_init(&t->nodes[i].hash_next, t->free);
		t->free = i + 1;
	}
	t->nr_free = nr_nodes;
	return 0;
}

void node_table_fini(struct node_table *t)
{
	free(t->nodes);
	free(t->hash);
}

static struct node *node_alloc(struct node_table *t)
{
	struct node *n = NULL;

	mutex_lock(&t->free_lock);
	if (t->free) {
		n = &t->nodes[t->free - 1];
		t->free = atomic_load_explicit(&n->hash_next,
					       memory_order_relaxed);
		t->nr_free--;
	}
	mutex_unlock(&t->free_lock);
	return n;
}

static void node_free(struct node_table *t, struct node *n)
{
	mutex_lock(&t->free_lock);
	atomic_store_explicit(&n->hash_next, t->free, memory_order_relaxed);
	t->free = (uint32_t)(n - t->nodes) + 1;
	t->nr_free++;
	mutex_unlock(&t->free_lock);
}

/* ---- hash ------------------------------------------------------------ */

static _Atomic uint32_t *hash_bucket(struct node_table *t, uint32_t id,
				     pgoff_t base)
{
	uint64_t h = (base + ((uint64_t)id << 32)) * 0x9e3779b97f4a7c15ull;

	return &t->hash[(h >> 32) & t->hash_mask];
}

static void hash_add(struct node_table *t, struct mapping *m, struct node *n,
		     pgoff_t base)
{
	_Atomic uint32_t *bucket = hash_bucket(t, m->id, base);

	mutex_lock(&t->hash_lock);
	atomic_store_explicit(&n->hash_next,
			      atomic_load_explicit(bucket,
						   memory_order_relaxed),
			      memory_order_relaxed);
	/* release: pairs with the acquire in node_find() */
	atomic_store_explicit(bucket, (uint32_t)(n - t->nodes) + 1,
			      memory_order_release);
	mutex_unlock(&t->hash_lock);
}

static void hash_del(struct node_table *t, struct mapping *m, struct node *n,
		     pgoff_t base)
{
	_Atomic uint32_t *link = hash_bucket(t, m->id, base);
	uint32_t id = (uint32_t)(n - t->nodes) + 1, at;

	mutex_lock(&t->hash_lock);
	while ((at = atomic_load_explicit(link, memory_order_relaxed)) != id)
		link = &t->nodes[at - 1].hash_next;
	atomic_store_explicit(
		link, atomic_load_explicit(&n->hash_next, memory_order_relaxed),
		memory_order_release);
	mutex_unlock(&t->hash_lock);
}

static bool node_is(struct node *n, struct mapping *m, pgoff_t base)
{
	return atomic_load_explicit(&n->mapping, memory_order_relaxed) == m &&
	       atomic_load_explicit(&n->base, memory_order_relaxed) == base;
}

struct node *node_find(struct mapping *m, pgoff_t index)
{
	struct node_table *t = &m->engine->nodes;
	pgoff_t base = index >> NODE_SHIFT;
	uint32_t id = atomic_load_explicit(hash_bucket(t, m->id, base),
					   memory_order_acquire);

	for (int hops = 0; id && hops < HASH_HOPS; hops++) {
		struct node *n = &t->nodes[id - 1];

		if (node_is(n, m, base))
			return n;
		id = atomic_load_explicit(&n->hash_next, memory_order_acquire);
	}
	return NULL;
}

/* ---- the tree -------------------------------------------------------- */

static struct node *tree_find_locked(struct mapping *m, pgoff_t base)
{
	struct node key;

	assert_held(&m->tree_lock);
	atomic_init(&key.base, base);
	return RB_FIND(node_tree, &m->nodes, &key);
}

/* Lock @n if it is (still) the node of @base in @m. */
static bool node_lock_if(struct node *n, struct mapping *m, pgoff_t base)
{
	mutex_lock(&n->lock);
	if (node_is(n, m, base))
		return true;
	mutex_unlock(&n->lock);
	return false;
}

struct node *node_lock_find(struct mapping *m, pgoff_t index)
{
	pgoff_t base = index >> NODE_SHIFT;
	struct node *n = node_find(m, index);

	if (likely(n && node_lock_if(n, m, base)))
		return n;
	mutex_lock(&m->tree_lock);
	n = tree_find_locked(m, base);
	if (n)
		mutex_lock(&n->lock);
	mutex_unlock(&m->tree_lock);
	return n;
}

struct node *folio_node_lock(const struct folio *f)
{
	struct node *n = node_lock_find(f->mapping, f->index);

	/* A folio of the mapping keeps its node there. */
	assert(n);
	return n;
}

pgoff_t node_next(struct mapping *m, pgoff_t index)
{
	struct node key, *n;
	pgoff_t found = UINT64_MAX;

	atomic_init(&key.base, index >> NODE_SHIFT);
	mutex_lock(&m->tree_lock);
	n = RB_NFIND(node_tree, &m->nodes, &key);
	if (n)
		found = atomic_load_explicit(&n->base, memory_order_relaxed)
			<< NODE_SHIFT;
	mutex_unlock(&m->tree_lock);
	return found == UINT64_MAX ? found : MAX(found, index);
}

void mapping_open_hint(struct mapping *m, pgoff_t base)
{
	pgoff_t hint = atomic_load(&m->open_hint);

	while (base < hint &&
	       !atomic_compare_exchange_weak(&m->open_hint, &hint, base))
		;
}

pgoff_t mapping_first_open(struct mapping *m, pgoff_t none)
{
	pgoff_t hint = atomic_load(&m->open_hint), base = UINT64_MAX;
	struct node key, *n;
	bool open = false;

	atomic_init(&key.base, hint);
	mutex_lock(&m->tree_lock);
	n = RB_NFIND(node_tree, &m->nodes, &key);
	while (n) {
		mutex_lock(&n->lock);
		open = n->open;
		mutex_unlock(&n->lock);
		if (open)
			break;
		n = RB_NEXT(node_tree, &m->nodes, n);
	}
	if (n)
		base = atomic_load_explicit(&n->base, memory_order_relaxed);
	mutex_unlock(&m->tree_lock);
	/* Unless a node before it was opened meanwhile. */
	atomic_compare_exchange_strong(&m->open_hint, &hint, base);
	return n ? base << NODE_SHIFT : none;
}

/* The node of @base, locked; made if it is not there. NULL: none is free. */
static struct node *node_lock_create(struct mapping *m, pgoff_t base)
{
	struct node_table *t = &m->engine->nodes;
	struct node *n;

	mutex_lock(&m->tree_lock);
	n = tree_find_locked(m, base);
	if (n) {
		mutex_lock(&n->lock);
		goto out;
	}
	n = node_alloc(t);
	if (!n)
		goto out;
	mutex_lock(&n->lock);
	atomic_store_explicit(&n->base, base, memory_order_relaxed);
	atomic_store_explicit(&n->mapping, m, memory_order_relaxed);
	RB_INSERT(node_tree, &m->nodes, n);
	hash_add(t, m, n, base);
out:
	mutex_unlock(&m->tree_lock);
	return n;
}

static void ghost_del(struct node_table *t, struct node *n)
{
	mutex_lock(&t->ghost_lock);
	if (!list_empty(&n->ghost)) {
		list_del(&n->ghost);
		t->nr_ghosts--;
	}
	mutex_unlock(&t->ghost_lock);
}

/* Keep an empty node. Return: the oldest ghost, if there are too many. */
static struct node *ghost_add(struct node_table *t, struct node *n)
{
	struct node *oldest = NULL;

	mutex_lock(&t->ghost_lock);
	if (list_empty(&n->ghost)) {
		list_add_tail(&n->ghost, &t->ghosts);
		t->nr_ghosts++;
	}
	if (t->nr_ghosts > t->max_ghosts)
		oldest = list_first_entry(&t->ghosts, struct node, ghost);
	mutex_unlock(&t->ghost_lock);
	return oldest;
}

/* Free the node of @base if it is empty. Return: the node that is in excess
 * because this one is kept, with its place in *@om and *@ob. */
static bool node_put(struct mapping *m, pgoff_t base, bool keep,
		     struct mapping **om, pgoff_t *ob)
{
	struct node_table *t = &m->engine->nodes;
	struct node *n, *oldest = NULL;

	mutex_lock(&m->tree_lock);
	n = tree_find_locked(m, base);
	if (!n)
		goto out;
	mutex_lock(&n->lock);
	if (n->present) {
		mutex_unlock(&n->lock);
		n = NULL;
		goto out;
	}
	assert(!n->dirty && !n->writeback && !n->dropbehind && !n->edge);
	if (keep && n->sent && ~n->sent) {
		oldest = ghost_add(t, n);
		mutex_unlock(&n->lock);
		n = NULL;
		goto out;
	}
	ghost_del(t, n);
	RB_REMOVE(node_tree, &m->nodes, n);
	hash_del(t, m, n, base);
	n->sent = 0;
	atomic_store_explicit(&n->mapping, NULL, memory_order_relaxed);
	mutex_unlock(&n->lock);
out:
	mutex_unlock(&m->tree_lock);
	if (n) {
		node_free(t, n);
		mem_wake_some(m->engine);
	}
	if (oldest) {
		*om = atomic_load(&oldest->mapping);
		*ob = atomic_load(&oldest->base);
	}
	return oldest && *om;
}

void node_put_empty(struct mapping *m, pgoff_t index)
{
	struct mapping *om, *unused;
	pgoff_t ob, ub;

	if (node_put(m, index >> NODE_SHIFT, true, &om, &ob))
		node_put(om, ob, false, &unused, &ub);
}

void mapping_free_ghosts(struct mapping *m)
{
	pgoff_t index = 0, ub;
	struct mapping *unused;

	while ((index = node_next(m, index)) != UINT64_MAX) {
		node_put(m, index >> NODE_SHIFT, false, &unused, &ub);
		index = ALIGN_DOWN(index, NODE_PAGES) + NODE_PAGES;
		if (!index)
			break;
	}
}

/* ---- folios ---------------------------------------------------------- */

struct folio *mapping_lookup(struct mapping *m, pgoff_t index)
{
	struct node *n = node_find(m, index);
	uint32_t id = 0;

	if (likely(n))
		/* acquire: pairs with the release in set_slots() */
		id = atomic_load_explicit(&n->slot[index % NODE_PAGES],
					  memory_order_acquire);
	else if ((n = node_lock_find(m, index))) {
		/* Led astray: settle it. */
		id = atomic_load_explicit(&n->slot[index % NODE_PAGES],
					  memory_order_relaxed);
		mutex_unlock(&n->lock);
	}
	return id ? &m->engine->pool.folios[id - 1] : NULL;
}

static void set_slots(struct node *n, const struct folio *f, uint32_t id)
{
	unsigned first = f->index % NODE_PAGES;

	assert_held(&n->lock);
	for (unsigned i = 0; i < folio_pages(f); i++)
		atomic_store_explicit(&n->slot[first + i], id,
				      memory_order_release);
}

static uint32_t folio_id(const struct folio *f)
{
	return (uint32_t)(f - f->mapping->engine->pool.folios) + 1;
}

int mapping_insert(struct mapping *m, struct folio *f, pgoff_t index)
{
	pgoff_t base = index >> NODE_SHIFT;
	struct node *n;

	/* Somebody with an old look-up may hold it for a moment. */
	folio_lock(m->engine, f);
	n = node_find(m, index);
	if (!n || !node_lock_if(n, m, base))
		n = node_lock_create(m, base);
	if (!n) {
		folio_unlock(m->engine, f);
		return -ENOMEM;
	}
	f->index = index;
	if (n->present & folio_mask(f)) {
		mutex_unlock(&n->lock);
		folio_unlock(m->engine, f);
		return -EEXIST;
	}
	paranoid_enter();
	f->mapping = m;
	if (unlikely(!n->present))
		ghost_del(&m->engine->nodes, n);
	n->present |= folio_mask(f);
	n->sent &= ~folio_mask(f);
	set_slots(n, f, folio_id(f));
	trace_probe3(folio_added, m, index, f->order);
	mutex_unlock(&n->lock);
	paranoid_leave();
	return 0;
}

bool mapping_absent(struct mapping *m, pgoff_t index, unsigned order)
{
	pgoff_t first = ALIGN_DOWN(index, 1u << order) % NODE_PAGES;
	struct node *n = node_find(m, index);

	if (!n)
		return true;
	for (unsigned i = 0; i < 1u << order; i++)
		if (atomic_load_explicit(&n->slot[first + i],
					 memory_order_relaxed))
			return false;
	return true;
}

void folio_remove_locked(struct node *n, struct folio *f)
{
	assert_held(&n->lock);
	assert(!(f->flags & (FOLIO_ACCOUNTED | FOLIO_CHARGED | FOLIO_ON_LIST)));
	paranoid_enter();
	n->present &= ~folio_mask(f);
	set_slots(n, f, 0);
	trace_probe3(folio_dropped, f->mapping, f->index, f->order);
	f->mapping = NULL;
	paranoid_leave();
}

void folio_remove(struct folio *f)
{
	struct mapping *m = f->mapping;
	pgoff_t index = f->index;
	struct node *n = folio_node_lock(f);
	bool empty;

	folio_remove_locked(n, f);
	empty = !n->present;
	mutex_unlock(&n->lock);
	if (empty)
		node_put_empty(m, index);
}

struct folio *folio_split(struct folio *f, pgoff_t index, unsigned order)
{
	struct dbh_engine *e = f->mapping->engine;

	while (f->order > order) {
		unsigned half = f->order - 1u;
		struct folio *g = f + (1u << half);
		struct node *n;

		folio_lock(e, g);
		n = folio_node_lock(f);
		paranoid_enter();
		g->flags = f->flags & ~(uint32_t)FOLIO_ON_LIST;
		g->index = f->index + (1u << half);
		g->order = (uint8_t)half;
		g->stamp = f->stamp;
		g->read_bytes = 0;
		g->mapping = f->mapping;
		f->order = (uint8_t)half;
		f->read_bytes = 0;
		set_slots(n, g, folio_id(g));
		mutex_unlock(&n->lock);
		paranoid_leave();
		if (f->flags & FOLIO_ON_LIST)
			lru_move(e, g, f->flags & FOLIO_ON_LIST);
		if (index >= g->index) {
			folio_unlock(e, f);
			f = g;
		} else {
			folio_unlock(e, g);
		}
	}
	return f;
}

/* ---- mappings -------------------------------------------------------- */

void i_size_grow(struct mapping *m, uint64_t end)
{
	uint64_t size = atomic_load_explicit(&m->i_size, memory_order_relaxed);

	/* release: pairs with i_size_read() */
	while (size < end &&
	       !atomic_compare_exchange_weak_explicit(&m->i_size, &size, end,
						      memory_order_release,
						      memory_order_relaxed))
		;
}

void disk_bound_raise(struct mapping *m, uint64_t end)
{
	assert_held(&m->size_lock);
	if (atomic_load(&m->disk_bound) < end)
		atomic_store(&m->disk_bound, end);
}

static struct mapping *mapping_new(struct dbh_engine *e)
{
	struct mapping *m = aligned_alloc(CACHELINE, sizeof(*m));

	if (!m)
		return NULL;
	memset(m, 0, sizeof(*m));
	m->engine = e;
	list_init(&m->link);
	list_init(&m->dirty_link);
	list_init(&m->owner.link);
	list_init(&m->owner.job);
	iolock_init(&m->io_lock);
	mutex_init(&m->size_lock, RANK_SIZE);
	mutex_init(&m->mtime_lock, RANK_LEAF);
	mutex_init(&m->tree_lock, RANK_TREE);
	mutex_init(&m->sync.lock, RANK_SYNC);
	list_init(&m->sync.waiting);
	atomic_init(&m->sync.turns, 0);
	RB_INIT(&m->nodes);
	return m;
}

struct mapping *mapping_create(struct dbh_engine *e, struct store *store)
{
	struct mapping *m;

	assert_held(&e->lock);
	if (list_empty(&e->free_mappings)) {
		m = mapping_new(e);
		if (!m)
			return NULL;
	} else {
		m = list_first_entry(&e->free_mappings, struct mapping, link);
		list_del(&m->link);
	}
	/* Locks and tree are as they were: see the end of the comment at
	 * struct mapping. */
	mutex_lock(&m->tree_lock);
	assert(RB_EMPTY(&m->nodes));
	m->id = ++e->next_id;
	mutex_unlock(&m->tree_lock);
	m->store = store;
	m->min_order = 0;
	while (min_folio_bytes(m) < store->min_folio_bytes)
		m->min_order++;
	m->refs = 0;
	m->closing = 0;
	atomic_store(&m->i_size, 0);
	atomic_store(&m->disk_size, 0);
	atomic_store(&m->disk_bound, 0);
	atomic_store(&m->wb_err, 0);
	atomic_store(&m->flush_failed, false);
	atomic_store(&m->mtime_pending, false);
	atomic_store(&m->open_hint, UINT64_MAX);
	atomic_store(&m->owner.state, OWNER_OWNED);
	atomic_store(&m->owner.busy, 0);
	m->mtime = (struct timespec){ 0 };
	atomic_store(&m->backoff_ms, 0);
	return m;
}

void mapping_destroy(struct mapping *m)
{
	struct dbh_engine *e = m->engine;
	uint32_t left;

	assert_held(&e->lock);
	/* acquire: pairs with mapping_io_put() */
	while ((left = atomic_load_explicit(&m->io, memory_order_acquire)))
		futex_wait(&m->io, left, UINT64_MAX);
	store_destroy(m->store);
	m->store = NULL;
	list_add(&m->link, &e->free_mappings);
}

void mapping_io_put(struct mapping *m)
{
	if (atomic_fetch_sub_explicit(&m->io, 1, memory_order_release) == 1)
		futex_wake(&m->io, 1);
}
