/* SPDX-License-Identifier: MIT */
/*
 * contender: one way to write a file. The kernel's are in kernel.c, the
 * engine's in engine.c, and the one that does not write in contender.c.
 */
#ifndef BENCH_CONTENDER_H
#define BENCH_CONTENDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <dropbehind/dropbehind.h>

struct contender;
struct bench_options;

/** struct target - the file that a contender shall open */
struct target {
	const char *path;
	bool dsync; /* every write is durable when it returns */
	bool warm; /* read the whole file into the contender's cache */
	uint64_t budget_bytes; /* of the engine; 0: its default */
	uint64_t dirty_bytes; /* of the engine; 0: its default */
	unsigned kick; /* of the engine: enum dbh_kick */
	const char *control_path; /* of the engine's control socket; or NULL */
	const char *hot_path; /* read it into the contender's cache; or NULL */
};

/** struct contender_report - what a contender says of itself at its end */
struct contender_report {
	bool has_engine; /* the rest is valid */
	struct dbh_stats stats;
	struct dbh_file_info info;
	int64_t hot_pages; /* of the hot file, still cached; -1: none */
};

/**
 * struct contender_ops - a contender; all members are required but read_hot
 * @name: as on the command line
 * @idle: nobody shall call write()
 * @whole_blocks_only: it takes only records of whole blocks
 *
 * Nothing here complains: the caller knows the case, and does.
 */
struct contender_ops {
	const char *name;
	bool idle;
	bool whole_blocks_only;

	/*
	 * Can it work in this directory? Writes a small file @path, which it
	 * leaves to the caller. 0, or a negative errno with the reason.
	 */
	int (*probe)(const char *path, uint64_t budget_bytes, char *reason,
		     size_t reason_size);

	/* Open the target for writing; made if it does not exist. */
	int (*open)(const struct target *t, struct contender **out);

	/* Write all of it, from any thread. 0 or a negative errno. */
	int (*write)(struct contender *c, const void *buf, size_t len,
		     off_t off);

	/* Until all that was written is durable. */
	int (*sync)(struct contender *c);

	/*
	 * A descriptor of the open file for looking at, or a negative errno;
	 * the caller closes it before close(). Opening the file once more
	 * instead would take its lease from an engine.
	 */
	int (*borrow_fd)(struct contender *c);

	/*
	 * Optional: read all of it from the hot file, through the contender's
	 * own cache, from any thread. 0 or a negative errno.
	 */
	int (*read_hot)(struct contender *c, void *buf, size_t len, off_t off);

	/* Gone whatever is returned; the report is filled in regardless. */
	int (*close)(struct contender *c, struct contender_report *report);
};

extern const struct contender_ops contender_idle;
extern const struct contender_ops contender_kernel_none;
extern const struct contender_ops contender_kernel_dontcache;
extern const struct contender_ops contender_kernel_direct;
extern const struct contender_ops contender_engine_dontcache;

#endif
