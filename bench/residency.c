/* SPDX-License-Identifier: MIT */
/*
 * residency: pages of a file in the kernel's page cache.
 */
#include "bench/residency.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench/stop.h"

#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif

/* The kernel's structures; Debian 12's headers are older than they are. */
struct cache_range {
	uint64_t off;
	uint64_t len;
};

struct cache_counts {
	uint64_t cached;
	uint64_t dirty;
	uint64_t writeback;
	uint64_t evicted;
	uint64_t recently_evicted;
};

static int64_t by_mincore(int fd, uint64_t off, uint64_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned char *vec = NULL;
	int64_t count = 0;
	struct stat st;
	uint64_t pages, i;
	void *map;

	if (fstat(fd, &st))
		return -errno;
	if (off >= (uint64_t)st.st_size)
		return 0;
	if (!len || len > (uint64_t)st.st_size - off)
		len = (uint64_t)st.st_size - off;
	len += off % page;
	off -= off % page;
	pages = (len + page - 1) / page;
	map = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, (off_t)off);
	if (map == MAP_FAILED)
		return -errno;
	vec = malloc(pages);
	if (!vec || mincore(map, len, vec))
		count = vec ? -errno : -ENOMEM;
	for (i = 0; count >= 0 && i < pages; i++)
		count += vec[i] & 1;
	free(vec);
	munmap(map, len);
	return count;
}

int64_t residency_range(int fd, uint64_t off, uint64_t len)
{
	struct cache_range range = { .off = off, .len = len };
	struct cache_counts counts = { 0 };

	if (!syscall(__NR_cachestat, fd, &range, &counts, 0))
		return (int64_t)counts.cached;
	if (errno != ENOSYS && errno != EPERM && errno != EOPNOTSUPP)
		return -errno;
	return by_mincore(fd, off, len);
}

int residency_fill(const char *path)
{
	static char buf[1 << 20];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 1;

	if (fd < 0)
		return -errno;
	/* Far ahead, which gives large folios. */
	posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	while (n > 0 && !stop_requested())
		n = read(fd, buf, sizeof(buf));
	n = n < 0 ? -errno : 0;
	close(fd);
	return (int)n;
}

int64_t residency_path(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int64_t pages;

	if (fd < 0)
		return -errno;
	pages = residency_range(fd, 0, 0);
	close(fd);
	return pages;
}
