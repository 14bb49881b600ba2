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

/**
 * struct kcache - a descriptor to ask through
 * @stacked: the file system (overlayfs) caches in a file that lies below, and
 *	cachestat and sync_file_range look at the wrong one
 */
struct kcache {
	int fd;
	bool stacked;
};

/** Pages of [@pos, @pos + @len) in the kernel's cache, or -errno if the kernel
 * does not tell. */
int64_t kcache_resident(const struct kcache *kc, uint64_t pos, uint64_t len);
/**
 * kcache_map - which pages of [@pos, @pos + @len) are in the kernel's cache
 * @map: out: 0 or 1 for each page that the range touches
 * Return: how many are, or -errno if the kernel does not tell
 */
int64_t kcache_map(const struct kcache *kc, uint64_t pos, uint64_t len,
		   unsigned char *map);
/** Does the kernel tell us which pages it holds? It does not tell all who may
 * write through a descriptor. @size: of the file. */
bool kcache_tells(const struct kcache *kc, uint64_t size);
/** Starts writing out; may wait for a crowded device, not for the data. */
void kcache_write_out_start(const struct kcache *kc, uint64_t pos,
			    uint64_t len);
/** Writes out and waits. Promises nothing of durability (K9). */
int kcache_write_out(const struct kcache *kc, uint64_t pos, uint64_t len);
/** Drops clean pages, whole ones that the range touches. A folio goes only if
 * the range covers it. */
void kcache_drop(const struct kcache *kc, uint64_t pos, uint64_t len);

/**
 * struct kcache_fs - what lies below a descriptor
 * @in_memory: the file system is the page cache; there is nothing below
 * @stacked: see struct kcache
 * @mixes: the file system (btrfs) reads through the cache now and then, though
 *	asked for direct I/O
 * @direct: direct I/O may work; false if the file system says that it does not
 * @offset_align, @mem_align: of direct I/O; powers of two, 512 to 65536
 * @block_bytes: a power of two, 4096 to 65536; 4096 where blocks mean nothing
 */
struct kcache_fs {
	bool in_memory;
	bool stacked;
	bool mixes;
	bool direct;
	uint32_t offset_align;
	uint32_t mem_align;
	uint32_t block_bytes;
};

int kcache_ask_fs(int fd, struct kcache_fs *out);

#endif
