/* SPDX-License-Identifier: MIT */
/*
 * power: a disk that loses power again and again while it is written to.
 *
 * The power is cut at events: before and after whatever changes the store, in
 * the thread that does it, and between the calls of the writers. What a disk
 * would hold then is looked at beside the history; the disk goes on unharmed.
 */
#ifndef DBH_TESTS_POWER_H
#define DBH_TESTS_POWER_H

#include <pthread.h>

#include "support/rig.h"
#include "support/writers.h"

/** struct power - one disk, all of it from its seed; printed by power_print() */
struct power {
	uint64_t seed;
	unsigned min_folio;
	unsigned memory; /* bytes */
	unsigned expire_ms;
	unsigned delay_us;
	size_t record; /* bytes */
	unsigned threads;
	bool share; /* one handle */
	uint64_t existing; /* bytes at first */
	bool errors; /* the store fails now and then */
	unsigned long cuts; /* until it is over */
};

/** struct disk - one under test
 * @checking: one cut at a time; its buffers
 * @events, @cuts: so far
 * @verdict, @why: of the first bad cut; then all is over
 */
struct disk {
	struct power p;
	struct rig rig;
	struct history *h;
	struct writers ws;
	pthread_mutex_t checking;
	char *content; /* HISTORY_BYTES */
	_Atomic uint64_t events;
	_Atomic unsigned long cuts;
	_Atomic enum verdict verdict;
	char why[300];
};

void power_choose(struct power *p, uint64_t seed);
void power_print(const struct power *p);
/** @lie: changes the operations of the store that the engine sees, or NULL. */
struct disk *disk_create(const struct power *p, void (*lie)(struct spy *spy));
/** Everything must be there in the end. */
void disk_destroy(struct disk *d);
/** Until the power was cut so often, or something is wrong. */
void disk_run(struct disk *d);

#endif
