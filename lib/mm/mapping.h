/* SPDX-License-Identifier: MIT */
/*
 * mapping: the folios of one inode, as struct address_space in the kernel.
 *
 * Its folios hang in nodes, each for 64 pages of the file, so that a tag is
 * one word. A node is found through a hash table of the engine, without any
 * lock: nodes are type-stable, and a folio that was found is checked under its
 * lock. A miss is settled under the tree lock.
 */
#ifndef DBH_MM_MAPPING_H
#define DBH_MM_MAPPING_H

#include <bsd/sys/tree.h>
#include <sys/types.h>
#include <time.h>

#include "base/errseq.h"
#include "base/iolock.h"
#include "block/block.h"
#include "mm/folio.h"

#define NODE_SHIFT 6u
#define NODE_PAGES (1u << NODE_SHIFT)

struct wb;

/* What the flusher has to do with a node; under wb->list_lock, read without. */
enum node_wb {
	NODE_IDLE, /* on no list */
	NODE_PARTIAL, /* on wb->partial: some of it may be written */
	NODE_READY, /* on wb->ready: all of it may be written */
};

/**
 * struct node - 64 pages of a mapping
 * @lock: of what follows unless it says otherwise
 * @mapping, @base: whose, and of which pages (index >> NODE_SHIFT); NULL while
 *	free. Written under tree_lock and @lock; read without.
 * @hash_next: id of the next node in the hash chain
 * @tree: in mapping->nodes; under tree_lock. While free: on nodes.free.
 * @present, @dirty, @writeback, @dropbehind, @edge: tags, a bit a page; they
 *	say of each folio what its flags say
 * @sent: pages that went to disk to be dropped, since the node was made, and did
 *	not come back: nothing more is to come for them
 * @ghost: in node_table.ghosts: no page is present, but some were sent and
 *	others are still to come
 * @open: it has an incomplete edge, or may be written in part: there is more
 *	to come before it makes a good bio
 * @wb_state, @wb_link, @wb_since: see enum node_wb
 * @slot: id + 1 of the folio that holds the page; written under @lock, read
 *	without
 */
struct node {
	struct mutex lock;
	_Atomic uint32_t hash_next;
	_Atomic(struct mapping *) mapping;
	_Atomic pgoff_t base;
	RB_ENTRY(node) tree;
	uint64_t present, dirty, writeback, dropbehind, edge, sent;
	struct list_head ghost;
	bool open;
	struct list_head wb_link;
	_Atomic uint32_t wb_state;
	uint32_t wb_since;
	_Atomic uint32_t slot[NODE_PAGES];
};

RB_HEAD(node_tree, node);

/** struct node_table - all nodes of an engine, and the hash that finds them */
struct node_table {
	struct node *nodes;
	uint32_t nr_nodes;
	uint32_t hash_mask;
	_Atomic uint32_t *hash; /* id + 1 of the first of a chain */
	struct mutex hash_lock; /* of all chains, for writing */
	struct mutex free_lock;
	uint32_t free; /* id + 1, linked through hash_next */
	uint32_t nr_free;
	struct mutex ghost_lock; /* of what follows, and node->ghost */
	struct list_head ghosts; /* oldest first */
	uint32_t nr_ghosts, max_ghosts;
};

int node_table_init(struct node_table *t, uint32_t nr_nodes,
		    uint32_t max_ghosts);
void node_table_fini(struct node_table *t);

struct sync_waiter;

/**
 * struct sync_group - those who sync a mapping together; see rw/group_commit.c
 * @lock: of all
 * @waiting, @nr: who waits for the next round
 * @leader: somebody leads, or has been woken to
 * @expected: so many will come if the last round's come back at once
 * @gatherer: the leader while it waits for them
 * @turns: on which all sleep; changes with every wake; atomic
 * @round: rounds that were taken; @dealt: bits of futexes. See there.
 * @skip: rounds that do not wait, since waiting was in vain
 * @holding: rounds, one after the other, in which somebody was held back;
 *	@hold_skip: rounds in which nobody is. The leader's.
 */
struct sync_group {
	struct mutex lock;
	struct list_head waiting;
	unsigned nr;
	bool leader;
	unsigned expected;
	struct sync_waiter *gatherer;
	_Atomic uint32_t turns;
	uint32_t round, dealt;
	unsigned skip, in_vain;
	unsigned holding, hold_skip;
	uint64_t round_ns;
};

/** What other programs can do with a file meanwhile; the moves are in
 * rw/owner.c. As enum dbh_lease. */
enum owner_state {
	OWNER_OWNED, /* nobody else has it open: we would be told first */
	OWNER_BREAKING, /* another program's open waits until we have let go */
	OWNER_SHARED, /* others have it open: nothing is kept */
	OWNER_UNSUPPORTED, /* no lease: others may come, and we are not told */
	NR_OWNER_STATES,
};

/**
 * struct owner - how a mapping stands towards other programs; see rw/owner.c
 * @state: enum owner_state. To SHARED and from it under the exclusive io_lock;
 *	atomic, read without.
 * @link: in owners->all, if there can be others; under owners->lock, as
 *	what follows
 * @job: in owners->jobs; @busy: it has a job, or somebody holds it off
 * @since_ms, @retry_ms, @backoff_ms: since when it is as it is; SHARED: when
 *	the lease is tried for again, and how long after that
 */
struct owner {
	_Atomic uint32_t state;
	struct list_head link;
	struct list_head job;
	_Atomic uint32_t busy;
	uint32_t since_ms, retry_ms, backoff_ms;
};

/**
 * struct mapping - the folios of one inode
 *
 * @engine, @store, @wb, @id, @min_order: set before publish
 * @refs: open handles; under engine->lock
 * @closing: handles being closed; under engine->lock
 * @link: in engine->mappings; under engine->lock
 * @io_lock: shared by every read and write, exclusive for truncate and append
 * @i_size: the logical size. Grows by i_size_grow() under a folio lock;
 *	shrinks under the exclusive io_lock.
 * @disk_size: the on-disk end. Changed under @size_lock; read without.
 * @disk_bound: the on-disk end is not beyond this: raised before anything starts
 *	that may move it, so that who finds missing bytes behind this knows
 *	that they are zero
 * @hide_seq: odd while a truncate or fallocate hides what it is about to
 *	change from writeback, until the store knows (R24): a truncate by
 *	@i_size, which it has lowered, others by @hide_first and @hide_end,
 *	pages of which nothing starts to the disk. Atomic; written under the
 *	exclusive io_lock
 * @size_lock: held across what moves the on-disk end; sleeps
 * @tree_lock: of @nodes
 * @nr_dirty: pages DIRTY or WRITEBACK; atomic
 * @dirty_link, @dirtied_ms: in wb->b_dirty while @nr_dirty > 0; wb->list_lock
 * @wb_err: errors of writeback (R15)
 * @wb_fails: writes that failed; changed under node->lock, with the tags, so
 *	that who sees the count sees the folio dirty again, and who does not
 *	found it under writeback
 * @flush_failed: a flush failed: every sync says EIO until the last close
 * @nr_failed: pages of which the last writeback failed; atomic. While there
 *	are any the mapping is failing.
 * @retry_ms, @backoff_ms: when a failing mapping is tried again
 * @sync: group commit (R14)
 * @mtime_pending: data was written since @mtime was set; @mtime: what fstat said
 *	last, under @mtime_lock
 * @kicking: a writer is just starting writeback (R11); atomic
 * @open_hint: no node before it (base) is open
 * @owner: other programs (R22)
 * @io: requests in flight, which use the store
 *
 * Its memory is type-stable: who takes a last folio out may look at the tree
 * after the mapping was closed, and then finds nothing, or the tree of another.
 */
struct mapping {
	struct dbh_engine *engine;
	struct store *store;
	struct wb *wb;
	uint32_t id;
	unsigned min_order;
	unsigned refs;
	unsigned closing;
	struct list_head link; /* while free: in engine->free_mappings */
	struct iolock io_lock;
	_Atomic uint64_t i_size cacheline_aligned;
	_Atomic uint64_t disk_size;
	_Atomic uint64_t disk_bound;
	_Atomic uint32_t hide_seq;
	_Atomic pgoff_t hide_first, hide_end;
	struct mutex size_lock;
	struct mutex tree_lock;
	struct node_tree nodes;
	_Atomic long nr_dirty;
	struct list_head dirty_link;
	uint32_t dirtied_ms;
	errseq_t wb_err;
	_Atomic uint32_t wb_fails;
	_Atomic bool flush_failed;
	_Atomic long nr_failed;
	_Atomic uint32_t retry_ms;
	_Atomic uint32_t backoff_ms;
	struct sync_group sync;
	_Atomic bool mtime_pending;
	struct mutex mtime_lock;
	struct timespec mtime;
	_Atomic bool kicking;
	_Atomic pgoff_t open_hint;
	struct owner owner;
	_Atomic uint32_t io;
};

struct mapping *mapping_create(struct dbh_engine *e, struct store *store);
/** It has no folios left. Waits for its requests; destroys the store. */
void mapping_destroy(struct mapping *m);

static inline enum owner_state mapping_owner(const struct mapping *m)
{
	/* acquire: pairs with set_state() in rw/owner.c */
	return atomic_load_explicit(&m->owner.state, memory_order_acquire);
}

/** Others have it open. Does not change under the io_lock. */
static inline bool mapping_shared(const struct mapping *m)
{
	return unlikely(mapping_owner(m) == OWNER_SHARED);
}

static inline void mapping_io_get(struct mapping *m)
{
	atomic_fetch_add_explicit(&m->io, 1, memory_order_relaxed);
}
void mapping_io_put(struct mapping *m);

/** Something of it could not be written (R15). */
static inline bool mapping_failing(const struct mapping *m)
{
	return atomic_load_explicit(&m->nr_failed, memory_order_relaxed) != 0;
}

static inline size_t min_folio_bytes(const struct mapping *m)
{
	return (size_t)PAGE_BYTES << m->min_order;
}

/** Pages that hold bytes [@first_byte, @last_byte], in whole minimum folios:
 * what is written is never less. */
static inline pgoff_t first_page(const struct mapping *m, uint64_t first_byte)
{
	return ALIGN_DOWN(first_byte, min_folio_bytes(m)) >> PAGE_SHIFT;
}

static inline pgoff_t last_page(const struct mapping *m, uint64_t last_byte)
{
	return (last_byte | (min_folio_bytes(m) - 1)) >> PAGE_SHIFT;
}

/** A part of a locked folio is just being changed in the store: it must not
 * start to the disk. */
static inline bool mapping_hides(const struct mapping *m, const struct folio *f)
{
	/* Relaxed: who hides looks at the tags afterwards, under node->lock,
	 * which a collector holds from here until it has changed them. */
	return unlikely(f->index < atomic_load_explicit(&m->hide_end,
							memory_order_relaxed)) &&
	       f->index + folio_pages(f) >
		       atomic_load_explicit(&m->hide_first,
					    memory_order_relaxed);
}

static inline uint64_t i_size_read(struct mapping *m)
{
	/* acquire: pairs with i_size_grow(); who sees the size sees the data */
	return atomic_load_explicit(&m->i_size, memory_order_acquire);
}

/** Raise i_size to @end. Called before the folio that holds the data is
 * unlocked, so that no reader finds data past the end. */
void i_size_grow(struct mapping *m, uint64_t end);

/** Whatever starts now may move the on-disk end to @end; under size_lock. */
void disk_bound_raise(struct mapping *m, uint64_t end);

/* ---- look-up --------------------------------------------------------- */

/** The folio that holds page @index, unlocked, or NULL. It may be gone by now:
 * lock it, then ask folio_is(). */
struct folio *mapping_lookup(struct mapping *m, pgoff_t index);

/**
 * mapping_insert - put a new folio into the mapping; it comes back locked
 * @f: free, of no mapping
 * @index: multiple of its pages
 * Return: 0; -EEXIST if some page of it is there; -ENOMEM without a node
 */
int mapping_insert(struct mapping *m, struct folio *f, pgoff_t index);

/** Pages of the naturally aligned block of @order around @index are absent? A
 * hint: mapping_insert() decides. */
bool mapping_absent(struct mapping *m, pgoff_t index, unsigned order);

/**
 * folio_remove - take a locked, clean folio out of its mapping
 *
 * The caller unlocks it and gives it to the pool, in this order. Does not free
 * the node; node_put_empty() does.
 */
void folio_remove_locked(struct node *n, struct folio *f);
/** The same for one who does not hold the node. */
void folio_remove(struct folio *f);

/** Split @f, locked, not under writeback, so that page @index comes to lie in
 * a folio of @order; the parts keep its flags. Return: that folio, locked; the
 * others are unlocked. */
struct folio *folio_split(struct folio *f, pgoff_t index, unsigned order);

/** Make a minimum folio of what is at page @index, where it is part of a larger
 * one that is not under writeback. */
void mapping_split_at(struct mapping *m, pgoff_t index);

/* ---- dirty.c --------------------------------------------------------- */

/** The first page at or after @index whose bytes are not all in the store: DIRTY
 * or WRITEBACK; UINT64_MAX if there is none. */
pgoff_t mapping_next_dirty(struct mapping *m, pgoff_t index);
/** The first one that is neither, cached or not. */
pgoff_t mapping_next_clean(struct mapping *m, pgoff_t index);

/* ---- nodes ----------------------------------------------------------- */

/** The node of page @index, unlocked, or NULL: check it under its lock. */
struct node *node_find(struct mapping *m, pgoff_t index);
/** The same, locked, and certainly of @m; NULL if there is none. */
struct node *node_lock_find(struct mapping *m, pgoff_t index);
/** The node of a locked folio; its lock is taken. */
struct node *folio_node_lock(const struct folio *f);
/** The first node at or after page @index that has any of its pages. Return:
 * its first page, or UINT64_MAX. */
pgoff_t node_next(struct mapping *m, pgoff_t index);
/** The first page of the mapping's first open node; @none if there is none. */
pgoff_t mapping_first_open(struct mapping *m, pgoff_t none);
/** A node at @base was opened. */
void mapping_open_hint(struct mapping *m, pgoff_t base);
/** The node of page @index has become empty: free it, or keep it as a ghost. */
void node_put_empty(struct mapping *m, pgoff_t index);
/** Free all empty nodes. */
void mapping_free_ghosts(struct mapping *m);

/** The bits of @f in a tag. */
static inline uint64_t folio_mask(const struct folio *f)
{
	return (~0ull >> (NODE_PAGES - folio_pages(f)))
	       << (f->index % NODE_PAGES);
}

/** What of the node may be written as it is: dirty and dropbehind. */
static inline uint64_t node_writable(const struct node *n)
{
	return n->dirty & n->dropbehind;
}

/** Something may be written, and nothing more is to come before it is. */
static inline bool node_is_ready(const struct node *n)
{
	return node_writable(n) && !n->edge && !~(node_writable(n) | n->sent);
}

/** See struct node. */
static inline bool node_is_open(const struct node *n)
{
	return n->edge || (node_writable(n) && !node_is_ready(n));
}

#endif
