// SPDX-License-Identifier: MIT
/*
 * kill -9 at any moment, on real files: what was synced is there, nothing is
 * there that nobody wrote, the file is no longer than it was (R14, R16, R21),
 * and its owner's mark is gone with the process (K10, R22).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "scale.h"
#include "support/history.h"
#include "support/scratch.h"

#define THREADS 4u
#define PER_THREAD (HISTORY_RECORDS / THREADS)

static uint64_t seed;

/* @gen: what this process has written; of others' it cannot tell. */
struct writer {
	struct history *h;
	struct dbh_file *file;
	struct rng rng;
	unsigned id;
	unsigned gen[PER_THREAD];
};

/* ---- the one that is killed ------------------------------------------ */

static void write_one(struct writer *w)
{
	struct rig rig = { .file = w->file };
	unsigned n = (unsigned)rng_below(&w->rng, PER_THREAD);
	unsigned i = n * THREADS + w->id;
	unsigned flags = rng_chance(&w->rng, 70) ? DBH_DONTCACHE : 0;
	unsigned gen = history_begin(w->h, i);

	if (rng_chance(&w->rng, 20))
		flags |= DBH_DSYNC;
	rig_write(&rig, w->h->bytes, i * (uint64_t)w->h->bytes, gen, flags);
	w->gen[n] = gen;
	if (flags & DBH_DSYNC)
		history_synced(w->h, i, gen);
}

static void sync_all(struct writer *w)
{
	CHECK_OK(dbh_fdatasync(w->file));
	for (unsigned n = 0; n < PER_THREAD; n++)
		history_synced(w->h, n * THREADS + w->id, w->gen[n]);
}

static void *write_for_ever(void *arg)
{
	struct writer *w = arg;

	for (;;) {
		if (rng_chance(&w->rng, 10))
			sync_all(w);
		else
			write_one(w);
	}
	return NULL;
}

/* Never returns. @ready: told when the file is open. */
static void victim(struct history *h, const char *path, uint64_t round,
		   int ready)
{
	struct dbh_options opts = {
		.struct_size = sizeof(opts),
		.memory_bytes = 4u << 20,
		.expire_ms = 20,
		.io_method = round % 2 ? DBH_IO_URING : DBH_IO_THREADS,
	};
	struct writer writers[THREADS];
	struct dbh_engine *e;
	struct dbh_file *f;
	pthread_t threads[THREADS];
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CHECK_OK(dbh_engine_create(&opts, &e));
	/* K10. The kernel ends the requests of a ring after the process is
	 * gone, and keeps the file open meanwhile. */
	while ((err = dbh_open(e, path, O_RDWR | O_CREAT, 0600, &f)) == -EBUSY)
		usleep(1000);
	CHECK_OK(err);
	CHECK_IS(write(ready, "x", 1), 1);
	for (unsigned i = 0; i < THREADS; i++) {
		writers[i] = (struct writer){
			.h = h,
			.file = f,
			.rng = rng_fork(seed, round * 16 + i),
			.id = i,
		};
		pthread_create(&threads[i], NULL, write_for_ever, &writers[i]);
	}
	for (;;)
		pause();
}

/* ---- the one that kills ---------------------------------------------- */

static void kill_one(struct history *h, const char *path, uint64_t round,
		     struct rng *r)
{
	int ready[2], status;
	char byte;
	pid_t pid;

	CHECK_OK(pipe(ready));
	pid = fork();
	if (!pid)
		victim(h, path, round, ready[1]);
	close(ready[1]);
	CHECK(read(ready[0], &byte, 1) == 1,
	      "the file could not be opened (K10)");
	close(ready[0]);
	usleep((useconds_t)rng_below(r, 60000));
	CHECK_OK(kill(pid, SIGKILL));
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
	      "it ended by itself: %x", status);
}

static void check_file(struct history *h, const char *path)
{
	struct synced synced = history_snapshot(h);
	int fd = open(path, O_RDONLY);
	char *buf = malloc(h->bytes);
	struct stat st;

	CHECK(fd >= 0 && buf, "%s", path);
	CHECK_OK(fstat(fd, &st));
	CHECK((uint64_t)st.st_size <= atomic_load(&h->end),
	      "R16: %lld bytes on disk, %llu written", (long long)st.st_size,
	      (unsigned long long)atomic_load(&h->end));
	for (unsigned i = 0; i < HISTORY_RECORDS; i++) {
		ssize_t n = pread(fd, buf, h->bytes,
				  (off_t)(i * (uint64_t)h->bytes));

		CHECK(n >= 0, "pread");
		history_check(h, &synced, i, buf, (size_t)n);
	}
	/* Nothing of it stays for the next one to be fooled by. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	free(buf);
}

/* One file, killed again and again. */
static void kill_on(const char *dir)
{
	static const size_t sizes[] = { 47008, 6000, 1000 };
	unsigned long kills = test_scale(8);
	struct rng r = rng_fork(seed, 77);
	char path[600];

	for (unsigned s = 0; s < 3; s++) {
		struct history *h = mmap(NULL, sizeof(*h),
					 PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		CHECK(h != MAP_FAILED, "mmap");
		guard(240);
		h->bytes = sizes[s];
		snprintf(path, sizeof(path), "%s", scratch_path(dir));
		for (unsigned long i = 0; i < kills; i++) {
			kill_one(h, path, s * 1000 + i, &r);
			check_file(h, path);
		}
		CHECK_OK(unlink(path));
		munmap(h, sizeof(*h));
	}
}

static void test_kill_on_disk(void **state)
{
	(void)state;
	kill_on(scratch_dir());
}

static void test_kill_in_memory(void **state)
{
	(void)state;
	if (!scratch_shm()) {
		print_message("no /dev/shm\n");
		skip();
	}
	kill_on(scratch_shm());
}

static void test_kill_on_xfs(void **state)
{
	const char *dir = scratch_mount("xfs", 320, 4096);

	(void)state;
	if (!dir)
		skip();
	kill_on(dir);
}

static int run(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kill_on_disk),
		cmocka_unit_test(test_kill_in_memory),
		cmocka_unit_test(test_kill_on_xfs),
	};

	(void)argc;
	(void)argv;
	seed = test_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return scratch_run(run, argc, argv);
}
