/* SPDX-License-Identifier: MIT */
/*
 * pattern: makes the table, writes files from it, compares files with it.
 */
#include "bench/pattern.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/say.h"
#include "bench/stop.h"

#define CHUNK ((size_t)1 << 20)

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

int pattern_create(struct pattern *p, size_t longest)
{
	void *mem;
	size_t i;

	if (longest < CHUNK)
		longest = CHUNK;
	p->longest = longest;
	p->size = (PATTERN_PERIOD + longest + 4095) / 4096 * 4096;
	if (posix_memalign(&mem, 4096, p->size)) {
		complain("out of memory for records of %zu bytes", longest);
		return -ENOMEM;
	}
	p->bytes = mem;
	for (i = 0; i < PATTERN_PERIOD; i += 8) {
		uint64_t word = mix(i / 8);

		memcpy(p->bytes + i, &word, sizeof(word));
	}
	for (i = PATTERN_PERIOD; i < p->size; i++)
		p->bytes[i] = p->bytes[i - PATTERN_PERIOD];
	return 0;
}

void pattern_destroy(struct pattern *p)
{
	free(p->bytes);
	p->bytes = NULL;
}

/* The first byte that differs, or @len. */
static size_t first_difference(const uint8_t *a, const uint8_t *b, size_t len)
{
	size_t i = 0;

	if (!memcmp(a, b, len))
		return len;
	while (i < len && a[i] == b[i])
		i++;
	return i;
}

static int check_chunk(const struct layout *l, const uint8_t *buf, size_t len,
		       uint64_t off, char *where, size_t where_size)
{
	while (len) {
		uint64_t stripe = off / l->stripe;
		uint64_t left = l->stripe - off % l->stripe;
		size_t n = left < len ? (size_t)left : len;
		const uint8_t *want =
			pattern_at(l->pattern, l->phases[stripe & 1], off);
		size_t i = first_difference(buf, want, n);

		if (i < n) {
			snprintf(where, where_size,
				 "byte %llu is 0x%02x and should be 0x%02x",
				 (unsigned long long)(off + i), buf[i],
				 want[i]);
			return -EILSEQ;
		}
		buf += n;
		off += n;
		len -= n;
	}
	return 0;
}

static int check_size(const struct layout *l, int fd, char *where,
		      size_t where_size)
{
	struct stat st;

	if (fstat(fd, &st)) {
		int err = errno;

		snprintf(where, where_size, "fstat: %s", strerror(err));
		return -err;
	}
	if ((uint64_t)st.st_size == l->size)
		return 0;
	snprintf(where, where_size, "it has %lld bytes and should have %llu",
		 (long long)st.st_size, (unsigned long long)l->size);
	return -EILSEQ;
}

static int check_content(const struct layout *l, int fd, uint8_t *buf,
			 char *where, size_t where_size)
{
	uint64_t off = 0;
	ssize_t n;
	int ret;

	while (off < l->size) {
		if (stop_requested())
			return -EINTR;
		n = pread(fd, buf, CHUNK, (off_t)off);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			ret = n ? -errno : -EIO;
			snprintf(where, where_size, "reading at byte %llu: %s",
				 (unsigned long long)off, strerror(-ret));
			return ret;
		}
		ret = check_chunk(l, buf, (size_t)n, off, where, where_size);
		if (ret)
			return ret;
		off += (uint64_t)n;
	}
	return 0;
}

int layout_verify(const struct layout *l, const char *path, char *where,
		  size_t where_size)
{
	uint8_t *buf = malloc(CHUNK);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int ret = -ENOMEM;

	where[0] = '\0';
	if (fd < 0) {
		ret = -errno;
		snprintf(where, where_size, "open: %s", strerror(-ret));
		goto out;
	}
	if (!buf)
		goto out;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	ret = check_size(l, fd, where, where_size);
	if (!ret)
		ret = check_content(l, fd, buf, where, where_size);
out:
	if (fd >= 0)
		close(fd);
	free(buf);
	return ret;
}

static int write_content(const struct layout *l, int fd)
{
	uint64_t off = 0;
	ssize_t n;

	while (off < l->size) {
		size_t len = l->size - off < CHUNK ? (size_t)(l->size - off) :
						     CHUNK;

		if (stop_requested())
			return -EINTR;
		n = pwrite(fd, pattern_at(l->pattern, l->phases[0], off), len,
			   (off_t)off);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			off += (uint64_t)n;
	}
	return fsync(fd) ? -errno : 0;
}

int layout_write(const struct layout *l, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int ret;

	if (fd < 0) {
		ret = -errno;
		complain("cannot make %s: %s", path, strerror(-ret));
		return ret;
	}
	ret = write_content(l, fd);
	if (!ret)
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	else if (ret != -EINTR)
		complain("cannot fill %s: %s", path, strerror(-ret));
	close(fd);
	return ret;
}
