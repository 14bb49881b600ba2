/* SPDX-License-Identifier: MIT */
/*
 * scale: how much a test does. DBH_TEST_SCALE multiplies its operations:
 * 1 by default, less under the sanitizers, more for a long soak.
 */
#ifndef DBH_TESTS_SCALE_H
#define DBH_TESTS_SCALE_H

#include <stdlib.h>

/** @count times DBH_TEST_SCALE, at least 1. */
static inline unsigned long test_scale(unsigned long count)
{
	const char *text = getenv("DBH_TEST_SCALE");
	double scale = text ? strtod(text, NULL) : 1.0;
	double scaled = (double)count * (scale > 0.0 ? scale : 1.0);

	return scaled < 1.0 ? 1 : (unsigned long)scaled;
}

#endif
