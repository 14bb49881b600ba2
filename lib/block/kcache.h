/* SPDX-License-Identifier: MIT */
/*
 * kcache: what the kernel holds of a file, and how it is made to let go; and
 * what a file system says of its direct I/O. System calls only, no state.
 */
#ifndef DBH_BLOCK_KCACHE_H
#define DBH_BLOCK_KCACHE_H

#include <stdbool.h>
#include <stdint.h>

#define KCACHE_PAGE 4096u

/** Pages of [@pos, @pos + @len) in the kernel's cache, or -errno if the kernel
 * does not tell. */
int64_t kcache_resident(int fd, uint64_t pos, uint64_t len);
/** Starts writing out; may wait for a crowded device, not for the data. */
int kcache_write_out_start(int fd, uint64_t pos, uint64_t len);
/** Writes out and waits. Not durable: no flush, no metadata. */
int kcache_write_out(int fd, uint64_t pos, uint64_t len);
/** Drops clean pages, whole ones that the range touches. */
void kcache_drop(int fd, uint64_t pos, uint64_t len);

/**
 * struct kcache_fs - what lies below a descriptor
 * @in_memory: the file system is the page cache; there is nothing below
 * @direct: direct I/O may work; false if the file system says that it does not
 * @offset_align, @mem_align: of direct I/O; powers of two, 512 to 65536
 * @block_bytes: a power of two, 4096 to 65536; 4096 where blocks mean nothing
 */
struct kcache_fs {
	bool in_memory;
	bool direct;
	uint32_t offset_align;
	uint32_t mem_align;
	uint32_t block_bytes;
};

int kcache_ask_fs(int fd, struct kcache_fs *out);

#endif
