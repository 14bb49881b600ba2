// SPDX-License-Identifier: MIT
/*
 * answer: the counters as JSON. Its names are the fields of the public
 * structures, in groups; man/dropbehind-stat.1 has them.
 */
#include "room.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "dropbehind/dropbehind.h"
#include "mm/engine.h"

/** struct field - a number of a structure, and its name */
struct field {
	const char *name;
	size_t offset;
};

#define FIELD(type, name, member)                      \
	{                                              \
		name, offsetof(struct dbh_##type, member) \
	}
#define NR(table) (sizeof(table) / sizeof((table)[0]))

static const struct field memory_fields[] = {
	FIELD(stats, "limit_bytes", memory_limit_bytes),
	FIELD(stats, "used_bytes", memory_used_bytes),
	FIELD(stats, "peak_bytes", memory_peak_bytes),
};
static const struct field page_fields[] = {
	FIELD(stats, "dirty", dirty),
	FIELD(stats, "writeback", writeback),
	FIELD(stats, "dontcache_dirty", dontcache_dirty),
	FIELD(stats, "dirtied", dirtied),
	FIELD(stats, "written", written),
	FIELD(stats, "dirty_thresh", dirty_thresh),
	FIELD(stats, "background_thresh", background_thresh),
};
static const struct field edge_fields[] = {
	FIELD(stats, "live", edges_live),
	FIELD(stats, "completed", edges_completed),
	FIELD(stats, "expired", edges_expired),
	FIELD(stats, "filled_read", edges_filled_read),
	FIELD(stats, "filled_zero", edges_filled_zero),
};
static const struct field kick_fields[] = {
	FIELD(stats, "rounds", kicks),
	FIELD(stats, "skips", kick_skips),
};
static const struct field sync_fields[] = {
	FIELD(stats, "flushes", flushes),
	FIELD(stats, "waiters", sync_waiters),
	FIELD(stats, "waiters_max", sync_waiters_max),
};
static const struct field bdi_fields[] = {
	FIELD(bdi_stats, "writeback", writeback),
	FIELD(bdi_stats, "dirty", dirty),
	FIELD(bdi_stats, "dontcache_dirty", dontcache_dirty),
	FIELD(bdi_stats, "dirtied", dirtied),
	FIELD(bdi_stats, "written", written),
	FIELD(bdi_stats, "b_dirty", b_dirty),
	FIELD(bdi_stats, "b_io", b_io),
	FIELD(bdi_stats, "b_more_io", b_more_io),
	FIELD(bdi_stats, "b_dirty_time", b_dirty_time),
	FIELD(bdi_stats, "state", state),
	FIELD(bdi_stats, "dirty_thresh", dirty_thresh),
	FIELD(bdi_stats, "background_thresh", background_thresh),
	FIELD(bdi_stats, "write_bandwidth", write_bandwidth),
};
static const struct field latency_fields[] = {
	FIELD(latency, "count", count),	  FIELD(latency, "sum", sum_ns),
	FIELD(latency, "p50", p50_ns),	  FIELD(latency, "p99", p99_ns),
	FIELD(latency, "p999", p999_ns),  FIELD(latency, "max", max_ns),
};
static const struct field latencies[] = {
	FIELD(stats, "write", latency_write),
	FIELD(stats, "read", latency_read),
	FIELD(stats, "sync", latency_sync),
	FIELD(stats, "flush", latency_flush),
	FIELD(stats, "write_bio", latency_write_bio),
	FIELD(stats, "read_bio", latency_read_bio),
	FIELD(stats, "throttle", latency_throttle),
};

static void put_number(FILE *f, uint64_t value)
{
	fprintf(f, "%llu", (unsigned long long)value);
}

/* The numbers of a structure, without the braces. */
static void put_fields(FILE *f, const void *from, const struct field *fields,
		       size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		const char *at = (const char *)from + fields[i].offset;

		fprintf(f, "%s\"%s\":", i ? "," : "", fields[i].name);
		put_number(f, *(const uint64_t *)(const void *)at);
	}
}

static void put_group(FILE *f, const char *name, const void *from,
		      const struct field *fields, size_t nr)
{
	fprintf(f, ",\"%s\":{", name);
	put_fields(f, from, fields, nr);
	fputc('}', f);
}

/* Classes of sizes up to @unit, 2 @unit, ...; the last one is open if @open. */
static void put_sizes(FILE *f, const uint64_t *sizes, unsigned nr,
		      uint64_t unit, bool open)
{
	fputs(",\"sizes\":[", f);
	for (unsigned i = 0; i < nr; i++) {
		fputs(i ? ",{\"le\":" : "{\"le\":", f);
		if (open && i == nr - 1)
			fputs("null", f);
		else
			put_number(f, unit << i);
		fputs(",\"count\":", f);
		put_number(f, sizes[i]);
		fputc('}', f);
	}
	fputc(']', f);
}

static void put_bios(FILE *f, const struct dbh_stats *s)
{
	fputs(",\"bios\":{\"read\":{\"count\":", f);
	put_number(f, s->read_bios);
	fputs(",\"bytes\":", f);
	put_number(f, s->read_bytes);
	put_sizes(f, s->read_bio_sizes, DBH_BIO_SIZES, PAGE_BYTES, false);
	fputs("},\"write\":{\"count\":", f);
	put_number(f, s->write_bios);
	fputs(",\"bytes\":", f);
	put_number(f, s->write_bytes);
	put_sizes(f, s->write_bio_sizes, DBH_BIO_SIZES, PAGE_BYTES, false);
	fputs("}}", f);
}

static void put_latencies(FILE *f, const struct dbh_stats *s)
{
	fputs(",\"latency_ns\":{", f);
	for (size_t i = 0; i < NR(latencies); i++) {
		fprintf(f, "%s\"%s\":{", i ? "," : "", latencies[i].name);
		put_fields(f, (const char *)s + latencies[i].offset,
			   latency_fields, NR(latency_fields));
		fputc('}', f);
	}
	fputc('}', f);
}

static void put_stats(FILE *f, const struct dbh_stats *s)
{
	put_group(f, "memory", s, memory_fields, NR(memory_fields));
	put_group(f, "pages", s, page_fields, NR(page_fields));
	put_group(f, "edges", s, edge_fields, NR(edge_fields));
	put_group(f, "kicks", s, kick_fields, NR(kick_fields));
	fputs(",\"sync\":{", f);
	put_fields(f, s, sync_fields, NR(sync_fields));
	put_sizes(f, s->sync_sizes, DBH_SYNC_SIZES, 1, true);
	fputs("},\"throttled\":", f);
	put_number(f, s->throttled);
	put_bios(f, s);
	put_latencies(f, s);
}

static void put_bdis(FILE *f, struct dbh_engine *e)
{
	const char *comma = "";

	fputs(",\"bdi\":[", f);
	for (struct wb *wb = wb_first(e); wb; wb = wb_next(wb)) {
		struct dbh_bdi_stats s = { 0 };

		wb_stats_read(wb, &s);
		fprintf(f, "%s{\"dev\":\"%u:%u\",", comma, major(s.dev),
			minor(s.dev));
		put_fields(f, &s, bdi_fields, NR(bdi_fields));
		fputc('}', f);
		comma = ",";
	}
	fputc(']', f);
}

char *stat_answer(struct dbh_engine *e, const struct control_info *info,
		  size_t *len)
{
	struct dbh_stats s = { 0 };
	char *text = NULL;
	FILE *f = open_memstream(&text, len);
	bool failed;

	if (!f)
		return NULL;
	engine_stats_read(e, &s);
	fprintf(f, "{\"version\":\"%d.%d.%d\",\"pid\":%d,\"ns\":%llu",
		DBH_VERSION_MAJOR, DBH_VERSION_MINOR, DBH_VERSION_PATCH,
		(int)getpid(), (unsigned long long)clock_ns());
	put_stats(f, &s);
	put_bdis(f, e);
	fprintf(f, ",\"trace\":{\"clients\":%u,\"lost\":%llu}}\n",
		info->tracing, (unsigned long long)info->lost);
	failed = ferror(f);
	if (fclose(f) || failed) {
		free(text);
		return NULL;
	}
	return text;
}
