/* SPDX-License-Identifier: MIT */
/*
 * values: parsing of single values.
 */
#include "bench/values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/say.h"

static bool parse_size(const char *text, uint64_t *out)
{
	uint64_t unit = 1;
	unsigned long long value;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return false;
	switch (*end) {
	case 'k':
	case 'K':
		unit = KIB;
		break;
	case 'm':
	case 'M':
		unit = MIB;
		break;
	case 'g':
	case 'G':
		unit = GIB;
		break;
	}
	if (unit != 1)
		end++;
	if (*end || value > (uint64_t)INT64_MAX / unit)
		return false;
	*out = value * unit;
	return true;
}

bool value_size(const char *name, const char *text, uint64_t min, uint64_t *out)
{
	if (!parse_size(text, out)) {
		complain("%s: '%s' is not a size", name, text);
		return false;
	}
	if (*out < min) {
		complain("%s: '%s' is too small: at least %llu bytes", name,
			 text, (unsigned long long)min);
		return false;
	}
	return true;
}

bool value_number(const char *name, const char *text, unsigned min,
		  unsigned max, unsigned *out)
{
	unsigned long value;
	char *end;

	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno || *end || text[0] < '0' || text[0] > '9') {
		complain("%s: '%s' is not a number", name, text);
		return false;
	}
	if (value < min || value > max) {
		complain("%s: %s is out of range (%u to %u)", name, text, min,
			 max);
		return false;
	}
	*out = (unsigned)value;
	return true;
}

/* An empty element is the adder's to complain of. */
bool value_list(struct bench_options *o, const char *text,
		bool (*add)(struct bench_options *, const char *))
{
	char *copy = strdup(text);
	char *rest = copy;
	bool good = copy;
	char *item;

	while (good && (item = strsep(&rest, ",")))
		good = add(o, item);
	free(copy);
	return good;
}
