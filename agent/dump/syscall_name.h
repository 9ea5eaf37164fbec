// SPDX-License-Identifier: Apache-2.0
// System calls that block: their names, and what their arguments mean.
#pragma once

#include <stdint.h>

/** Which arguments name the wait's object. */
enum syscall_shape {
	SYSCALL_OTHER,
	SYSCALL_FD, // descriptor first
	SYSCALL_FD_SECOND,
	SYSCALL_EPOLL, // descriptor, events, count, milliseconds
	SYSCALL_EPOLL_TIMESPEC,
	SYSCALL_POLL,        // array, count, milliseconds
	SYSCALL_PPOLL,       // array, count, timespec
	SYSCALL_SELECT,      // count, three sets, time
	SYSCALL_FUTEX,       // address, operation, value, timespec
	SYSCALL_SLEEP,       // timespec
	SYSCALL_CLOCK_SLEEP, // clock, flags, timespec
	SYSCALL_CHILD,       // pid
	SYSCALL_CHILD_ID,    // kind of id, id
	SYSCALL_SIGNAL,
	SYSCALL_PATH,        // string first
	SYSCALL_PATH_SECOND, // string second
	SYSCALL_MEMORY,
	SYSCALL_MESSAGE, // queue of messages, or set of semaphores
	SYSCALL_VFORK,
	SYSCALL_RESTART,
};

struct syscall_name {
	int64_t number;
	const char *name;
	enum syscall_shape shape;
};

/** NULL: not in the table. */
const struct syscall_name *syscall_name_find(int64_t number);
