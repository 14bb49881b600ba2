// SPDX-License-Identifier: MIT
/*
 * lease: see lease.h.
 */
#include "lease.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "block.h"
#include "ioq.h"

/* A lock on the whole file would break programs that use locks. */
#define OWNER_BYTE (INT64_MAX - 1)

/* How long to wait for the mark of an owner that may just be dying: 200 ms. */
#define OWNER_TRIES 20
#define OWNER_WAIT_US 10000u

/* ---- the mark -------------------------------------------------------- */

static int set_mark(int fd, short type)
{
	struct flock fl = {
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = OWNER_BYTE,
		.l_len = 1,
	};

	return fcntl(fd, F_OFD_SETLK, &fl) ? -errno : 0;
}

int lease_mark(int fd, bool writable)
{
	int err;

	for (int i = 0;; i++) {
		err = set_mark(fd, writable ? F_WRLCK : F_RDLCK);
		/* Where the file system has no locks, nobody else has one. */
		if (err != -EAGAIN && err != -EACCES)
			return 0;
		if (i == OWNER_TRIES)
			return -EBUSY;
		/* An owner that was killed is reaped before the kernel has
		 * taken its ring down, which holds the file. */
		block_sleep_us(OWNER_WAIT_US);
	}
}

void lease_unmark(int fd)
{
	set_mark(fd, F_UNLCK);
}

int lease_move_mark(int from, int to)
{
	int err = lease_mark(to, false);

	if (err)
		return err;
	lease_unmark(from);
	err = lease_mark(to, true);
	if (err) {
		/* Beside those readers who are in the way. */
		lease_mark(from, false);
		lease_unmark(to);
	}
	return err;
}

/* ---- the lease ------------------------------------------------------- */

static short lease_type(bool writable)
{
	/* A reader is not disturbed by other readers. */
	return writable ? F_WRLCK : F_RDLCK;
}

int lease_take(int fd, bool writable, pid_t tid)
{
	struct f_owner_ex owner = { F_OWNER_TID, tid };

	/* Before the lease: it would make the whole process the owner. */
	if (fcntl(fd, F_SETOWN_EX, &owner) ||
	    fcntl(fd, F_SETSIG, STORE_LEASE_SIGNAL))
		return -EOPNOTSUPP;
	if (!fcntl(fd, F_SETLEASE, lease_type(writable)))
		return 0;
	switch (errno) {
	case EINVAL: /* the file system has none */
	case EOPNOTSUPP:
	case ENOLCK:
	case EACCES: /* another's file, and no CAP_LEASE */
	case EPERM:
		return -EOPNOTSUPP;
	default:
		return -EAGAIN;
	}
}

void lease_drop(int fd)
{
	fcntl(fd, F_SETLEASE, F_UNLCK);
}

bool lease_is_broken(int fd, bool writable)
{
	/* While it is broken, what it is to become; when it is gone, nothing. */
	return fcntl(fd, F_GETLEASE) != lease_type(writable);
}
