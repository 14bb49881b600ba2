/* SPDX-License-Identifier: MIT */
/*
 * sample: the first and the last record of the file, and some between them.
 */
#include "bench/sample.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/pattern.h"
#include "bench/writers.h"

/* At most, but for two records. */
#define SAMPLE_BYTES ((uint64_t)64 << 20)

/* Records of a lap that are the thread's who writes record @nr. */
static uint64_t lap_records(const struct work *k, uint64_t nr)
{
	return (k->count - nr % k->threads + k->threads - 1) / k->threads;
}

/* Of which lap is record @nr? -1: it was not written. */
static int64_t lap_of(const struct work *k, const struct writers *w,
		      uint64_t nr)
{
	uint64_t writes = writers_count(w, (unsigned)(nr % k->threads));
	uint64_t before = nr / k->threads; /* of the thread, in a lap */

	if (writes <= before)
		return -1;
	return (int64_t)((writes - before - 1) / lap_records(k, nr));
}

/* The end of the last record that was written. */
static uint64_t written_size(const struct work *k, const struct writers *w)
{
	uint64_t nr = k->count;

	while (nr && lap_of(k, w, nr - 1) < 0)
		nr--;
	return nr * k->record;
}

static int check_size(int fd, uint64_t want, char *where, size_t where_size)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if ((uint64_t)st.st_size == want)
		return 0;
	snprintf(where, where_size, "it has %lld bytes and should have %llu",
		 (long long)st.st_size, (unsigned long long)want);
	return -EILSEQ;
}

static int check_record(const struct work *k, const struct writers *w, int fd,
			uint64_t nr, char *buf, char *where, size_t where_size)
{
	int64_t lap = lap_of(k, w, nr);
	uint64_t off = nr * k->record, phase;
	ssize_t n;

	if (lap < 0)
		return 0;
	n = pread(fd, buf, k->record, (off_t)off);
	if (n < 0)
		return -errno;
	phase = pattern_phase(k->phase_number + (unsigned)lap);
	if ((uint64_t)n == k->record &&
	    !memcmp(buf, pattern_at(k->pattern, phase, off), k->record))
		return 0;
	snprintf(where, where_size, "record %llu is not as in lap %lld",
		 (unsigned long long)nr, (long long)lap);
	return -EILSEQ;
}

/* Records a fixed way apart, with the first and the last. */
static int check_samples(const struct work *k, const struct writers *w, int fd,
			 char *buf, char *where, size_t where_size)
{
	uint64_t total = k->count * k->record;
	uint64_t step = (total + SAMPLE_BYTES - 1) / SAMPLE_BYTES, nr;
	int ret = 0;

	/* Not always the same thread's. */
	if (step > 1 && step % k->threads == 0)
		step++;
	for (nr = 0; nr < k->count && !ret; nr += step)
		ret = check_record(k, w, fd, nr, buf, where, where_size);
	if (!ret)
		ret = check_record(k, w, fd, k->count - 1, buf, where,
				   where_size);
	return ret;
}

int sample_verify(const struct work *work, const struct writers *w,
		  const char *path, char *where, size_t where_size)
{
	char *buf = malloc(work->record);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int ret = fd < 0 ? -errno : buf ? 0 : -ENOMEM;

	where[0] = '\0';
	if (!ret) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		ret = check_size(fd, written_size(work, w), where, where_size);
	}
	if (!ret)
		ret = check_samples(work, w, fd, buf, where, where_size);
	if (ret && !where[0])
		snprintf(where, where_size, "%s", strerror(-ret));
	if (fd >= 0)
		close(fd);
	free(buf);
	return ret;
}
