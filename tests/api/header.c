/* SPDX-License-Identifier: MIT */
/*
 * header: the public header stands alone and is clean, as C99 and as C++.
 * Compiled, not run; tests/api/test_header.sh.
 */
#include <dropbehind/dropbehind.h>
#include <dropbehind/dropbehind.h> /* twice does no harm */

extern int dbh_header_test(struct dbh_engine *engine);

static void done(void *arg, ssize_t result)
{
	*(ssize_t *)arg = result;
}

/* A use of each kind of declaration. */
int dbh_header_test(struct dbh_engine *engine)
{
	dbh_cb *cb = done;
	struct dbh_options options;
	struct dbh_stats stats;
	struct dbh_file_info info;
	struct dbh_residency residency;
	struct dbh_bdi_stats bdi;
	unsigned flags = DBH_DONTCACHE | DBH_DSYNC | DBH_SYNC | DBH_APPEND |
			 DBH_NOWAIT | DBH_DEFER;
	size_t size = sizeof(options) + sizeof(info) + sizeof(residency) +
		      sizeof(bdi);

	stats.struct_size = sizeof(stats);
	return cb != 0 && size && flags && DBH_IO_AUTO == 0 &&
	       dbh_stats(engine, &stats) == 0;
}
