/* SPDX-License-Identifier: MIT */
/*
 * device: reads /proc/self/mountinfo and /sys/dev/block.
 */
#include "bench/device.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* "ID PARENT MAJ:MIN ROOT DIR OPTIONS [FIELDS...] - TYPE SOURCE OPTIONS" */
static bool parse_mount(const char *line, uint64_t id, char *fs, char *source)
{
	const char *rest = strstr(line, " - ");

	return strtoull(line, NULL, 10) == id && rest &&
	       sscanf(rest, " - %31s %4095s", fs, source) == 2;
}

/* @fs of 32 and @source of PATH_MAX bytes */
static bool find_mount(const char *path, char *fs, char *source)
{
	char *line = NULL;
	size_t size = 0;
	bool found = false;
	struct statx stx;
	FILE *f;

	if (statx(AT_FDCWD, path, 0, STATX_MNT_ID, &stx) ||
	    !(stx.stx_mask & STATX_MNT_ID))
		return false;
	f = fopen("/proc/self/mountinfo", "re");
	if (!f)
		return false;
	while (!found && getline(&line, &size, f) > 0)
		found = parse_mount(line, stx.stx_mnt_id, fs, source);
	free(line);
	fclose(f);
	return found;
}

static dev_t device_number(const char *path, const char *source)
{
	struct stat st;

	if (!stat(path, &st) && major(st.st_dev))
		return st.st_dev;
	if (source[0] == '/' && !stat(source, &st) && S_ISBLK(st.st_mode))
		return st.st_rdev;
	return 0;
}

static void read_name(struct device *d, dev_t dev)
{
	char path[128], line[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/uevent", major(dev),
		 minor(dev));
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "DEVNAME=%63s", d->name) == 1)
			break;
	if (f)
		fclose(f);
}

static void name_stats(struct device *d, dev_t dev)
{
	char dir[64], path[128];

	snprintf(dir, sizeof(dir), "/sys/dev/block/%u:%u", major(dev),
		 minor(dev));
	snprintf(path, sizeof(path), "%s/partition", dir);
	snprintf(d->stat_path, sizeof(d->stat_path), "%s/stat", dir);
	snprintf(d->flush_path, sizeof(d->flush_path), "%s/%sstat", dir,
		 access(path, F_OK) ? "" : "../");
}

static void read_sector_size(struct device *d, dev_t dev)
{
	/* A partition's queue is its disk's. */
	static const char *const queues[] = { "queue", "../queue" };
	char path[128];
	size_t i;
	FILE *f;

	for (i = 0; i < 2 && !d->sector_bytes; i++) {
		snprintf(path, sizeof(path),
			 "/sys/dev/block/%u:%u/%s/logical_block_size",
			 major(dev), minor(dev), queues[i]);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (fscanf(f, "%u", &d->sector_bytes) != 1)
			d->sector_bytes = 0;
		fclose(f);
	}
}

void device_find(struct device *d, const char *path)
{
	char source[PATH_MAX] = "";
	struct device_counts counts;
	dev_t dev;

	memset(d, 0, sizeof(*d));
	if (!find_mount(path, d->fs, source))
		strcpy(d->fs, "unknown");
	dev = device_number(path, source);
	if (!dev)
		return;
	name_stats(d, dev);
	read_name(d, dev);
	read_sector_size(d, dev);
	d->known = true;
	d->known = device_count(d, &counts);
}

static FILE *open_stat(const char *path)
{
	return path[0] ? fopen(path, "re") : NULL;
}

static bool read_sectors(const struct device *d, uint64_t *out)
{
	unsigned long long sectors;
	FILE *f = open_stat(d->stat_path);
	bool good = f && fscanf(f, "%*u %*u %llu", &sectors) == 1;

	if (f)
		fclose(f);
	if (good)
		*out = sectors;
	return good;
}

/* The 16th field. */
static int64_t read_flushes(const struct device *d)
{
	FILE *f = open_stat(d->flush_path);
	unsigned long long value;
	int64_t flushes = -1;
	int field;

	for (field = 1; f && fscanf(f, "%llu", &value) == 1; field++)
		if (field == 16)
			flushes = (int64_t)value;
	if (f)
		fclose(f);
	return flushes;
}

bool device_count(const struct device *d, struct device_counts *out)
{
	if (!d->known || !read_sectors(d, &out->sectors_read))
		return false;
	out->flushes = read_flushes(d);
	return true;
}
