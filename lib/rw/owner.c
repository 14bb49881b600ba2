// SPDX-License-Identifier: MIT
/*
 * owner: how a mapping stands towards other programs (R22).
 *
 * The states, and who makes which move:
 *
 *	   +------------ OWNED <-----------+
 *	   | signal        ^               | resume: the lease can be had again
 *	   v               | (upgrade)     |
 *	BREAKING --------------------> SHARED ---> UNSUPPORTED
 *	        break_job: all written,          resume: not for us any more
 *	        dropped, and given up
 *
 * A mapping starts in OWNED, SHARED or UNSUPPORTED, as the lease was had or not.
 * An upgrade, from read-only to read-write, gives the lease of the old
 * descriptor up, and starts anew from any state but BREAKING.
 *
 * OWNED: whoever opens the file waits, in the kernel, until we let go.
 * BREAKING: somebody does. A job takes the io_lock alone, writes everything
 * back, drops it, and gives the lease up. What cannot be written is tried again
 * for ERROR_NS, and stays then (R15). The kernel itself lets the other one go
 * on after /proc/sys/fs/lease-break-time, so nothing here watches that time:
 * a job that is late (a folio is lent out, the device is slow) goes on. A
 * write that ends while BREAKING writes its own range out before it returns,
 * for the job may be late and its data unseen.
 * SHARED: see shared.c. Now and then a job tries for the lease; with it, size
 * and state are taken anew, and caching resumes.
 * UNSUPPORTED: cached as in OWNED; see owner_revalidate().
 *
 * Threads: the watcher waits for the signal, and does nothing that takes long:
 * it looks at the leases and queues jobs. Jobs run in threads of their own, made
 * as they are needed: a job may wait for a request under way, and that for a
 * worker; and a slow device must not keep the files of others.
 *
 * Locks: engine->lock, io_lock (alone), owners->lock, then size_lock and what mm
 * has. A job takes no engine->lock: who holds that may be in an open() that
 * waits for the job. owners->lock is short; system calls under it are those
 * fcntl()s that ask for a lease or drop it, which do not wait. @busy keeps jobs
 * and those who hold them off from each other: it is taken before the io_lock.
 */
#include "rw/owner.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "rw/rw.h"

/* What a break may take before data that cannot be written is given up for
 * now: the other program waits meanwhile. */
#define ERROR_NS (1000 * NSEC_PER_MSEC)
#define ERROR_WAIT_US 50000
/* The lease is tried for after so long; then after ever longer, until it was
 * held for the longest of these times. */
#define RETRY_MIN_MS 10u
#define RETRY_MAX_MS 1000u
#define NR_JOBS_MAX 16u

/**
 * struct owners - of an engine
 * @lock: of the lists and of what struct owner says
 * @all: mappings that others can open
 * @jobs: of mappings that are to be broken or resumed; @idle: threads that wait
 *	for one
 * @jobs_seq: futex of those: changes with each job
 * @tid: the watcher's; set once, before anything is in @all
 * @stop: end
 * @watcher, @thread, @nr: the watcher's to change until it has ended
 */
struct owners {
	struct mutex lock;
	struct list_head all;
	struct list_head jobs;
	unsigned idle;
	_Atomic uint32_t jobs_seq;
	_Atomic uint32_t tid;
	_Atomic bool stop;
	pthread_t watcher;
	pthread_t thread[NR_JOBS_MAX];
	unsigned nr;
};

static const struct store_lease_ops *lease_ops(const struct mapping *m)
{
	return m->store->ops->lease;
}

/* ---- the setter ------------------------------------------------------ */

static const bool legal[NR_OWNER_STATES][NR_OWNER_STATES] = {
	[OWNER_OWNED] = { [OWNER_OWNED] = true, /* upgraded */
			  [OWNER_BREAKING] = true,
			  [OWNER_SHARED] = true,
			  [OWNER_UNSUPPORTED] = true },
	[OWNER_BREAKING] = { [OWNER_SHARED] = true },
	[OWNER_SHARED] = { [OWNER_OWNED] = true,
			   [OWNER_SHARED] = true, /* upgraded */
			   [OWNER_UNSUPPORTED] = true },
	[OWNER_UNSUPPORTED] = { [OWNER_OWNED] = true,
				[OWNER_SHARED] = true,
				[OWNER_UNSUPPORTED] = true },
};

static void set_state_locked(struct mapping *m, enum owner_state to)
{
	struct dbh_engine *e = m->engine;
	enum owner_state from = mapping_owner(m);

	assert_held(&e->owners->lock);
	assert(legal[from][to]);
	(void)legal; /* without asserts */
	atomic_fetch_sub(&e->stats.files[from], 1);
	atomic_fetch_add(&e->stats.files[to], 1);
	/* release: pairs with mapping_owner() */
	atomic_store_explicit(&m->owner.state, to, memory_order_release);
}

static void schedule_retry_locked(struct mapping *m)
{
	struct owner *o = &m->owner;

	assert_held(&m->engine->owners->lock);
	o->retry_ms = clock_coarse_ms() + o->backoff_ms;
	o->backoff_ms = MIN(o->backoff_ms * 4, RETRY_MAX_MS);
}

static void notify(struct owners *o)
{
	pthread_kill(o->watcher, STORE_LEASE_SIGNAL);
}

/* ---- busy ------------------------------------------------------------ */

static void queue_job_locked(struct owners *o, struct mapping *m)
{
	assert_held(&o->lock);
	if (atomic_load(&m->owner.busy))
		return;
	atomic_store(&m->owner.busy, 1);
	list_add_tail(&m->owner.job, &o->jobs);
	atomic_fetch_add(&o->jobs_seq, 1);
	futex_wake(&o->jobs_seq, 1);
}

/* No job comes or runs until release(). */
static void hold(struct owners *o, struct mapping *m)
{
	mutex_lock(&o->lock);
	while (atomic_load(&m->owner.busy) && list_empty(&m->owner.job)) {
		mutex_unlock(&o->lock);
		futex_wait(&m->owner.busy, 1, UINT64_MAX);
		mutex_lock(&o->lock);
	}
	list_del(&m->owner.job);
	atomic_store(&m->owner.busy, 1);
	mutex_unlock(&o->lock);
}

static void release(struct owners *o, struct mapping *m)
{
	mutex_lock(&o->lock);
	atomic_store(&m->owner.busy, 0);
	futex_wake(&m->owner.busy, INT32_MAX);
	/* What was not looked at meanwhile, and when to look next. Under the
	 * lock: once the last mapping has gone there is nobody to tell. */
	notify(o);
	mutex_unlock(&o->lock);
}

/* ---- jobs ------------------------------------------------------------ */

void owner_read_size(struct mapping *m)
{
	struct stat st;
	uint64_t size;

	mutex_lock(&m->size_lock);
	if (!m->store->ops->stat(m->store, &st)) {
		size = (uint64_t)st.st_size;
		atomic_store(&m->disk_size, size);
		/* What could not be written keeps the end where it was. */
		if (atomic_load(&m->nr_dirty)) {
			disk_bound_raise(m, size);
			i_size_grow(m, size);
		} else {
			atomic_store(&m->disk_bound, size);
			atomic_store(&m->i_size, size);
		}
	}
	mutex_unlock(&m->size_lock);
}

/* Everything to the file; an error may go by. */
static void write_out(struct mapping *m)
{
	uint64_t end = clock_ns() + ERROR_NS;

	while (mapping_write_all(m) && atomic_load(&m->nr_dirty) &&
	       clock_ns() < end)
		usleep(ERROR_WAIT_US);
	mapping_drop_clean(m);
	m->store->ops->settle(m->store);
}

static void break_job(struct owners *o, struct mapping *m)
{
	iolock_exclusive(&m->io_lock);
	write_out(m);
	lease_ops(m)->share(m->store, true);
	mutex_lock(&o->lock);
	if (clock_age_ms(m->owner.since_ms) >= RETRY_MAX_MS)
		m->owner.backoff_ms = RETRY_MIN_MS;
	schedule_retry_locked(m);
	set_state_locked(m, OWNER_SHARED);
	mutex_unlock(&o->lock);
	lease_ops(m)->drop(m->store);
	iolock_unexclusive(&m->io_lock);
}

/* @err: what taking the lease has said. The io_lock is held alone, or nobody
 * knows of @m yet. */
static void decide(struct owners *o, struct mapping *m, int err)
{
	enum owner_state state = !err		? OWNER_OWNED :
				 err == -EAGAIN ? OWNER_SHARED :
						  OWNER_UNSUPPORTED;

	/* Only now, since nobody changes it any more; or nobody cares. */
	owner_read_size(m);
	lease_ops(m)->share(m->store, state == OWNER_SHARED);
	mutex_lock(&o->lock);
	m->owner.since_ms = clock_coarse_ms();
	if (state == OWNER_SHARED)
		schedule_retry_locked(m);
	set_state_locked(m, state);
	mutex_unlock(&o->lock);
}

static int take(struct owners *o, struct mapping *m)
{
	return lease_ops(m)->take(m->store, (pid_t)atomic_load(&o->tid));
}

static void resume_job(struct owners *o, struct mapping *m)
{
	int err = take(o, m);

	if (err == -EAGAIN) {
		mutex_lock(&o->lock);
		schedule_retry_locked(m);
		mutex_unlock(&o->lock);
		return;
	}
	iolock_exclusive(&m->io_lock);
	/* What could not be written is tried once more, or stays as ever. */
	if (atomic_load(&m->nr_dirty))
		mapping_write_all(m);
	mapping_drop_clean(m);
	decide(o, m, err);
	iolock_unexclusive(&m->io_lock);
}

static void *job_main(void *arg)
{
	struct owners *o = arg;

	mutex_lock(&o->lock);
	while (!atomic_load(&o->stop)) {
		uint32_t seq = atomic_load(&o->jobs_seq);
		struct mapping *m;

		if (list_empty(&o->jobs)) {
			o->idle++;
			mutex_unlock(&o->lock);
			futex_wait(&o->jobs_seq, seq, UINT64_MAX);
			mutex_lock(&o->lock);
			o->idle--;
			continue;
		}
		m = list_entry(o->jobs.next, struct mapping, owner.job);
		list_del(&m->owner.job);
		mutex_unlock(&o->lock);
		if (mapping_owner(m) == OWNER_BREAKING)
			break_job(o, m);
		else
			resume_job(o, m);
		release(o, m);
		mutex_lock(&o->lock);
	}
	mutex_unlock(&o->lock);
	return NULL;
}

/* ---- the watcher ----------------------------------------------------- */

/* Return: in how many ms to look again; UINT32_MAX: when there is a signal. */
static uint32_t look_at_locked(struct owners *o, struct mapping *m)
{
	int32_t left;

	switch (mapping_owner(m)) {
	case OWNER_OWNED:
		if (!atomic_load(&m->owner.busy) &&
		    lease_ops(m)->broken(m->store)) {
			stat_inc(m->engine, lease_breaks);
			set_state_locked(m, OWNER_BREAKING);
			queue_job_locked(o, m);
		}
		return UINT32_MAX;
	case OWNER_SHARED:
		left = (int32_t)(m->owner.retry_ms - clock_coarse_ms());
		/* A job that is under way says when it is done. */
		if (atomic_load(&m->owner.busy))
			return UINT32_MAX;
		if (left > 0)
			return (uint32_t)left;
		queue_job_locked(o, m);
		return UINT32_MAX;
	default:
		return UINT32_MAX;
	}
}

static uint32_t look(struct owners *o)
{
	uint32_t next = UINT32_MAX;
	struct list_head *pos;

	mutex_lock(&o->lock);
	list_for_each(pos, &o->all) {
		struct mapping *m = list_entry(pos, struct mapping, owner.link);

		next = MIN(next, look_at_locked(o, m));
	}
	mutex_unlock(&o->lock);
	return next;
}

/* One more thread if jobs wait for one. */
static void add_thread(struct owners *o)
{
	bool more;

	mutex_lock(&o->lock);
	more = !list_empty(&o->jobs) && !o->idle && o->nr < NR_JOBS_MAX;
	mutex_unlock(&o->lock);
	/* The first one is there: without more it takes longer. */
	if (more && !engine_thread(&o->thread[o->nr], "dbh-lease", job_main, o))
		o->nr++;
}

static void *watch_main(void *arg)
{
	struct owners *o = arg;
	uint32_t next = UINT32_MAX;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, STORE_LEASE_SIGNAL);
	atomic_store(&o->tid, (uint32_t)gettid());
	futex_wake(&o->tid, 1);
	while (!atomic_load(&o->stop)) {
		struct timespec ts = {
			.tv_sec = next / 1000,
			.tv_nsec = (long)(next % 1000) * 1000000,
		};

		sigtimedwait(&set, NULL, next == UINT32_MAX ? NULL : &ts);
		next = look(o);
		add_thread(o);
	}
	return NULL;
}

/* ---- life ------------------------------------------------------------ */

static void owners_free(struct owners *o)
{
	atomic_store(&o->stop, true);
	atomic_fetch_add(&o->jobs_seq, 1);
	futex_wake(&o->jobs_seq, INT32_MAX);
	for (unsigned i = 0; i < o->nr; i++)
		pthread_join(o->thread[i], NULL);
	free(o);
}

static struct owners *owners_create(void)
{
	struct owners *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	mutex_init(&o->lock, RANK_OWNER);
	list_init(&o->all);
	list_init(&o->jobs);
	if (!engine_thread(&o->thread[0], "dbh-lease", job_main, o))
		o->nr = 1;
	if (!o->nr || engine_thread(&o->watcher, "dbh-owner", watch_main, o)) {
		owners_free(o);
		return NULL;
	}
	while (!atomic_load(&o->tid))
		futex_wait(&o->tid, 0, UINT64_MAX);
	return o;
}

void owners_destroy(struct dbh_engine *e)
{
	struct owners *o = e->owners;

	if (!o)
		return;
	assert(list_empty(&o->all));
	atomic_store(&o->stop, true);
	notify(o);
	pthread_join(o->watcher, NULL);
	owners_free(o);
	e->owners = NULL;
}

void owner_start_locked(struct mapping *m)
{
	struct dbh_engine *e = m->engine;
	struct owners *o;

	assert_held(&e->lock);
	if (!lease_ops(m))
		return;
	if (!e->owners)
		e->owners = owners_create();
	o = e->owners;
	if (!o) {
		/* UNTESTED: no memory for a thread. */
		atomic_store(&m->owner.state, OWNER_UNSUPPORTED);
		return;
	}
	m->owner.backoff_ms = RETRY_MIN_MS;
	atomic_fetch_add(&e->stats.files[OWNER_OWNED], 1);
	decide(o, m, take(o, m));
	mutex_lock(&o->lock);
	list_add_tail(&m->owner.link, &o->all);
	mutex_unlock(&o->lock);
	/* A signal that came before it was in the list found nothing. */
	if (mapping_owner(m) == OWNER_SHARED ||
	    (mapping_owner(m) == OWNER_OWNED && lease_ops(m)->broken(m->store)))
		notify(o);
}

void owner_stop_locked(struct mapping *m)
{
	struct dbh_engine *e = m->engine;
	struct owners *o = e->owners;

	assert_held(&e->lock);
	if (list_empty(&m->owner.link))
		return;
	hold(o, m);
	mutex_lock(&o->lock);
	list_del(&m->owner.link);
	atomic_fetch_sub(&e->stats.files[mapping_owner(m)], 1);
	mutex_unlock(&o->lock);
}

void owner_suspend_locked(struct mapping *m)
{
	struct owners *o = m->engine->owners;
	bool joined = !list_empty(&m->owner.link);

	assert_held(&m->engine->lock);
	assert(!m->store->writable);
	if (joined)
		hold(o, m);
	iolock_exclusive(&m->io_lock);
	mapping_drop_clean(m);
	if (!joined)
		return;
	/* That is what the job would have done that hold() has sent away. */
	mutex_lock(&o->lock);
	if (mapping_owner(m) == OWNER_BREAKING)
		set_state_locked(m, OWNER_SHARED);
	mutex_unlock(&o->lock);
	lease_ops(m)->drop(m->store);
}

void owner_resume_locked(struct mapping *m)
{
	struct owners *o = m->engine->owners;

	assert_held(&m->engine->lock);
	if (list_empty(&m->owner.link)) {
		owner_read_size(m);
		iolock_unexclusive(&m->io_lock);
		return;
	}
	m->owner.backoff_ms = RETRY_MIN_MS;
	decide(o, m, take(o, m));
	iolock_unexclusive(&m->io_lock);
	release(o, m);
}

void owner_revalidate(struct mapping *m)
{
	bool claimed = false;
	struct stat st;

	if (likely(mapping_owner(m) != OWNER_UNSUPPORTED) ||
	    atomic_load(&m->nr_dirty) || m->store->ops->stat(m->store, &st) ||
	    (uint64_t)st.st_size == i_size_read(m))
		return;
	/* Not waited for: who has it may need the thread we are in. */
	if (iolock_exclusive_try(&m->io_lock, NULL, &claimed))
		return;
	if (!atomic_load(&m->nr_dirty)) {
		owner_read_size(m);
		mapping_drop_clean(m);
	}
	iolock_unexclusive(&m->io_lock);
}
