/* SPDX-License-Identifier: MIT */
/*
 * fragment: two files that grow in turn, by direct writes, so that the file
 * system allocates their blocks in turn.
 */
#include "bench/fragment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/fiemap.h>
#include <linux/fs.h>

#include "bench/pattern.h"
#include "bench/place.h"
#include "bench/say.h"
#include "bench/stop.h"

#define PIECE_BLOCKS 8

static int write_pieces(const struct layout *l, uint64_t piece, int fd,
			int filler)
{
	uint64_t off;

	for (off = 0; off < l->size; off += piece) {
		const void *mem = pattern_at(l->pattern, l->phases[0], off);

		if (stop_requested())
			return -EINTR;
		if (pwrite(fd, mem, piece, (off_t)off) != (ssize_t)piece ||
		    pwrite(filler, mem, piece, (off_t)off) != (ssize_t)piece)
			return errno ? -errno : -EIO;
	}
	/* The last piece was written whole. */
	if (ftruncate(fd, (off_t)l->size) || fsync(fd) || fsync(filler))
		return -errno;
	return 0;
}

int fragment_write(const struct layout *l, const struct place *p)
{
	int flags = O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC;
	uint64_t block = p->block_bytes;
	int fd, filler, ret;

	if (block < p->direct_align)
		block = p->direct_align;
	fd = open(p->file, flags, 0600);
	filler = fd < 0 ? -1 : open(p->filler, flags, 0600);
	errno = filler < 0 ? errno : 0;
	ret = filler < 0 ? -errno :
			   write_pieces(l, block * PIECE_BLOCKS, fd, filler);
	if (ret && ret != -EINTR)
		complain("cannot write a fragmented file in %s: %s", p->dir,
			 strerror(-ret));
	if (fd >= 0) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
	if (filler >= 0)
		close(filler);
	return ret;
}

int64_t fragment_extents(const char *path)
{
	struct fiemap map = { .fm_length = FIEMAP_MAX_OFFSET };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int64_t count = -1;

	if (fd < 0)
		return -1;
	if (!ioctl(fd, FS_IOC_FIEMAP, &map))
		count = map.fm_mapped_extents;
	close(fd);
	return count;
}
