/* SPDX-License-Identifier: MIT */
/*
 * contender: the list of them.
 */
#include "bench/contender.h"

#include <string.h>

static const struct contender_ops *const contenders[] = {
	&contender_kernel_none,
	&contender_kernel_dontcache,
	&contender_kernel_direct,
	&contender_engine_dontcache,
};

#define NR_CONTENDERS (sizeof(contenders) / sizeof(contenders[0]))

const struct contender_ops *contender_find(const char *name)
{
	size_t i;

	for (i = 0; i < NR_CONTENDERS; i++)
		if (!strcmp(contenders[i]->name, name))
			return contenders[i];
	return NULL;
}

unsigned contender_all(const struct contender_ops **out, unsigned max)
{
	unsigned i;

	for (i = 0; i < NR_CONTENDERS && i < max; i++)
		out[i] = contenders[i];
	return i;
}
