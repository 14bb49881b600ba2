/* SPDX-License-Identifier: MIT */
/*
 * ioq: which method of issuing, and what the threads of all methods have in
 * common. The methods themselves are uring.c and threads.c.
 */
#include "ioq.h"

#include <errno.h>
#include <signal.h>

#define IOQ_DEPTH_DEFAULT 32u
#define IOQ_DEPTH_MAX 4096u

int block_thread_create(pthread_t *thread, const char *name,
			void *(*fn)(void *arg), void *arg)
{
	sigset_t all, old;
	int err;

	/* The mask is inherited; no moment without it in the new thread. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return -err;
	pthread_setname_np(*thread, name);
	return 0;
}

/* Refused to this process, or not there; not a passing shortage. */
static bool uring_is_refused(int err)
{
	return err == -EPERM || err == -EACCES || err == -ENOSYS ||
	       err == -ENOMEM || err == -EINVAL || err == -EOPNOTSUPP;
}

int ioq_create(enum ioq_method method, unsigned depth, struct ioq **out)
{
	int err;

	if (!depth)
		depth = IOQ_DEPTH_DEFAULT;
	if (depth > IOQ_DEPTH_MAX)
		depth = IOQ_DEPTH_MAX;
	if (method != IOQ_THREADS) {
		err = ioq_uring_create(depth, out);
		if (!err || method == IOQ_URING || !uring_is_refused(err))
			return err;
	}
	return ioq_threads_create(depth, out);
}

void ioq_destroy(struct ioq *ioq)
{
	if (ioq)
		ioq->ops->destroy(ioq);
}

enum ioq_method ioq_method(const struct ioq *ioq)
{
	return ioq->method;
}
