/* SPDX-License-Identifier: MIT */
/*
 * kcache: see kcache.h. The numbers of system calls and fields that older
 * headers lack are spelled out here and nowhere else.
 */
#include "kcache.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
/* The magics that <linux/magic.h> lacks, and one that it has wrong. */
#define MAGIC_HUGETLBFS 0x958458f6ul
#define MAGIC_RAMFS 0x858458f6ul
#define MAGIC_BCACHEFS 0xca451a4eul
/* Fields of struct statx that came with 6.1; the structure always had room. */
#define ASK_DIOALIGN 0x2000u
#define DIO_MEM_ALIGN_AT 0x98
#define DIO_OFFSET_ALIGN_AT 0x9c

#define ALIGN_MIN 512u
#define ALIGN_MAX 65536u

struct cachestat_range_abi {
	uint64_t off, len;
};

struct cachestat_abi {
	uint64_t cache, dirty, writeback, evicted, recently_evicted;
};

/* ---- residency ------------------------------------------------------- */

/* Where kcache_tells() looks: beyond what a last large folio may hold. */
#define FAR_BEYOND (16u << 20)

static uint64_t page_start(uint64_t pos)
{
	return pos / KCACHE_PAGE * KCACHE_PAGE;
}

static uint64_t page_end(uint64_t end)
{
	return page_start(end + KCACHE_PAGE - 1);
}

/* Slower; before 6.5 the only way. Tells only who may write the file; others
 * are told "all". @map: room for a byte per page, or NULL. */
static int64_t resident_by_mincore(int fd, uint64_t start, uint64_t len,
				   unsigned char *map)
{
	size_t nr = (size_t)(len / KCACHE_PAGE);
	unsigned char *vec = map ? map : malloc(nr);
	int64_t n = 0;
	void *at;

	at = mmap(NULL, (size_t)len, PROT_NONE, MAP_SHARED, fd, (off_t)start);
	if (at == MAP_FAILED)
		n = -errno;
	else if (!vec || mincore(at, (size_t)len, vec))
		n = -ENOMEM;
	for (size_t i = 0; n >= 0 && i < nr; i++)
		n += vec[i] &= 1;
	if (!map)
		free(vec);
	if (at != MAP_FAILED)
		munmap(at, (size_t)len);
	return n;
}

static int64_t resident_by_cachestat(const struct kcache *kc, uint64_t start,
				     uint64_t len)
{
	struct cachestat_range_abi range = { start, len };
	struct cachestat_abi cs;

	if (kc->stacked)
		return -ENOSYS;
	if (syscall(SYS_cachestat, kc->fd, &range, &cs, 0))
		return -errno;
	return (int64_t)cs.cache;
}

int64_t kcache_resident(const struct kcache *kc, uint64_t pos, uint64_t len)
{
	uint64_t start = page_start(pos), end = page_end(pos + len);
	int64_t n = resident_by_cachestat(kc, start, end - start);

	if (n != -ENOSYS)
		return n;
	/* A mapping is always of the file that caches. */
	return resident_by_mincore(kc->fd, start, end - start, NULL);
}

/* cachestat only counts: halves, until they hold all or nothing. */
static int64_t map_by_halves(const struct kcache *kc, uint64_t start,
			     uint64_t nr, unsigned char *map)
{
	uint64_t half = nr / 2;
	int64_t n, left, right;

	n = resident_by_cachestat(kc, start, nr * KCACHE_PAGE);
	if (n < 0)
		return n;
	if (n == 0 || (uint64_t)n >= nr) {
		memset(map, n > 0, nr);
		return n ? (int64_t)nr : 0;
	}
	left = map_by_halves(kc, start, half, map);
	if (left < 0)
		return left;
	right = map_by_halves(kc, start + half * KCACHE_PAGE, nr - half,
			      map + half);
	return right < 0 ? right : left + right;
}

int64_t kcache_map(const struct kcache *kc, uint64_t pos, uint64_t len,
		   unsigned char *map)
{
	uint64_t start = page_start(pos), end = page_end(pos + len);
	int64_t n = map_by_halves(kc, start, (end - start) / KCACHE_PAGE, map);

	if (n != -ENOSYS)
		return n;
	return resident_by_mincore(kc->fd, start, end - start, map);
}

bool kcache_tells(const struct kcache *kc, uint64_t size)
{
	/* No page of the file: who sees one is told "all". */
	return kcache_resident(kc, page_end(size) + FAR_BEYOND, 1) == 0;
}

void kcache_write_out_start(const struct kcache *kc, uint64_t pos, uint64_t len)
{
	/* An error shows again when the data is waited for. */
	if (!kc->stacked)
		sync_file_range(kc->fd, (off_t)pos, (off_t)len,
				SYNC_FILE_RANGE_WRITE);
}

static int write_out_once(const struct kcache *kc, uint64_t pos, uint64_t len)
{
	const unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE |
			     SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

	/* Dear, but the only call that is passed down and tells of errors. */
	if (kc->stacked)
		return fdatasync(kc->fd) ? -errno : 0;
	return sync_file_range(kc->fd, (off_t)pos, (off_t)len, all) ? -errno :
								      0;
}

int kcache_write_out(const struct kcache *kc, uint64_t pos, uint64_t len)
{
	int err;

	do {
		err = write_out_once(kc, pos, len);
	} while (err == -EINTR);
	return err;
}

void kcache_drop(const struct kcache *kc, uint64_t pos, uint64_t len)
{
	uint64_t start = page_start(pos), end = page_end(pos + len);

	posix_fadvise(kc->fd, (off_t)start, (off_t)(end - start),
		      POSIX_FADV_DONTNEED);
}

/* ---- what the file system says --------------------------------------- */

static bool is_power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

static void ask_alignment(int fd, struct kcache_fs *fs)
{
	struct statx stx;
	uint32_t mem, offset;

	if (statx(fd, "", AT_EMPTY_PATH, ASK_DIOALIGN, &stx) ||
	    !(stx.stx_mask & ASK_DIOALIGN)) {
		/* Not told: a block suits all but the odd device; the first
		 * EINVAL will say. */
		fs->offset_align = fs->block_bytes;
		fs->mem_align = KCACHE_PAGE;
		return;
	}
	memcpy(&mem, (char *)&stx + DIO_MEM_ALIGN_AT, sizeof(mem));
	memcpy(&offset, (char *)&stx + DIO_OFFSET_ALIGN_AT, sizeof(offset));
	/* A zero means that this file has no direct I/O. */
	if (!is_power_of_two(mem) || !is_power_of_two(offset) ||
	    mem > ALIGN_MAX || offset > ALIGN_MAX)
		fs->direct = false;
	else {
		fs->mem_align = mem > ALIGN_MIN ? mem : ALIGN_MIN;
		fs->offset_align = offset > ALIGN_MIN ? offset : ALIGN_MIN;
	}
}

int kcache_ask_fs(int fd, struct kcache_fs *out)
{
	struct kcache_fs fs = {
		.direct = true,
		.offset_align = ALIGN_MIN,
		.mem_align = ALIGN_MIN,
		.block_bytes = KCACHE_PAGE,
	};
	struct statfs sfs;
	unsigned long type;
	struct stat st;

	if (fstat(fd, &st) || fstatfs(fd, &sfs))
		return -errno;
	type = (unsigned long)sfs.f_type & 0xfffffffful;
	fs.in_memory = type == TMPFS_MAGIC || type == MAGIC_RAMFS ||
		       type == MAGIC_HUGETLBFS;
	fs.stacked = type == OVERLAYFS_SUPER_MAGIC;
	fs.mixes = type == BTRFS_SUPER_MAGIC;
	/*
	 * A network file system reports its wsize as f_bsize: no block. Those
	 * that have a device but no device number are named.
	 */
	if (major(st.st_dev) || type == BTRFS_SUPER_MAGIC ||
	    type == MAGIC_BCACHEFS) {
		if (is_power_of_two((uint64_t)sfs.f_bsize) &&
		    sfs.f_bsize > KCACHE_PAGE)
			fs.block_bytes = sfs.f_bsize < ALIGN_MAX ?
						 (uint32_t)sfs.f_bsize :
						 ALIGN_MAX;
	}
	ask_alignment(fd, &fs);
	*out = fs;
	return 0;
}
