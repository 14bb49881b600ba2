/* SPDX-License-Identifier: MIT */
/*
 * place: makes a directory of its own below --dir, or has a scratch file
 * system made, and finds out on what it stands.
 */
#include "bench/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "bench/options.h"
#include "bench/own_dir.h"
#include "bench/say.h"
#include "bench/stop.h"

#define MIB ((uint64_t)1 << 20)

/* The file, with --fragment the filler, which is as large, and the hot one. */
static uint64_t needed_bytes(const struct bench_options *o)
{
	return o->total_bytes * (o->fragment ? 2 : 1) + o->hot_bytes;
}

static int open_scratch(struct place *p, const struct bench_options *o)
{
	struct scratch *s = &p->scratch;
	int ret;

	s->fs = o->scratch_fs;
	s->block_bytes = o->block_bytes;
	s->size_bytes = needed_bytes(o) + o->total_bytes / 2 + 512 * MIB;
	s->size_bytes -= s->size_bytes % MIB;
	ret = scratch_open(s);
	if (!ret)
		ret = scratch_fresh(s);
	snprintf(p->dir, sizeof(p->dir), "%s", s->dir);
	return ret;
}

static int open_dir(struct place *p, const struct bench_options *o)
{
	const char *base = o->dir;
	int ret;

	if (!base)
		base = getenv("TMPDIR");
	if (!base || !base[0])
		base = ".";
	ret = own_dir_create(base, p->dir, sizeof(p->dir), &p->dir_lock);
	if (ret)
		complain("cannot make a directory in %s: %s", base,
			 strerror(-ret));
	return ret;
}

static int check_room(const struct place *p, uint64_t needed)
{
	struct statvfs sv;
	uint64_t have;

	if (statvfs(p->dir, &sv)) {
		int err = errno;

		complain("statvfs of %s: %s", p->dir, strerror(err));
		return -err;
	}
	have = (uint64_t)sv.f_bavail * sv.f_frsize;
	if (have >= needed + 16 * MIB)
		return 0;
	complain("not enough room for %llu MiB: %llu MiB are free in %s",
		 (unsigned long long)(needed / MIB),
		 (unsigned long long)(have / MIB), p->dir);
	return -ENOSPC;
}

/* What direct I/O wants here, asked with a file that is then removed. */
static unsigned find_direct_align(const struct place *p)
{
	unsigned align = 4096;
	struct statx stx;
	int fd = open(p->file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return align;
	if (!statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) &&
	    (stx.stx_mask & STATX_DIOALIGN) && stx.stx_dio_offset_align)
		align = stx.stx_dio_offset_align;
	close(fd);
	unlink(p->file);
	return align;
}

static void name_files(struct place *p)
{
	snprintf(p->file, sizeof(p->file), "%s/file", p->dir);
	snprintf(p->filler, sizeof(p->filler), "%s/filler", p->dir);
	snprintf(p->hot, sizeof(p->hot), "%s/hot", p->dir);
	p->traces =
		(struct stop_traces){ { p->file, p->filler, p->hot }, p->dir };
}

int place_open(struct place *p, const struct bench_options *o)
{
	struct statvfs sv;
	int ret;

	memset(p, 0, sizeof(*p));
	p->dir_lock = -1;
	p->on_scratch = o->scratch_fs;
	ret = p->on_scratch ? open_scratch(p, o) : open_dir(p, o);
	if (ret)
		return ret;
	name_files(p);
	if (!p->on_scratch)
		stop_remember(&p->traces);
	ret = check_room(p, needed_bytes(o));
	if (ret)
		return ret;
	device_find(&p->device, p->dir);
	p->block_bytes = statvfs(p->dir, &sv) ? 0 : sv.f_bsize;
	p->direct_align = find_direct_align(p);
	return 0;
}

int place_fresh(struct place *p)
{
	int fd;

	if (p->on_scratch)
		return scratch_fresh(&p->scratch);
	unlink(p->file);
	unlink(p->filler);
	unlink(p->hot);
	/* The work of removing a large file belongs to no contender. */
	fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		syncfs(fd);
		close(fd);
	}
	return 0;
}

void place_close(struct place *p)
{
	if (p->on_scratch) {
		scratch_close(&p->scratch);
		return;
	}
	if (!p->dir[0])
		return;
	unlink(p->file);
	unlink(p->filler);
	unlink(p->hot);
	stop_remember(NULL);
	rmdir(p->dir);
	if (p->dir_lock >= 0)
		close(p->dir_lock);
}
