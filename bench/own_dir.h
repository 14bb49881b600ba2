/* SPDX-License-Identifier: MIT */
/*
 * own_dir: a directory that belongs to one run, and says so: its name has the
 * process's id, and the process holds a lock on it.
 */
#ifndef BENCH_OWN_DIR_H
#define BENCH_OWN_DIR_H

#include <stddef.h>

/**
 * own_dir_create - make one, and remove those that runs now gone left empty
 * @base: the directory to make it in
 * @path: its name goes here, or an empty string; @size: room in bytes
 * @lock: a descriptor, or -1; to be closed when the directory is removed
 * Return: 0; -ENAMETOOLONG; the error of mkdir(2). It complains not.
 */
int own_dir_create(const char *base, char *path, size_t size, int *lock);

#endif
