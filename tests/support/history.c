// SPDX-License-Identifier: MIT
/*
 * history: see history.h.
 */
#include "support/history.h"

#include <string.h>

#include "support/check.h"
#include "support/pattern.h"

#define SIZE_BITS 48
#define SIZE_MASK ((1ull << SIZE_BITS) - 1)

static void raise_to(_Atomic uint64_t *at, uint64_t value)
{
	uint64_t old = atomic_load(at);

	while (old < value && !atomic_compare_exchange_weak(at, &old, value))
		;
}

static void raise_count(_Atomic unsigned *at, unsigned value)
{
	unsigned old = atomic_load(at);

	while (old < value && !atomic_compare_exchange_weak(at, &old, value))
		;
}

void history_init(struct history *h, size_t bytes)
{
	h->bytes = bytes;
	h->nr = (unsigned)(HISTORY_BYTES / bytes);
	if (h->nr > HISTORY_RECORDS)
		h->nr = HISTORY_RECORDS;
}

void history_rebase(struct history *h, const char *content, uint64_t size)
{
	CHECK(size <= sizeof(h->base), "too large");
	memcpy(h->base, content, size);
	memset(h->base + size, 0, sizeof(h->base) - size);
	for (unsigned i = 0; i < h->nr; i++) {
		atomic_store(&h->rec[i].synced, 0);
		atomic_store(&h->rec[i].done, 0);
		atomic_store(&h->rec[i].begun, 0);
	}
	atomic_store(&h->truncates, 0);
	atomic_store(&h->end, size);
	atomic_store(&h->done_end, size);
	atomic_store(&h->synced_size, size);
}

/* ---- what is done ---------------------------------------------------- */

bool history_room(const struct history *h, unsigned i)
{
	/* A write that fails is followed by one that does not. */
	return atomic_load(&h->rec[i].begun) + 2 <= HISTORY_EVENTS;
}

static void add_event(struct record *rec, unsigned gen, size_t from, size_t to)
{
	unsigned nr = atomic_load(&rec->begun);

	CHECK(nr < HISTORY_EVENTS, "no room");
	rec->event[nr] =
		(struct happening){ gen, (uint32_t)from, (uint32_t)to };
	atomic_store(&rec->begun, nr + 1);
}

unsigned history_write(struct history *h, unsigned i, size_t from, size_t to)
{
	unsigned gen = atomic_fetch_add(&h->gen, 1) + 1;

	add_event(&h->rec[i], gen, from, to);
	raise_to(&h->end, i * (uint64_t)h->bytes + to);
	return gen;
}

void history_written(struct history *h, unsigned i)
{
	struct record *rec = &h->rec[i];
	unsigned nr = atomic_load(&rec->begun);
	const struct happening *ev = &rec->event[nr - 1];

	raise_to(&h->done_end, i * (uint64_t)h->bytes + ev->to);
	atomic_store(&rec->done, nr);
}

void history_punch(struct history *h, unsigned i, size_t from, size_t to)
{
	add_event(&h->rec[i], 0, from, to);
}

void history_punched(struct history *h, unsigned i)
{
	struct record *rec = &h->rec[i];

	atomic_store(&rec->done, atomic_load(&rec->begun));
}

static bool room_to_cut(const struct history *h, uint64_t size)
{
	if (atomic_load(&h->truncates) / 2 == HISTORY_TRUNCATES)
		return false;
	for (unsigned i = (unsigned)(size / h->bytes); i < h->nr; i++)
		if (!history_room(h, i))
			return false;
	return true;
}

bool history_truncate(struct history *h, uint64_t size)
{
	unsigned nr = atomic_load(&h->truncates) / 2;
	uint64_t end = atomic_load(&h->end);

	if (size >= end) {
		raise_to(&h->end, size);
		return true;
	}
	if (!room_to_cut(h, size))
		return false;
	h->truncate[nr].from = end;
	h->truncate[nr].to = size;
	atomic_store(&h->truncates, 2 * nr + 1);
	for (unsigned i = (unsigned)(size / h->bytes); i < h->nr; i++) {
		uint64_t pos = i * (uint64_t)h->bytes;

		add_event(&h->rec[i], 0, size > pos ? size - pos : 0, h->bytes);
	}
	return true;
}

void history_truncated(struct history *h, uint64_t size)
{
	unsigned nr = atomic_load(&h->truncates);

	if (nr % 2) {
		for (unsigned i = (unsigned)(size / h->bytes); i < h->nr; i++)
			atomic_store(&h->rec[i].done,
				     atomic_load(&h->rec[i].begun));
		atomic_store(&h->end, size);
		atomic_store(&h->done_end, size);
		atomic_store(&h->truncates, nr + 1);
	}
	raise_to(&h->done_end, size);
}

void history_sync_begin(struct history *h, struct history_sync *s)
{
	s->truncates = atomic_load(&h->truncates);
	s->size = atomic_load(&h->done_end);
	for (unsigned i = 0; i < h->nr; i++)
		s->done[i] = atomic_load(&h->rec[i].done);
}

void history_synced_record(struct history *h, const struct history_sync *s,
			   unsigned i)
{
	raise_count(&h->rec[i].synced, s->done[i]);
}

void history_synced_write(struct history *h, unsigned i)
{
	struct record *rec = &h->rec[i];
	unsigned nr = atomic_load(&rec->done);
	const struct happening *last = &rec->event[nr - 1];

	/* A part says nothing of what was written to the rest before. */
	if ((!last->from && last->to == h->bytes) ||
	    atomic_load(&rec->synced) + 1 == nr)
		raise_count(&rec->synced, nr);
}

void history_synced(struct history *h, const struct history_sync *s)
{
	for (unsigned i = 0; i < h->nr; i++)
		history_synced_record(h, s, i);
	/* A truncate meanwhile: who knows which came first. */
	if (s->truncates % 2 || s->truncates != atomic_load(&h->truncates))
		return;
	/* More truncates count for more, then the size, which only grows. */
	raise_to(&h->synced_size,
		 (uint64_t)s->truncates / 2 << SIZE_BITS | s->size);
}

/* ---- what may be found ----------------------------------------------- */

void history_durable(const struct history *h, struct durable *d)
{
	d->size = atomic_load(&h->synced_size);
	for (unsigned i = 0; i < h->nr; i++)
		d->synced[i] = atomic_load(&h->rec[i].synced);
}

/* Did event @ev, 0: the base, change any of [@b, @b + @n)? */
static bool event_touches(const struct record *rec, unsigned ev, size_t b,
			  size_t n)
{
	return !ev ||
	       (b < rec->event[ev - 1].to && b + n > rec->event[ev - 1].from);
}

/* What it made of them, if of all. @n: 1, or 8 of an aligned word. */
static bool event_says(const struct history *h, unsigned i, unsigned ev,
		       size_t b, size_t n, char *out)
{
	uint64_t pos = i * (uint64_t)h->bytes + b, word;
	const struct happening *e;

	if (!ev) {
		memcpy(out, h->base + pos, n);
		return true;
	}
	e = &h->rec[i].event[ev - 1];
	if (b < e->from || b + n > e->to)
		return false;
	word = e->gen ? pattern_word(pos / 8, e->gen) : 0;
	memcpy(out, (char *)&word + pos % 8, n);
	return true;
}

/* Is it as some event from @begun back to the one that decided at @first? */
static bool may_be(const struct history *h, unsigned i, unsigned first,
		   unsigned begun, size_t b, size_t n, const char *found)
{
	char was[8];

	for (unsigned ev = begun + 1; ev--;) {
		if (!event_touches(&h->rec[i], ev, b, n))
			continue;
		if (event_says(h, i, ev, b, n, was) && !memcmp(was, found, n))
			return true;
		if (ev <= first)
			return false;
	}
	return false;
}

struct found {
	const char *content;
	uint64_t size;
	char *why;
	size_t n;
};

static enum verdict blame(const struct history *h, const struct durable *d,
			  const struct found *f, unsigned i, size_t b,
			  const char *byte)
{
	unsigned begun = atomic_load(&h->rec[i].begun);
	bool lost = may_be(h, i, 0, begun, b, 1, byte);

	snprintf(f->why, f->n,
		 "byte %llu (%zu of record %u) is %02x, which %s: events: "
		 "%u synced, %u begun; size %llu",
		 (unsigned long long)(i * (uint64_t)h->bytes + b), b, i,
		 (unsigned char)*byte,
		 lost ? "is older than what was synced" :
			"was never written there",
		 d->synced[i], begun, (unsigned long long)f->size);
	return lost ? VERDICT_LOST : VERDICT_INVENTED;
}

static enum verdict check_record(const struct history *h,
				 const struct durable *d, const struct found *f,
				 unsigned i)
{
	unsigned begun = atomic_load(&h->rec[i].begun);
	uint64_t pos = i * (uint64_t)h->bytes;
	char zeros[8] = { 0 };
	size_t b = 0;

	while (b < h->bytes) {
		bool word = (pos + b) % 8 == 0 && b + 8 <= h->bytes &&
			    pos + b + 8 <= f->size;
		const char *at = pos + b < f->size ? f->content + pos + b :
						     zeros;

		if (word && may_be(h, i, d->synced[i], begun, b, 8, at)) {
			b += 8;
			continue;
		}
		if (!may_be(h, i, d->synced[i], begun, b, 1, at))
			return blame(h, d, f, i, b, at);
		b++;
	}
	return VERDICT_GOOD;
}

unsigned history_truncates(const struct history *h)
{
	return atomic_load(&h->truncates) / 2;
}

uint64_t history_limit(const struct history *h, unsigned truncates)
{
	uint64_t limit;
	unsigned nr;

	/* The end first: it sinks after its truncate was noted. */
	limit = atomic_load(&h->end);
	nr = (atomic_load(&h->truncates) + 1) / 2;
	for (unsigned i = truncates; i < nr; i++)
		if (h->truncate[i].from > limit)
			limit = h->truncate[i].from;
	return limit;
}

/* The least that the file may have come to since @truncates. */
static uint64_t least(const struct history *h, unsigned truncates,
		      uint64_t size)
{
	unsigned nr = (atomic_load(&h->truncates) + 1) / 2;

	for (unsigned i = truncates; i < nr; i++)
		if (h->truncate[i].to < size)
			size = h->truncate[i].to;
	return size;
}

static enum verdict check_size(const struct history *h, const struct durable *d,
			       const struct found *f)
{
	unsigned truncates = (unsigned)(d->size >> SIZE_BITS);
	uint64_t min = least(h, truncates, d->size & SIZE_MASK);
	uint64_t max = history_limit(h, truncates);

	if (f->size >= min && f->size <= max)
		return VERDICT_GOOD;
	snprintf(f->why, f->n,
		 "the file is %llu bytes long; at least %llu were synced, and "
		 "it never had more than %llu",
		 (unsigned long long)f->size, (unsigned long long)min,
		 (unsigned long long)max);
	return f->size < min ? VERDICT_SHORT : VERDICT_LONG;
}

enum verdict history_check(const struct history *h, const struct durable *d,
			   const char *content, uint64_t size, char *why,
			   size_t n)
{
	struct found f = { content, size, why, n };
	enum verdict v = check_size(h, d, &f);

	for (unsigned i = 0; i < h->nr && v == VERDICT_GOOD; i++)
		v = check_record(h, d, &f, i);
	return v;
}
