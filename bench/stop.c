/* SPDX-License-Identifier: MIT */
/*
 * stop: the first signal sets a flag that all loops look at. The second one is
 * for a run that hangs: it removes the files and the directory and is gone; a
 * scratch file system vanishes by itself (see scratch.c).
 */
#include "bench/stop.h"

#include <signal.h>
#include <stddef.h>
#include <sys/mount.h>
#include <unistd.h>

#define EXIT_STOPPED 130

atomic_bool bench_stop_flag;

static _Atomic(const struct stop_traces *) remembered;

/* Signal-safe. */
static void remove_traces(const struct stop_traces *t)
{
	size_t i;

	for (i = 0; i < sizeof(t->files) / sizeof(t->files[0]); i++)
		if (t->files[i])
			unlink(t->files[i]);
	/* Refused, and no harm, where nothing is mounted. */
	umount2(t->dir, MNT_DETACH);
	rmdir(t->dir);
}

static void on_signal(int sig)
{
	const struct stop_traces *traces;

	(void)sig;
	if (!atomic_exchange(&bench_stop_flag, true))
		return;
	traces = atomic_load(&remembered);
	if (traces)
		remove_traces(traces);
	_exit(EXIT_STOPPED);
}

void stop_install(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction act = { .sa_handler = on_signal,
				 .sa_flags = SA_RESTART };
	struct sigaction old;
	size_t i;

	sigemptyset(&act.sa_mask);
	for (i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		/* What nohup or a shell's & has ignored stays ignored. */
		if (!sigaction(signals[i], NULL, &old) &&
		    old.sa_handler == SIG_IGN && signals[i] != SIGTERM)
			continue;
		sigaction(signals[i], &act, NULL);
	}
	/* A closed pipe must not end us before all is removed. */
	act.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &act, NULL);
}

void stop_remember(const struct stop_traces *traces)
{
	atomic_store(&remembered, traces);
}

void stop_block(void)
{
	sigset_t set;

	sigfillset(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}
