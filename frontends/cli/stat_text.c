// SPDX-License-Identifier: MIT
/*
 * stat_text: counters for people. The devices are in the layout of the kernel's
 * /sys/kernel/debug/bdi/DEVICE/stats and wb_stats, so that what reads those
 * reads these.
 */
#include "frontends/cli/stat.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

/* Labels of the kernel's width, and numbers of its. */
static void line(const char *label, uint64_t value, const char *unit)
{
	char name[48];

	snprintf(name, sizeof(name), "%s:", label);
	printf("%-20s%10" PRIu64 "%s%s\n", name, value, *unit ? " " : "",
	       unit);
}

static void kb(const char *prefix, const char *label, const json_t *from,
	       const char *name)
{
	char text[40];

	snprintf(text, sizeof(text), "%s%s", prefix, label);
	line(text, stat_number(from, NULL, name) * 4, "kB");
}

static void state(const json_t *bdi)
{
	printf("%-20s%10" PRIx64 "\n", "state:",
	       stat_number(bdi, NULL, "state"));
}

static void lists(const json_t *bdi)
{
	static const char *const names[] = { "b_dirty", "b_io", "b_more_io",
					     "b_dirty_time" };

	for (unsigned i = 0; i < 4; i++)
		line(names[i], stat_number(bdi, NULL, names[i]), "");
}

/* @all: limits of all devices; NULL: they are not shown. */
static void counters(const char *prefix, const json_t *bdi, const json_t *all)
{
	char label[40];

	kb(prefix, "Writeback", bdi, "writeback");
	kb(prefix, "Reclaimable", bdi, "dirty");
	kb(prefix, "DontcacheDirty", bdi, "dontcache_dirty");
	kb(prefix, "DirtyThresh", bdi, "dirty_thresh");
	if (all) {
		kb("", "DirtyThresh", all, "dirty_thresh");
		kb("", "BackgroundThresh", all, "background_thresh");
	}
	kb(prefix, "Dirtied", bdi, "dirtied");
	kb(prefix, "Written", bdi, "written");
	snprintf(label, sizeof(label), "%sWriteBandwidth", prefix);
	line(label, stat_number(bdi, NULL, "write_bandwidth") / 1024, "kBps");
}

static void put_bdi(const json_t *bdi, const json_t *all)
{
	printf("bdi %s\n", json_string_value(json_object_get(bdi, "dev")));
	counters("Bdi", bdi, all);
	lists(bdi);
	state(bdi);
	/* A device has one writeback context, as in a kernel without cgroups,
	 * which says that its group is 1. */
	putchar('\n');
	line("WbCgIno", 1, "");
	counters("Wb", bdi, NULL);
	lists(bdi);
	state(bdi);
	putchar('\n');
}

static void put_group(const json_t *stat, const char *title, const char *group)
{
	const char *name;
	json_t *value;

	printf("%s\n", title);
	json_object_foreach(json_object_get(stat, group), name, value)
		if (json_is_integer(value))
			line(name, (uint64_t)json_integer_value(value), "");
	putchar('\n');
}

static void put_sizes(const char *title, const json_t *of, const char *unit)
{
	const json_t *at;
	size_t i;

	printf("%s\n", title);
	json_array_foreach(json_object_get(of, "sizes"), i, at) {
		uint64_t le = stat_number(at, NULL, "le");
		char label[32];

		if (!json_is_integer(json_object_get(at, "le")))
			snprintf(label, sizeof(label), "more");
		else if (*unit)
			snprintf(label, sizeof(label), "<= %" PRIu64 " %s",
				 le / 1024, unit);
		else
			snprintf(label, sizeof(label), "<= %" PRIu64, le);
		line(label, stat_number(at, NULL, "count"), "");
	}
	putchar('\n');
}

static double us(const json_t *of, const char *name)
{
	return (double)stat_number(of, NULL, name) / 1e3;
}

static void put_latencies(const json_t *all)
{
	const char *name;
	json_t *of;

	printf("%-12s%12s%12s%12s%12s%12s\n", "latency, us", "count", "p50",
	       "p99", "p99.9", "max");
	json_object_foreach((json_t *)(uintptr_t)all, name, of)
		printf("%-12s%12" PRIu64 "%12.1f%12.1f%12.1f%12.1f\n", name,
		       stat_number(of, NULL, "count"), us(of, "p50"),
		       us(of, "p99"), us(of, "p999"), us(of, "max"));
}

void stat_text(const json_t *stat)
{
	const json_t *bios = json_object_get(stat, "bios");
	const json_t *at;
	size_t i;

	json_array_foreach(json_object_get(stat, "bdi"), i, at)
		put_bdi(at, json_object_get(stat, "pages"));
	put_group(stat, "memory, bytes", "memory");
	put_group(stat, "edges", "edges");
	put_group(stat, "kicks", "kicks");
	put_group(stat, "syncs", "sync");
	put_sizes("flushes by waiters", json_object_get(stat, "sync"), "");
	put_sizes("read bios by size", json_object_get(bios, "read"), "KiB");
	put_sizes("write bios by size", json_object_get(bios, "write"), "KiB");
	line("throttled", stat_number(stat, NULL, "throttled"), "");
	putchar('\n');
	put_latencies(json_object_get(stat, "latency_ns"));
}
