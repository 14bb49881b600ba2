/* SPDX-License-Identifier: MIT */
/*
 * stop: SIGINT, SIGTERM and SIGHUP end a run early but in order, so that the
 * way out which removes everything is the same as after an error.
 */
#ifndef BENCH_STOP_H
#define BENCH_STOP_H

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_bool bench_stop_flag;

/** stop_requested - cheap enough for every turn of a write loop. */
static inline bool stop_requested(void)
{
	return atomic_load_explicit(&bench_stop_flag, memory_order_relaxed);
}

/** stop_install - from now on signals ask for an orderly end. */
void stop_install(void);

/**
 * struct stop_traces - what a second signal removes before it ends the process
 * @files: NULL: none
 * @dir: with or without something mounted on it
 */
struct stop_traces {
	const char *files[3];
	const char *dir;
};

/** stop_remember - @traces stay valid until forgotten with NULL */
void stop_remember(const struct stop_traces *traces);

/** stop_block - a thread that no signal shall interrupt says so. */
void stop_block(void);

#endif
