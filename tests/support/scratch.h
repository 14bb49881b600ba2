/* SPDX-License-Identifier: MIT */
/*
 * scratch: directories and file systems that a test makes, and that go
 * whatever becomes of it.
 *
 * The test runs in a child. The parent waits for it, unmounts and removes what
 * is left, and passes its status on. With DBH_TEST_NOFORK set (for a debugger)
 * there is no child and only an orderly end cleans up.
 */
#ifndef DBH_TESTS_SCRATCH_H
#define DBH_TESTS_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

#define TEST_SKIP 77

/** Run @body. Return: the exit status of the program. */
int scratch_run(int (*body)(int argc, char **argv), int argc, char **argv);

/** A directory on a real file system: below $DBH_TEST_DIR, or /tmp. */
const char *scratch_dir(void);
/** A directory in memory, or NULL if there is no /dev/shm. */
const char *scratch_shm(void);
/** A path below @dir that no other call returns; in a static buffer of its
 * thread. */
const char *scratch_path(const char *dir);

/**
 * scratch_mount - a fresh file system, unmounted at the end
 * @fs: "xfs", "ext4", "btrfs", "tmpfs" or "overlay"
 * @megabytes: its size
 * @sector: of the loop device in bytes, or 0 for its default
 * Return: its directory, or NULL with the reason printed: not root, no loop
 * device, no mkfs.
 */
const char *scratch_mount(const char *fs, unsigned megabytes, unsigned sector);
/** The same; @options: further arguments of mkfs. */
const char *scratch_mount_with(const char *fs, const char *options,
			       unsigned megabytes, unsigned sector);
/** The same, with its image at @dir/image, where there may be less room. */
const char *scratch_mount_thin(const char *dir, const char *fs,
			       const char *options, unsigned megabytes);
/** Unmount it, and mount it again; not for tmpfs. */
bool scratch_remount(const char *dir);

/** A duplicate of the descriptor by which this process, that is the engine in
 * it, has @path open: to look at the file without being another who has it
 * open (R22). -1 if there is none. */
int scratch_borrow_fd(const char *path);

#endif
