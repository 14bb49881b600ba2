/* SPDX-License-Identifier: MIT */
/*
 * owner: how a mapping stands towards other programs (R22).
 */
#ifndef DBH_RW_OWNER_H
#define DBH_RW_OWNER_H

#include "mm/engine.h"

/**
 * owner_start_locked - a new mapping, of which nobody knows yet
 *
 * Takes the lease where there can be others; without the threads that this
 * needs, the mapping is UNSUPPORTED. engine->lock is held.
 */
void owner_start_locked(struct mapping *m);
/** The mapping goes: nobody has it open, nothing is cached. Sleeps until its job
 * is done. engine->lock is held. */
void owner_stop_locked(struct mapping *m);

/**
 * owner_suspend_locked - give the lease up, to open the file anew
 *
 * Returns with the io_lock held alone, nothing cached, and nothing happening to
 * the lease until owner_resume_locked(). Only for a mapping that is read-only
 * so far: there is nothing to write back. engine->lock is held, as in resume.
 */
void owner_suspend_locked(struct mapping *m);
void owner_resume_locked(struct mapping *m);

/** Take the size from the file, but for what is dirty behind its end. The
 * io_lock is held; not shared unless the mapping is SHARED. */
void owner_read_size(struct mapping *m);

/**
 * owner_revalidate - at sync and close, where there are no leases
 *
 * If nothing is dirty, nobody is just at it, and the size has changed: that
 * size, and drop what is cached.
 */
void owner_revalidate(struct mapping *m);

/** No mapping is left. */
void owners_destroy(struct dbh_engine *e);

#endif
