/* SPDX-License-Identifier: MIT */
/*
 * history: what was done to a file, and what of it may be found after a crash.
 *
 * The file is cut into records. What happens to a record is a list of events:
 * a part of it was written, punched, or cut off by a truncate. How many of them were
 * begun, how many had returned, and how many a sync has made durable is known.
 * After a crash any byte is as one of the events left it, from the last that
 * is durable on to the last that was begun, each byte by itself.
 *
 * A record has one writer at a time; truncates keep all writers out. Syncs and
 * checks run beside them. The structure holds no pointer: it can live in
 * memory shared with the process that is killed. It starts as zeros.
 */
#ifndef DBH_TESTS_HISTORY_H
#define DBH_TESTS_HISTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_BYTES (1u << 20) /* of the file at most */
#define HISTORY_RECORDS 160u
#define HISTORY_EVENTS 1024u /* of a record, between two rebases */
#define HISTORY_TRUNCATES 512u

/** Bytes [@from, @to) of a record became those of @gen; 0: zeros. */
struct happening {
	unsigned gen;
	uint32_t from, to;
};

/**
 * struct record
 * @begun: events that may be found. Release, by its writer; pairs with acquire
 *	in the check
 * @done: events whose call has returned
 * @synced: events that a sync has made durable
 * @event: the n-th is event[n - 1]
 */
struct record {
	_Atomic unsigned begun, done, synced;
	struct happening event[HISTORY_EVENTS];
};

/**
 * struct history
 * @bytes, @nr: size and number of the records
 * @gen: the last generation given out
 * @end: where the file ends, or could end when what was begun is done
 * @done_end: where it ends for sure
 * @truncates: that shrink it: two for each, odd while one is under way
 * @truncate: the end before and after each
 * @synced_size: truncates / 2 (16 bits) and the size that is durable
 * @base: the content before all events; beyond the file zeros
 */
struct history {
	size_t bytes;
	unsigned nr;
	_Atomic unsigned gen;
	_Atomic uint64_t end, done_end;
	_Atomic unsigned truncates;
	struct {
		uint64_t from, to;
	} truncate[HISTORY_TRUNCATES];
	_Atomic uint64_t synced_size;
	struct record rec[HISTORY_RECORDS];
	char base[HISTORY_BYTES];
};

/** Cut into records of @bytes; the file is empty. */
void history_init(struct history *h, size_t bytes);
/** All that was is forgotten: the file now is @size bytes at @content, and
 * durable. Nobody else uses @h. */
void history_rebase(struct history *h, const char *content, uint64_t size);

/* ---- what is done ---------------------------------------------------- */

/** Is there room for another event of record @i? */
bool history_room(const struct history *h, unsigned i);
/** Bytes [@from, @to) of record @i are about to be written. Return: the
 * generation, whose pattern they must be */
unsigned history_write(struct history *h, unsigned i, size_t from, size_t to);
/** That write has succeeded. (Where it fails, all or a part of it may be
 * there: write the record whole before going on.) */
void history_written(struct history *h, unsigned i);
/** The same, for bytes that become zero; the file does not grow. */
void history_punch(struct history *h, unsigned i, size_t from, size_t to);
void history_punched(struct history *h, unsigned i);
/** The file is about to end at @size; no write is under way. False: no room
 * for that, so don't. */
bool history_truncate(struct history *h, uint64_t size);
void history_truncated(struct history *h, uint64_t size);

/** struct history_sync - what a sync that begins now will have covered */
struct history_sync {
	unsigned truncates;
	uint64_t size;
	unsigned done[HISTORY_RECORDS];
};

void history_sync_begin(struct history *h, struct history_sync *s);
/** It has succeeded, for the whole file... */
void history_synced(struct history *h, const struct history_sync *s);
/** ...or for record @i alone, which may leave the size behind it open. */
void history_synced_record(struct history *h, const struct history_sync *s,
			   unsigned i);
/** The last write to record @i, by its writer, was a stable one. */
void history_synced_write(struct history *h, unsigned i);

/* ---- what may be found ----------------------------------------------- */

/** struct durable - what is durable for sure at some moment */
struct durable {
	uint64_t size;
	unsigned synced[HISTORY_RECORDS];
};

/** To be taken before the crash. */
void history_durable(const struct history *h, struct durable *d);

/** How a file is wrong. */
enum verdict {
	VERDICT_GOOD,
	VERDICT_LOST, /* a byte is older than it was synced */
	VERDICT_INVENTED, /* a byte was never written there */
	VERDICT_SHORT, /* the file is shorter than it was synced */
	VERDICT_LONG, /* the file is longer than it ever was since (R16) */
};

/** The content @size bytes at @content was found. @why, of @n bytes, says what
 * is wrong. */
enum verdict history_check(const struct history *h, const struct durable *d,
			   const char *content, uint64_t size, char *why,
			   size_t n);

/** How many truncates have ended: to be taken before looking at the size of a
 * file in use... */
unsigned history_truncates(const struct history *h);
/** ...which then is no larger than this (R16). */
uint64_t history_limit(const struct history *h, unsigned truncates);

#endif
