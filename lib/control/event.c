// SPDX-License-Identifier: MIT
/*
 * event: trace events as text.
 */
#include "room.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "mm/trace.h"
#include "mm/writeback.h"

/**
 * struct event_def - an event
 * @arg: names of its arguments, in the order of enum trace_type; NULL: no more
 * @word: of the argument of that place: its values as words, or NULL
 * @has_err: it may have failed
 */
struct event_def {
	const char *name;
	const char *arg[TRACE_ARGS];
	const char *const *word[TRACE_ARGS];
	bool has_err;
};

static const char *const op_words[] = {
	[BIO_READ] = "read",
	[BIO_WRITE] = "write",
};

static const char *const mode_words[] = {
	[WRITEBACK_DROPBEHIND] = "dropbehind",
	[WRITEBACK_KNOWN] = "known",
	[WRITEBACK_ALL] = "all",
};

static const struct event_def defs[NR_TRACE_TYPES] = {
	[TRACE_EDGE_CREATED] = { .name = "edge_created",
				 .arg = { "index", "off", "len" } },
	[TRACE_EDGE_COVERED] = { .name = "edge_covered",
				 .arg = { "index", "off", "len" } },
	[TRACE_EDGE_COMPLETED] = { .name = "edge_completed",
				   .arg = { "index" } },
	[TRACE_EDGE_EXPIRED] = { .name = "edge_expired",
				 .arg = { "index", "age_ms" } },
	[TRACE_WRITEBACK_START] = { .name = "writeback_start",
				    .arg = { "first", "last", "mode" },
				    .word = { NULL, NULL, mode_words } },
	[TRACE_WRITEBACK_WRITTEN] = { .name = "writeback_written",
				      .arg = { "first", "last", "bytes" } },
	[TRACE_KICK] = { .name = "kick",
			 .arg = { "dontcache_dirty", "nodes" } },
	[TRACE_BIO_SUBMIT] = { .name = "bio_submit",
			       .arg = { "op", "pos", "len" },
			       .word = { op_words } },
	[TRACE_BIO_COMPLETE] = { .name = "bio_complete",
				 .arg = { "op", "pos", "len", "latency_ns" },
				 .word = { op_words },
				 .has_err = true },
	[TRACE_FLUSH] = { .name = "flush",
			  .arg = { "waiters", "latency_ns" },
			  .has_err = true },
};

static int put_arg(char *buf, size_t size, const struct event_def *def,
		   unsigned i, uint64_t value)
{
	if (def->word[i])
		return snprintf(buf, size, ",\"%s\":\"%s\"", def->arg[i],
				def->word[i][value]);
	/* To the end of the file, whatever that is, is the largest number that
	 * readers of JSON take. */
	return snprintf(buf, size, ",\"%s\":%llu", def->arg[i],
			(unsigned long long)MIN(value, (uint64_t)INT64_MAX));
}

size_t event_text(const struct trace_event *ev, char *buf, size_t size)
{
	const struct event_def *def = &defs[ev->type];
	int n = snprintf(buf, size,
			 "{\"event\":\"%s\",\"ns\":%llu,\"dev\":\"%u:%u\"",
			 def->name, (unsigned long long)ev->ns, major(ev->dev),
			 minor(ev->dev));

	if (ev->ino)
		n += snprintf(buf + n, size - (size_t)n, ",\"ino\":%llu",
			      (unsigned long long)MIN(ev->ino,
						      (uint64_t)INT64_MAX));
	for (unsigned i = 0; i < TRACE_ARGS && def->arg[i]; i++)
		n += put_arg(buf + n, size - (size_t)n, def, i, ev->arg[i]);
	if (def->has_err)
		n += snprintf(buf + n, size - (size_t)n, ",\"errno\":%d",
			      -ev->err);
	n += snprintf(buf + n, size - (size_t)n, "}\n");
	return (size_t)n;
}

static int event_find(const char *name, size_t len)
{
	for (int i = 0; i < NR_TRACE_TYPES; i++)
		if (strlen(defs[i].name) == len &&
		    !memcmp(defs[i].name, name, len))
			return i;
	return -EINVAL;
}

int event_mask(const char *list, uint32_t *mask)
{
	uint32_t found = 0;

	if (!*list) {
		*mask = (1u << NR_TRACE_TYPES) - 1;
		return 0;
	}
	for (;;) {
		size_t len = strcspn(list, ",");
		int type = event_find(list, len);

		if (type < 0)
			return type;
		found |= 1u << type;
		if (!list[len])
			break;
		list += len + 1;
	}
	*mask = found;
	return 0;
}

size_t event_greeting(uint32_t mask, char *buf, size_t size)
{
	int n = snprintf(buf, size, "{\"tracing\":[");
	const char *comma = "";

	for (int i = 0; i < NR_TRACE_TYPES; i++) {
		if (!(mask & 1u << i))
			continue;
		n += snprintf(buf + n, size - (size_t)n, "%s\"%s\"", comma,
			      defs[i].name);
		comma = ",";
	}
	n += snprintf(buf + n, size - (size_t)n, "]}\n");
	return (size_t)n;
}
