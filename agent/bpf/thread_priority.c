// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/thread_priority.h"

#include <errno.h>
#include <linux/sched.h>
#include <linux/types.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Nine times a normal thread's share. */
#define RAISED_NICE (-10)

/* linux/sched/types.h conflicts with glibc's sched.h. */
struct attributes {
	__u32 size;
	__u32 policy;
	__u64 flags;
	__s32 nice;
	__u32 priority;
	__u64 runtime, deadline, period;
};

_Static_assert(sizeof(struct attributes) == 48, "SCHED_ATTR_SIZE_VER0");

int thread_priority_raise(void)
{
	struct attributes is = { 0 };
	struct attributes wanted = {
		.size = sizeof(wanted),
		.policy = SCHED_NORMAL,
		.flags = SCHED_FLAG_RESET_ON_FORK,
		.nice = RAISED_NICE,
	};

	if (syscall(SYS_sched_getattr, 0, &is, sizeof(is), 0))
		return -errno;
	if (is.policy != SCHED_NORMAL || is.nice)
		return 1;
	return syscall(SYS_sched_setattr, 0, &wanted, 0) ? -errno : 0;
}
