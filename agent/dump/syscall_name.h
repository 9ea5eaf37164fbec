// SPDX-License-Identifier: Apache-2.0
// The system calls that a thread may be found blocked in: their names, and what is to be made of
// their arguments.
#pragma once

#include <stdint.h>

/** Which arguments say what is waited for. */
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

/** NULL for one that is not known to block. */
const struct syscall_name *syscall_name_find(int64_t number);
