// SPDX-License-Identifier: MIT
/*
 * The control socket: where it lies and who may ask, what it answers, and that
 * nobody's client can hold up an engine.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "control/room.h"
#include "support/rig.h"
#include "support/scratch.h"

#define PAGE 4096u

static char path[100]; /* of this case's socket */

static void fresh_path(void)
{
	snprintf(path, sizeof(path), "%s", scratch_path(scratch_dir()));
}

static int create(const char *at, struct dbh_engine **out)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 16u << 20,
				    .control_path = at };

	return dbh_engine_create(&opts, out);
}

static void rig_up_at(struct rig *rig, const char *at)
{
	struct dbh_options opts = { .struct_size = sizeof(opts),
				    .memory_bytes = 64u << 20,
				    .control_path = at };

	rig_up(rig, spy_create_mem(PAGE, 512), &opts);
}

/* ---- a client -------------------------------------------------------- */

static int ask(const char *at, const char *request)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0, "socket");
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", at);
	CHECK(!connect(fd, (struct sockaddr *)&addr, sizeof(addr)), "%s: %s",
	      at, strerror(errno));
	/* Who is refused unasked may be so before. */
	if (*request && send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		CHECK(errno == EPIPE, "%s", strerror(errno));
	return fd;
}

/* A line, without its end, in memory of its own; NULL: the end. */
static char *read_line(int fd)
{
	size_t len = 0, size = 256;
	char *line = malloc(size);

	while (read(fd, line + len, 1) == 1) {
		if (line[len] == '\n') {
			line[len] = '\0';
			return line;
		}
		if (++len == size)
			line = realloc(line, size *= 2);
	}
	free(line);
	return NULL;
}

static json_t *read_json(int fd)
{
	char *line = read_line(fd);
	json_error_t error;
	json_t *json;

	CHECK(line, "no answer");
	json = json_loads(line, JSON_REJECT_DUPLICATES, &error);
	CHECK(json, "%s: %s", line, error.text);
	free(line);
	return json;
}

static void check_end(int fd)
{
	char *line = read_line(fd);

	CHECK(!line, "more: %s", line);
	close(fd);
}

static json_t *get_stat(const char *at)
{
	int fd = ask(at, "stat\n");
	json_t *json = read_json(fd);

	check_end(fd);
	return json;
}

static json_int_t number(const json_t *json, const char *group,
			 const char *name)
{
	const json_t *from = group ? json_object_get(json, group) : json;
	const json_t *value = json_object_get(from, name);

	CHECK(json_is_integer(value), "%s.%s is missing", group, name);
	return json_integer_value(value);
}

static const char *string(const json_t *json, const char *name)
{
	const char *text = json_string_value(json_object_get(json, name));

	CHECK(text, "%s is missing", name);
	return text;
}

static void check_refused(int fd, const char *why)
{
	json_t *json = read_json(fd);

	CHECK(strstr(string(json, "error"), why), "%s", string(json, "error"));
	json_decref(json);
	check_end(fd);
}

/* It still answers. */
static void check_alive(void)
{
	json_t *json = get_stat(path);

	CHECK_IS(number(json, NULL, "pid"), getpid());
	json_decref(json);
}

/* ---- where it lies --------------------------------------------------- */

static void check_mode(const char *at)
{
	struct stat st;

	CHECK(!lstat(at, &st) && S_ISSOCK(st.st_mode) &&
		      (st.st_mode & 07777) == 0600,
	      "%s: mode %o", at, st.st_mode);
}

static void test_mode(void **state)
{
	struct dbh_engine *e;
	mode_t old;

	(void)state;
	guard(60);
	fresh_path();
	for (int i = 0; i < 2; i++) {
		old = umask(i ? 077 : 0);
		CHECK_OK(create(path, &e));
		umask(old);
		check_mode(path);
		CHECK_OK(dbh_engine_destroy(e));
		CHECK(access(path, F_OK) && errno == ENOENT, "it stays");
	}
}

static void test_directory(void **state)
{
	struct dbh_engine *e, *other;
	char name[200];

	(void)state;
	guard(60);
	fresh_path();
	CHECK(!mkdir(path, 0700), "mkdir");
	snprintf(name, sizeof(name), "%s/dropbehind-%d.sock", path,
		 (int)getpid());
	CHECK_OK(create(path, &e));
	check_mode(name);
	/* A second engine of this process has to be told another name. */
	CHECK_IS(create(path, &other), -EADDRINUSE);
	json_decref(get_stat(name));
	CHECK_OK(dbh_engine_destroy(e));
	CHECK(!rmdir(path), "something stays");
}

static void test_bad_paths(void **state)
{
	struct dbh_engine *e;
	char target[200], text[8] = "";
	char far[200];
	int fd;

	(void)state;
	guard(60);
	fresh_path();
	CHECK_IS(create("", &e), -EINVAL);
	snprintf(target, sizeof(target), "%s/none/x.sock", scratch_dir());
	CHECK_IS(create(target, &e), -ENOENT);
	memset(far, 'x', sizeof(far) - 1);
	far[sizeof(far) - 1] = '\0';
	CHECK_IS(create(far, &e), -ENAMETOOLONG);
	/* A file of somebody's. */
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(fd >= 0 && write(fd, "mine", 4) == 4, "the file");
	CHECK_IS(create(path, &e), -ENOTSOCK);
	CHECK(pread(fd, text, 8, 0) == 4 && !strcmp(text, "mine"), "%s", text);
	close(fd);
	/* A link, wherever it leads. */
	snprintf(target, sizeof(target), "%s.link", path);
	CHECK(!symlink("nowhere", target), "symlink");
	CHECK_IS(create(target, &e), -ENOTSOCK);
	unlink(target);
	unlink(path);
}

static void test_stale_and_live(void **state)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct dbh_engine *e, *other;
	struct stat st;
	int fd;

	(void)state;
	guard(60);
	fresh_path();
	/* What a killed process leaves. */
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	CHECK(!bind(fd, (struct sockaddr *)&addr, sizeof(addr)), "bind");
	close(fd);
	CHECK_OK(create(path, &e));
	check_alive();
	CHECK_IS(create(path, &other), -EADDRINUSE);
	check_alive();
	/* What is not ours any more is left alone. */
	CHECK(!unlink(path), "unlink");
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	CHECK(fd >= 0, "open");
	close(fd);
	CHECK_OK(dbh_engine_destroy(e));
	CHECK(!stat(path, &st), "another's file is gone");
	unlink(path);
}

static void test_two_engines(void **state)
{
	char second[sizeof(path) + 2];
	struct rig one, two;
	json_t *json;

	(void)state;
	guard(60);
	fresh_path();
	snprintf(second, sizeof(second), "%s.2", path);
	rig_up_at(&one, path);
	rig_up_at(&two, second);
	rig_write(&one, 3 * PAGE, 0, 1, 0);
	rig_write(&two, 5 * PAGE, 0, 1, 0);
	json = get_stat(path);
	CHECK_IS(number(json, "pages", "dirty"), 3);
	json_decref(json);
	json = get_stat(second);
	CHECK_IS(number(json, "pages", "dirty"), 5);
	json_decref(json);
	rig_down(&two);
	check_alive();
	rig_down(&one);
}

/* ---- answers --------------------------------------------------------- */

static void check_sizes(const json_t *group, const char *count, size_t nr)
{
	const json_t *sizes = json_object_get(group, "sizes"), *at;
	json_int_t sum = 0;
	size_t i;

	CHECK_IS(json_array_size(sizes), nr);
	json_array_foreach(sizes, i, at)
		sum += number(at, NULL, "count");
	CHECK_IS(sum, number(group, NULL, count));
}

static void check_latencies(const json_t *json)
{
	static const char *const names[] = {
		"write", "read",     "sync",	 "flush",
		"write_bio", "read_bio", "throttle",
	};
	const json_t *all = json_object_get(json, "latency_ns");

	CHECK_IS(json_object_size(all), 7);
	for (unsigned i = 0; i < 7; i++)
		CHECK(number(all, names[i], "p50") <=
			      number(all, names[i], "p99") &&
			      number(all, names[i], "p99") <=
				      number(all, names[i], "p999") &&
			      number(all, names[i], "p999") <=
				      number(all, names[i], "max"),
		      "%s", names[i]);
}

static void test_stat(void **state)
{
	struct rig rig;
	json_t *json, *bdi;

	(void)state;
	guard(60);
	fresh_path();
	rig_up_at(&rig, path);
	rig_write(&rig, 16 * PAGE, 0, 1, DBH_DSYNC);
	rig_write(&rig, 100, 20 * PAGE, 1, DBH_DONTCACHE);
	json = get_stat(path);
	CHECK(!strcmp(string(json, "version"), dbh_version()), "version");
	CHECK_IS(number(json, "memory", "limit_bytes"), 64u << 20);
	CHECK_IS(number(json, "pages", "dirty"), 1);
	CHECK_IS(number(json, "pages", "dirtied"), 17);
	CHECK_IS(number(json, "pages", "written"), 16);
	CHECK_IS(number(json, "edges", "live"), 1);
	CHECK_IS(number(json, "kicks", "rounds"), 0);
	CHECK_IS(number(json, "sync", "flushes"), 1);
	check_sizes(json_object_get(json, "sync"), "flushes", DBH_SYNC_SIZES);
	bdi = json_object_get(json, "bios");
	check_sizes(json_object_get(bdi, "read"), "count", DBH_BIO_SIZES);
	check_sizes(json_object_get(bdi, "write"), "count", DBH_BIO_SIZES);
	check_latencies(json);
	bdi = json_array_get(json_object_get(json, "bdi"), 0);
	CHECK(strchr(string(bdi, "dev"), ':'), "dev");
	CHECK_IS(number(bdi, NULL, "dirtied"), 17);
	CHECK_IS(number(bdi, NULL, "b_dirty"), 1);
	CHECK(number(bdi, NULL, "state") & DBH_WB_HAS_DIRTY_IO, "state");
	CHECK_IS(number(json, "trace", "clients"), 0);
	json_decref(json);
	rig_down(&rig);
}

static void test_garbage(void **state)
{
	char endless[LINE_BYTES + 100];
	struct dbh_engine *e;
	int fd;

	(void)state;
	guard(60);
	fresh_path();
	CHECK_OK(create(path, &e));
	check_refused(ask(path, "\n"), "no such request");
	check_refused(ask(path, "STAT\n"), "no such request");
	check_refused(ask(path, "stat stat\n"), "no such request");
	check_refused(ask(path, "\x01\xff\"}{\n"), "no such request");
	check_refused(ask(path, "trace none\n"), "no such event");
	check_refused(ask(path, "trace kick,\n"), "no such event");
	check_refused(ask(path, "trace ,kick\n"), "no such event");
	memset(endless, 'x', sizeof(endless) - 1);
	endless[sizeof(endless) - 1] = '\0';
	check_refused(ask(path, endless), "too long");
	/* The end before the end of the line: nothing. */
	fd = ask(path, "sta");
	shutdown(fd, SHUT_WR);
	check_end(fd);
	/* In pieces, with the end of a line as others write it. */
	fd = ask(path, "st");
	CHECK_IS(send(fd, "at\r\n", 4, MSG_NOSIGNAL), 4);
	json_decref(read_json(fd));
	check_end(fd);
	/* Whoever has asked and closed his direction gets his answer. */
	fd = ask(path, "stat\n");
	shutdown(fd, SHUT_WR);
	json_decref(read_json(fd));
	check_end(fd);
	check_alive();
	CHECK_OK(dbh_engine_destroy(e));
}

static void test_limits(void **state)
{
	int fds[CLIENTS_MAX];
	struct dbh_engine *e;

	(void)state;
	guard(60);
	fresh_path();
	CHECK_OK(create(path, &e));
	for (unsigned i = 0; i < CLIENTS_MAX; i++) {
		fds[i] = ask(path, "trace kick\n");
		json_decref(read_json(fds[i]));
	}
	check_refused(ask(path, ""), "too many");
	/* One goes, another one comes. It is noticed a moment later. */
	close(fds[0]);
	for (;;) {
		int fd = ask(path, "stat\n");
		json_t *json = read_json(fd);
		bool served = !json_object_get(json, "error");

		json_decref(json);
		check_end(fd);
		if (served)
			break;
	}
	/* Those who are there at the end hear of it. */
	CHECK_OK(dbh_engine_destroy(e));
	for (unsigned i = 1; i < CLIENTS_MAX; i++)
		check_end(fds[i]);
}

/* ---- events ---------------------------------------------------------- */

/* The next event is this one, of these numbers. */
static json_t *expect(int fd, const char *name)
{
	json_t *json = read_json(fd);

	CHECK(!strcmp(string(json, "event"), name), "%s, not %s",
	      string(json, "event"), name);
	CHECK(number(json, NULL, "ns") > 0, "time");
	return json;
}

static void expect_edge(int fd, const char *name, json_int_t index,
			json_int_t off, json_int_t len)
{
	json_t *json = expect(fd, name);

	CHECK_IS(number(json, NULL, "index"), index);
	if (len) {
		CHECK_IS(number(json, NULL, "off"), off);
		CHECK_IS(number(json, NULL, "len"), len);
	}
	json_decref(json);
}

static void expect_bio(int fd, const char *name, json_int_t pos,
		       json_int_t len)
{
	json_t *json = expect(fd, name);

	CHECK(!strcmp(string(json, "op"), "write"), "%s", string(json, "op"));
	CHECK_IS(number(json, NULL, "pos"), pos);
	CHECK_IS(number(json, NULL, "len"), len);
	if (!strcmp(name, "bio_complete")) {
		CHECK_IS(number(json, NULL, "errno"), 0);
		CHECK(number(json, NULL, "latency_ns") > 0, "latency");
	}
	json_decref(json);
}

static void test_trace(void **state)
{
	struct rig rig;
	json_t *json;
	int edges, bios;

	(void)state;
	guard(60);
	fresh_path();
	rig_up_at(&rig, path);
	edges = ask(path, "trace edge_created,edge_covered,edge_completed,"
			  "edge_expired\n");
	json = read_json(edges);
	CHECK_IS(json_array_size(json_object_get(json, "tracing")), 4);
	json_decref(json);
	bios = ask(path, "trace bio_complete,flush,bio_submit\n");
	json_decref(read_json(bios));
	rig_write(&rig, 6000 - PAGE, PAGE, 1, DBH_DONTCACHE);
	rig_write(&rig, 100, 7000, 1, DBH_DONTCACHE);
	rig_write(&rig, 1000, 6000, 1, DBH_DONTCACHE);
	rig_write(&rig, 2 * PAGE - 7100, 7100, 1, DBH_DONTCACHE | DBH_DSYNC);
	expect_edge(edges, "edge_created", 1, 0, 6000 - PAGE);
	expect_edge(edges, "edge_covered", 1, 7000 - PAGE, 100);
	expect_edge(edges, "edge_covered", 1, 6000 - PAGE, 1000);
	expect_edge(edges, "edge_covered", 1, 7100 - PAGE, 2 * PAGE - 7100);
	expect_edge(edges, "edge_completed", 1, 0, 0);
	expect_bio(bios, "bio_submit", PAGE, PAGE);
	expect_bio(bios, "bio_complete", PAGE, PAGE);
	json = expect(bios, "flush");
	CHECK_IS(number(json, NULL, "waiters"), 1);
	CHECK_IS(number(json, NULL, "errno"), 0);
	json_decref(json);
	/* And at the close the one that nobody completes. */
	rig_write(&rig, 10, 9 * PAGE, 1, DBH_DONTCACHE);
	expect_edge(edges, "edge_created", 9, 0, 10);
	json = get_stat(path);
	CHECK_IS(number(json, "trace", "clients"), 2);
	json_decref(json);
	close(edges);
	close(bios);
	rig_down(&rig);
}

static json_int_t tracers(void)
{
	json_t *json = get_stat(path);
	json_int_t nr = number(json, "trace", "clients");

	json_decref(json);
	return nr;
}

/* All who are slow are gone after a while, and the engine went on. */
static void test_slow(void **state)
{
	struct rig rig;
	int silent, deaf, sender;
	char *line;
	uint64_t lost = 0;

	(void)state;
	guard(120);
	fresh_path();
	rig_up_at(&rig, path);
	silent = ask(path, "sta");
	sender = ask(path, "stat\nand more\n");
	deaf = ask(path, "trace\n");
	/* Until what it does not read no longer fits. */
	for (unsigned i = 0; !lost; i++) {
		json_t *json;

		for (unsigned j = 0; j < 1000; j++)
			rig_write(&rig, 1, 2 * PAGE * (j % 100), 1,
				  DBH_DONTCACHE);
		json = get_stat(path);
		lost = (uint64_t)number(json, "trace", "lost");
		json_decref(json);
	}
	json_decref(read_json(sender));
	check_end(sender);
	check_end(silent);
	while (tracers())
		usleep(10000);
	while ((line = read_line(deaf))) /* what fitted; then the end */
		free(line);
	close(deaf);
	check_alive();
	rig_down(&rig);
}

/* ---- who may ask, and forks ------------------------------------------ */

static int wait_status(pid_t pid)
{
	int status;

	CHECK_IS(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

#define NOBODY 65534

/* One of another user asks. */
static void ask_as_nobody(void)
{
	if (setgid(NOBODY) || setuid(NOBODY))
		_exit(9);
	check_refused(ask(path, "stat\n"), "not yours");
	_exit(0);
}

static void test_credentials(void **state)
{
	struct dbh_engine *e;
	pid_t pid;

	(void)state;
	guard(60);
	if (geteuid()) {
		print_message("not root: no other user to be\n");
		skip();
	}
	fresh_path();
	CHECK_OK(create(path, &e));
	/* Whoever has opened the doors: the engine looks who it is. */
	CHECK(!chmod(path, 0666) && !chmod(scratch_dir(), 0755), "chmod");
	pid = fork();
	if (!pid)
		ask_as_nobody();
	CHECK_IS(wait_status(pid), 0);
	check_alive();
	CHECK_OK(dbh_engine_destroy(e));
}

static void test_forked_child(void **state)
{
	struct dbh_engine *e;
	pid_t pid;

	(void)state;
	guard(60);
	fresh_path();
	CHECK_OK(create(path, &e));
	pid = fork();
	if (!pid)
		_exit(dbh_engine_destroy(e) != -EPERM);
	CHECK_IS(wait_status(pid), 0);
	check_alive();
	CHECK_OK(dbh_engine_destroy(e));
}

/* In a child: an engine that is not destroyed, and a grandchild that holds all
 * of its descriptors until @fd has an end. */
static void leave_engine(int fd)
{
	struct dbh_engine *e;
	char byte;

	if (create(path, &e))
		_exit(1);
	if (!fork()) {
		_exit(read(fd, &byte, 1) != 0);
	}
	_exit(0);
}

static void test_dead_parent(void **state)
{
	struct dbh_engine *e;
	int fds[2];
	pid_t pid;

	(void)state;
	guard(60);
	fresh_path();
	CHECK(!pipe(fds), "pipe");
	pid = fork();
	if (!pid) {
		close(fds[1]);
		leave_engine(fds[0]);
	}
	CHECK_IS(wait_status(pid), 0);
	CHECK_OK(create(path, &e));
	check_alive();
	CHECK_OK(dbh_engine_destroy(e));
	close(fds[1]);
	close(fds[0]);
}

static int body(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dead_parent),
		cmocka_unit_test(test_mode),
		cmocka_unit_test(test_directory),
		cmocka_unit_test(test_bad_paths),
		cmocka_unit_test(test_stale_and_live),
		cmocka_unit_test(test_two_engines),
		cmocka_unit_test(test_stat),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_trace),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_credentials),
		cmocka_unit_test(test_forked_child),
	};

	(void)argc;
	(void)argv;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(int argc, char **argv)
{
	return scratch_run(body, argc, argv);
}
