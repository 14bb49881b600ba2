// SPDX-License-Identifier: MIT
/*
 * lock: the io_lock for calls that sleep in their own thread. Whoever has it may
 * rely on the size, which others may have changed where they have the file open.
 */
#include "rw/owner.h"
#include "rw/rw.h"

static void read_size(struct mapping *m)
{
	if (mapping_shared(m))
		owner_read_size(m);
}

int mapping_lock_shared(struct mapping *m)
{
	struct thread_waiter tw;
	int slot;

	thread_waiter_init(&tw);
	while ((slot = iolock_shared(&m->io_lock, &tw.w)) == -EIOCBQUEUED)
		thread_waiter_sleep(&tw);
	read_size(m);
	return slot;
}

void mapping_lock_alone(struct mapping *m)
{
	iolock_exclusive(&m->io_lock);
	read_size(m);
}
