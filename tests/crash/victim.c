// SPDX-License-Identifier: MIT
/*
 * victim: see victim.h.
 */
#include "victim.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "support/check.h"

/* ---- the one that is killed ------------------------------------------ */

struct process {
	const struct victim *v;
	struct dbh_engine *engine;
	struct writers ws;
};

static bool never_over(void *arg)
{
	(void)arg;
	return false;
}

static struct dbh_file *open_file(void *arg)
{
	struct process *p = arg;
	struct dbh_file *file;
	int err;

	/* Its file system may be gone. */
	err = dbh_open(p->engine, p->v->path, O_RDWR | O_CREAT, 0600, &file);
	while (err && p->v->may_fail)
		pause();
	CHECK_OK(err);
	return file;
}

/* The end of the world: nothing that comes after it counts. */
static void stand_still(void *arg, struct rng *r, long long res, unsigned times)
{
	(void)arg;
	(void)r;
	(void)res;
	(void)times;
	for (;;)
		pause();
}

static void mend_nothing(void *arg)
{
	(void)arg;
}

static void resize(void *arg, uint64_t size)
{
	(void)arg;
	(void)size;
}

static void between(void *arg, struct rng *r)
{
	(void)arg;
	(void)r;
}

static const struct writers_ops process_ops = {
	.over = never_over,
	.open = open_file,
	.failed = stand_still,
	.mend = mend_nothing,
	.resize = resize,
	.between = between,
};

static void create_engine(struct process *p, struct rng *r)
{
	struct dbh_options opts = {
		.struct_size = sizeof(opts),
		.memory_bytes = (size_t)1 << rng_between(r, 20, 23),
		.expire_ms = (unsigned)rng_between(r, 5, 100),
		.io_method = p->v->io_method,
	};

	CHECK_OK(dbh_engine_create(&opts, &p->engine));
}

/* Never returns. @ready: told when the file is open. */
static void live(const struct victim *v, int ready)
{
	struct rng r = rng_fork(v->seed, 0);
	struct process *p = calloc(1, sizeof(*p));

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CHECK(p, "no memory");
	p->v = v;
	create_engine(p, &r);
	p->ws = (struct writers){
		.h = v->h,
		.nr = 1 + (unsigned)rng_below(&r, WRITERS_MAX),
		.seed = v->seed,
		.may_fail = v->may_fail,
		.ops = &process_ops,
		.arg = p,
	};
	writers_open(&p->ws);
	CHECK_IS(write(ready, "x", 1), 1);
	writers_run(&p->ws);
	abort();
}

/* ---- the one that kills ---------------------------------------------- */

struct history *history_shared(size_t bytes)
{
	struct history *h = mmap(NULL, sizeof(*h), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(h != MAP_FAILED, "mmap");
	history_init(h, bytes);
	return h;
}

void history_unshare(struct history *h)
{
	munmap(h, sizeof(*h));
}

pid_t victim_start(const struct victim *v)
{
	int ready[2];
	char byte;
	pid_t pid;

	CHECK_OK(pipe(ready));
	pid = fork();
	CHECK(pid >= 0, "fork");
	if (!pid) {
		close(ready[0]);
		live(v, ready[1]);
	}
	close(ready[1]);
	/* K10: it does not wait for what its forerunner has left. */
	CHECK(read(ready[0], &byte, 1) == 1, "the file could not be opened");
	close(ready[0]);
	return pid;
}

void victim_kill(pid_t pid)
{
	int status;

	CHECK_OK(kill(pid, SIGKILL));
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
	      "it ended by itself: %x", status);
}

void victim_check(const struct victim *v, const struct durable *durable)
{
	char *content = malloc(HISTORY_BYTES + 1), why[300];
	int fd = open(v->path, O_RDONLY);
	ssize_t n;

	CHECK(fd >= 0 && content, "%s", v->path);
	n = pread(fd, content, HISTORY_BYTES + 1, 0);
	CHECK(n >= 0 && n <= (ssize_t)HISTORY_BYTES, "%zd bytes", n);
	CHECK(history_check(v->h, durable, content, (uint64_t)n, why,
			    sizeof(why)) == VERDICT_GOOD,
	      "%s: %s", v->path, why);
	history_rebase(v->h, content, (uint64_t)n);
	/* Nothing of it stays for the next one to be fooled by. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
	free(content);
}
