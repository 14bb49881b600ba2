/* SPDX-License-Identifier: MIT */
/*
 * trace: what the page cache tells of itself, at the places where the kernel
 * has its tracepoints.
 *
 * Each is a static probe (base/trace.h), and all but those of folios are also
 * events for the control socket, at the price of one test of a flag while
 * nobody listens. A folio is touched too often for that: folio_added,
 * folio_dropped and folio_dirtied are probes alone, a nop each, and stand in
 * the code that they tell of.
 */
#ifndef DBH_MM_TRACE_H
#define DBH_MM_TRACE_H

#include "base/clock.h"
#include "base/trace.h"
#include "mm/engine.h"

/** Events of the control socket; trace_event.arg is in the comments. */
enum trace_type {
	TRACE_EDGE_CREATED, /* index, offset in the folio, length */
	TRACE_EDGE_COVERED, /* index, offset in the folio, length */
	TRACE_EDGE_COMPLETED, /* index */
	TRACE_EDGE_EXPIRED, /* index, milliseconds on the list of edges */
	TRACE_WRITEBACK_START, /* first, last page, enum writeback_mode */
	TRACE_WRITEBACK_WRITTEN, /* first, last page, bytes */
	TRACE_KICK, /* pages dontcache-dirty, nodes ready */
	TRACE_BIO_SUBMIT, /* enum bio_op, position, length */
	TRACE_BIO_COMPLETE, /* enum bio_op, position, length, ns */
	TRACE_FLUSH, /* who waited for it, ns */
	NR_TRACE_TYPES,
};

/** Pass an event of a mapping on to the control socket. The mapping's store is
 * there: a folio of it is locked, its I/O is under way, or a handle is open. */
void trace_mapping(struct mapping *m, enum trace_type type, int err,
		   uint64_t a, uint64_t b, uint64_t c, uint64_t d);
/** The same for a device. */
void trace_wb(struct wb *wb, enum trace_type type, uint64_t a, uint64_t b);

static inline bool tracing(struct dbh_engine *e, enum trace_type type)
{
	return trace_wanted(&e->trace, type);
}

static inline void trace_edge_created(struct mapping *m, pgoff_t index,
				      unsigned off, unsigned len)
{
	trace_probe4(edge_created, m, index, off, len);
	if (tracing(m->engine, TRACE_EDGE_CREATED))
		trace_mapping(m, TRACE_EDGE_CREATED, 0, index, off, len, 0);
}

/** More bytes of it were written, maybe the last ones. */
static inline void trace_edge_covered(struct mapping *m, pgoff_t index,
				      unsigned off, unsigned len)
{
	trace_probe4(edge_covered, m, index, off, len);
	if (tracing(m->engine, TRACE_EDGE_COVERED))
		trace_mapping(m, TRACE_EDGE_COVERED, 0, index, off, len, 0);
}

static inline void trace_edge_completed(struct mapping *m, pgoff_t index)
{
	trace_probe2(edge_completed, m, index);
	if (tracing(m->engine, TRACE_EDGE_COMPLETED))
		trace_mapping(m, TRACE_EDGE_COMPLETED, 0, index, 0, 0, 0);
}

/** It leaves incomplete, or unmarked: age, pressure, last close (R5). */
static inline void trace_edge_expired(struct mapping *m, pgoff_t index,
				      uint32_t age_ms)
{
	trace_probe3(edge_expired, m, index, age_ms);
	if (tracing(m->engine, TRACE_EDGE_EXPIRED))
		trace_mapping(m, TRACE_EDGE_EXPIRED, 0, index, age_ms, 0, 0);
}

static inline void trace_writeback_start(struct mapping *m, pgoff_t first,
					 pgoff_t last, unsigned mode)
{
	trace_probe4(writeback_start, m, first, last, mode);
	if (tracing(m->engine, TRACE_WRITEBACK_START))
		trace_mapping(m, TRACE_WRITEBACK_START, 0, first, last, mode, 0);
}

static inline void trace_writeback_written(struct mapping *m, pgoff_t first,
					   pgoff_t last, uint64_t bytes)
{
	trace_probe4(writeback_written, m, first, last, bytes);
	if (tracing(m->engine, TRACE_WRITEBACK_WRITTEN))
		trace_mapping(m, TRACE_WRITEBACK_WRITTEN, 0, first, last,
			      bytes, 0);
}

/** The flusher begins a round of uncached data (R11). */
static inline void trace_kick(struct wb *wb, uint64_t pages, uint64_t nodes)
{
	trace_probe3(kick, wb, pages, nodes);
	if (tracing(wb->engine, TRACE_KICK))
		trace_wb(wb, TRACE_KICK, pages, nodes);
}

static inline void trace_bio_submit(struct mapping *m, enum bio_op op,
				    uint64_t pos, uint64_t len)
{
	trace_probe4(bio_submit, m, op, pos, len);
	if (tracing(m->engine, TRACE_BIO_SUBMIT))
		trace_mapping(m, TRACE_BIO_SUBMIT, 0, op, pos, len, 0);
}

static inline void trace_bio_complete(struct mapping *m, enum bio_op op,
				      uint64_t pos, uint64_t len, int status,
				      uint64_t ns)
{
	trace_probe6(bio_complete, m, op, pos, len, status, ns);
	if (tracing(m->engine, TRACE_BIO_COMPLETE))
		trace_mapping(m, TRACE_BIO_COMPLETE, status, op, pos, len, ns);
}

/** A file was flushed, for @waiters together (R14). */
static inline void trace_flush(struct mapping *m, unsigned waiters, int err,
			       uint64_t ns)
{
	trace_probe4(flush, m, waiters, err, ns);
	if (tracing(m->engine, TRACE_FLUSH))
		trace_mapping(m, TRACE_FLUSH, err, waiters, ns, 0, 0);
}

#endif
