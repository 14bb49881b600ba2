// SPDX-License-Identifier: MIT
/*
 * stat_prometheus: counters in the text exposition format of Prometheus.
 *
 * A metric and all of its samples stand together, after its HELP and TYPE.
 * Base units are seconds and bytes, as its users expect.
 */
#include "frontends/cli/stat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/** struct metric - a number of the answer */
struct metric {
	const char *name, *type, *help;
	const char *group; /* NULL: the answer itself, or a device */
	const char *field;
	unsigned scale; /* what one of it is in the metric's unit */
};

#define PAGE 4096u

static const struct metric metrics[] = {
	{ "memory_limit_bytes", "gauge", "Memory that the engine may use.",
	  "memory", "limit_bytes", 1 },
	{ "memory_used_bytes", "gauge", "Memory in use.", "memory",
	  "used_bytes", 1 },
	{ "memory_peak_bytes", "gauge", "The most that was ever in use.",
	  "memory", "peak_bytes", 1 },
	{ "edge_bytes", "gauge", "Incomplete edges in memory.", "edges",
	  "live", PAGE },
	{ "edges_completed_total", "counter",
	  "Edges whose last byte came by a write.", "edges", "completed", 1 },
	{ "edges_expired_total", "counter", "Edges given up incomplete.",
	  "edges", "expired", 1 },
	{ "edges_filled_read_total", "counter",
	  "Edges whose missing bytes were read.", "edges", "filled_read", 1 },
	{ "edges_filled_zero_total", "counter",
	  "Edges whose missing bytes were zeros without a read.", "edges",
	  "filled_zero", 1 },
	{ "kick_rounds_total", "counter",
	  "Rounds of the flusher for uncached data.", "kicks", "rounds", 1 },
	{ "kick_skips_total", "counter",
	  "Kicks while the flusher was at work.", "kicks", "skips", 1 },
	{ "sync_waiters_total", "counter",
	  "Syncs and stable writes that flushes served.", "sync", "waiters",
	  1 },
	{ "sync_waiters_max", "gauge", "The most that one flush served.",
	  "sync", "waiters_max", 1 },
	{ "throttled_total", "counter",
	  "Waits for memory or for neighbours.", NULL, "throttled", 1 },
	{ "dirty_thresh_bytes", "gauge",
	  "Dirty or being written, at most.", "pages", "dirty_thresh", PAGE },
	{ "background_thresh_bytes", "gauge",
	  "From so much dirty on, cached data is written.", "pages",
	  "background_thresh", PAGE },
};

static const struct metric bdi_metrics[] = {
	{ "bdi_writeback_bytes", "gauge", "Being written.", NULL, "writeback",
	  PAGE },
	{ "bdi_dirty_bytes", "gauge", "Dirty.", NULL, "dirty", PAGE },
	{ "bdi_dontcache_dirty_bytes", "gauge",
	  "Dirty, and dropped once clean.", NULL, "dontcache_dirty", PAGE },
	{ "bdi_dirtied_bytes_total", "counter", "Became dirty.", NULL,
	  "dirtied", PAGE },
	{ "bdi_written_bytes_total", "counter", "Cleaned by writeback.", NULL,
	  "written", PAGE },
	{ "bdi_dirty_thresh_bytes", "gauge",
	  "Dirty or being written, at most, for this device now.", NULL,
	  "dirty_thresh", PAGE },
	{ "bdi_write_bandwidth_bytes", "gauge",
	  "Written in a second while there is something to write.", NULL,
	  "write_bandwidth", 1 },
	{ "bdi_b_dirty", "gauge", "Files with dirty pages.", NULL, "b_dirty",
	  1 },
	{ "bdi_b_io", "gauge", "Nodes in the flusher's round.", NULL, "b_io",
	  1 },
	{ "bdi_b_more_io", "gauge", "Nodes left for later.", NULL,
	  "b_more_io", 1 },
	{ "bdi_b_dirty_time", "gauge", "Always 0.", NULL, "b_dirty_time", 1 },
	{ "bdi_state", "gauge", "Bits of the kernel's enum wb_state.", NULL,
	  "state", 1 },
};

#define NR(table) (sizeof(table) / sizeof((table)[0]))

static void head(const char *name, const char *type, const char *help)
{
	printf("# HELP dropbehind_%s %s\n# TYPE dropbehind_%s %s\n", name, help,
	       name, type);
}

static void put_engine(const json_t *stat)
{
	for (size_t i = 0; i < NR(metrics); i++) {
		const struct metric *m = &metrics[i];

		head(m->name, m->type, m->help);
		printf("dropbehind_%s %" PRIu64 "\n", m->name,
		       stat_number(stat, m->group, m->field) * m->scale);
	}
}

/* Device names are numbers and a colon: nothing to escape. */
static void put_bdis(const json_t *bdis)
{
	const json_t *bdi;
	size_t i;

	if (!json_array_size(bdis))
		return;
	for (size_t k = 0; k < NR(bdi_metrics); k++) {
		const struct metric *m = &bdi_metrics[k];

		head(m->name, m->type, m->help);
		json_array_foreach(bdis, i, bdi)
			printf("dropbehind_%s{dev=\"%s\"} %" PRIu64 "\n",
			       m->name,
			       json_string_value(json_object_get(bdi, "dev")),
			       stat_number(bdi, m->group, m->field) *
				       m->scale);
	}
}

/* A histogram's buckets are cumulative, its last one has everything. */
static void put_histogram(const char *name, const char *labels,
			  const json_t *of, uint64_t sum)
{
	const char *comma = *labels ? "," : "";
	const json_t *at;
	uint64_t count = 0;
	size_t i;

	json_array_foreach(json_object_get(of, "sizes"), i, at) {
		count += stat_number(at, NULL, "count");
		if (json_is_integer(json_object_get(at, "le")))
			printf("dropbehind_%s_bucket{%s%sle=\"%" PRIu64
			       "\"} %" PRIu64 "\n",
			       name, labels, comma,
			       stat_number(at, NULL, "le"), count);
	}
	printf("dropbehind_%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name,
	       labels, comma, count);
	printf("dropbehind_%s_sum%s%s%s %" PRIu64 "\n", name,
	       *labels ? "{" : "", labels, *labels ? "}" : "", sum);
	printf("dropbehind_%s_count%s%s%s %" PRIu64 "\n", name,
	       *labels ? "{" : "", labels, *labels ? "}" : "", count);
}

static void put_histograms(const json_t *stat)
{
	static const char *const ops[] = { "read", "write" };
	const json_t *bios = json_object_get(stat, "bios");
	const json_t *sync = json_object_get(stat, "sync");

	head("flush_waiters", "histogram", "Whom a flush served.");
	put_histogram("flush_waiters", "", sync,
		      stat_number(sync, NULL, "waiters"));
	head("bio_bytes", "histogram", "Requests to the disk.");
	for (unsigned i = 0; i < 2; i++) {
		const json_t *of = json_object_get(bios, ops[i]);
		char label[32];

		snprintf(label, sizeof(label), "op=\"%s\"", ops[i]);
		put_histogram("bio_bytes", label, of,
			      stat_number(of, NULL, "bytes"));
	}
}

static double seconds(const json_t *of, const char *name)
{
	return (double)stat_number(of, NULL, name) / 1e9;
}

static void put_latencies(json_t *all)
{
	const char *what;
	json_t *of;

	head("latency_seconds", "summary", "How long something took.");
	json_object_foreach(all, what, of) {
		static const char *const quantiles[] = { "0.5", "0.99",
							 "0.999" };
		static const char *const fields[] = { "p50", "p99", "p999" };

		for (unsigned i = 0; i < 3; i++)
			printf("dropbehind_latency_seconds{of=\"%s\","
			       "quantile=\"%s\"} %.9f\n",
			       what, quantiles[i], seconds(of, fields[i]));
		printf("dropbehind_latency_seconds_sum{of=\"%s\"} %.9f\n", what,
		       seconds(of, "sum"));
		printf("dropbehind_latency_seconds_count{of=\"%s\"} %" PRIu64
		       "\n",
		       what, stat_number(of, NULL, "count"));
	}
	head("latency_max_seconds", "gauge", "The longest that something took.");
	json_object_foreach(all, what, of)
		printf("dropbehind_latency_max_seconds{of=\"%s\"} %.9f\n", what,
		       seconds(of, "max"));
}

void stat_prometheus(const json_t *stat)
{
	put_engine(stat);
	put_bdis(json_object_get(stat, "bdi"));
	put_histograms(stat);
	put_latencies(json_object_get(stat, "latency_ns"));
}
