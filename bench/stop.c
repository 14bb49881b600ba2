/* SPDX-License-Identifier: MIT */
/*
 * stop: the first signal sets a flag that all loops look at. The second one is
 * for a run that hangs: it removes the file and the directory and is gone; a
 * scratch file system vanishes by itself (see scratch.c).
 */
#include "bench/stop.h"

#include <signal.h>
#include <stddef.h>
#include <sys/mount.h>
#include <unistd.h>

#define EXIT_STOPPED 130

atomic_bool bench_stop_flag;

static _Atomic(const char *) file_to_remove;
static _Atomic(const char *) dir_to_remove;

static void on_signal(int sig)
{
	const char *path;

	(void)sig;
	if (!atomic_exchange(&bench_stop_flag, true))
		return;
	path = atomic_load(&file_to_remove);
	if (path)
		unlink(path);
	path = atomic_load(&dir_to_remove);
	if (path) {
		/* Refused, and no harm, where nothing is mounted. */
		umount2(path, MNT_DETACH);
		rmdir(path);
	}
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

void stop_remember(const char *file, const char *dir)
{
	atomic_store(&file_to_remove, file);
	atomic_store(&dir_to_remove, dir);
}

void stop_block(void)
{
	sigset_t set;

	sigfillset(&set);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}
