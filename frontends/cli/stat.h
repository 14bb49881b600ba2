/* SPDX-License-Identifier: MIT */
/*
 * stat: how an answer is put down.
 */
#ifndef CLI_STAT_H
#define CLI_STAT_H

#include <jansson.h>
#include <stdint.h>

/** A whole number of a group of the answer (NULL: of @from itself); 0 if an older
 * library does not tell it. */
static inline uint64_t stat_number(const json_t *from, const char *group,
				   const char *name)
{
	const json_t *in = group ? json_object_get(from, group) : from;

	return (uint64_t)json_integer_value(json_object_get(in, name));
}

/** For people, on standard output. */
void stat_text(const json_t *stat);
/** In the exposition format of Prometheus. */
void stat_prometheus(const json_t *stat);

#endif
