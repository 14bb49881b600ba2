/* SPDX-License-Identifier: MIT */
/*
 * trace: static probes (USDT) of the provider `dropbehind`, for bpftrace, perf
 * and gdb. man/dropbehind.3 names them and their arguments.
 *
 * A probe is one nop and a note in the ELF file. Its arguments are named in the
 * note by where they are at that moment, so pass only what is at hand: a
 * variable, or a field of a structure whose address is in a variable.
 */
#ifndef DBH_BASE_TRACE_H
#define DBH_BASE_TRACE_H

#ifdef DBH_HAVE_SDT
#ifdef __clang__
/* Given the choice clang puts arguments into memory, for this alone. */
#define STAP_SDT_ARG_CONSTRAINT nr
#endif
#include <sys/sdt.h>

#define trace_probe2(name, a, b) DTRACE_PROBE2(dropbehind, name, a, b)
#define trace_probe3(name, a, b, c) DTRACE_PROBE3(dropbehind, name, a, b, c)
#define trace_probe4(name, a, b, c, d) \
	DTRACE_PROBE4(dropbehind, name, a, b, c, d)
#define trace_probe6(name, a, b, c, d, e, f) \
	DTRACE_PROBE6(dropbehind, name, a, b, c, d, e, f)
#else
#define trace_probe2(name, a, b) ((void)0)
#define trace_probe3(name, a, b, c) ((void)0)
#define trace_probe4(name, a, b, c, d) ((void)0)
#define trace_probe6(name, a, b, c, d, e, f) ((void)0)
#endif

#endif
