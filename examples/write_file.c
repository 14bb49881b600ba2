/* SPDX-License-Identifier: MIT */
/*
 * write_file: copy standard input to a file, and leave nothing of it in any
 * cache.
 *
 *     cc write_file.c -o write_file $(pkg-config --cflags --libs dropbehind)
 *     ./write_file copy.img < disk.img
 */
#include <dropbehind/dropbehind.h>

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Records of any size: no alignment is asked for. */
#define RECORD_BYTES 47008

static int fail(const char *what, int error)
{
	fprintf(stderr, "write_file: %s: %s\n", what, strerror(-error));
	return 1;
}

static int copy_stdin(struct dbh_file *file)
{
	static char record[RECORD_BYTES];
	off_t off = 0;
	ssize_t got;
	ssize_t put;

	while ((got = read(STDIN_FILENO, record, sizeof(record))) > 0) {
		put = dbh_pwrite(file, record, (size_t)got, off, DBH_DONTCACHE);
		if (put < 0)
			return fail("write", (int)put);
		/* Fewer bytes than asked for: there was no room for more. */
		if (put < got) {
			fputs("write_file: short write\n", stderr);
			return 1;
		}
		off += put;
	}
	if (got < 0) {
		perror("write_file: standard input");
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct dbh_engine *engine;
	struct dbh_file *file;
	int status;
	int ret;

	if (argc != 2) {
		fputs("usage: write_file FILE < DATA\n", stderr);
		return 2;
	}

	ret = dbh_engine_create(NULL, &engine);
	if (ret < 0)
		return fail("engine", ret);
	ret = dbh_open(engine, argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0666,
		       &file);
	if (ret < 0) {
		dbh_engine_destroy(engine);
		return fail(argv[1], ret);
	}

	status = copy_stdin(file);

	/* Durable from here on; each error is told once, so ask everywhere. */
	ret = dbh_fsync(file);
	if (ret < 0)
		status = fail("sync", ret);
	ret = dbh_close(file);
	if (ret < 0)
		status = fail("close", ret);
	ret = dbh_engine_destroy(engine);
	if (ret < 0)
		status = fail("engine", ret);
	return status;
}
