// SPDX-License-Identifier: Apache-2.0
#include "agent/wait_class.h"

static const char *const names[WAIT_CLASS_COUNT] = {
	[WAIT_CLASS_OTHER] = "other",
	[WAIT_CLASS_LOCK] = "lock",
	[WAIT_CLASS_GIL] = "gil",
	[WAIT_CLASS_DISK] = "disk",
	[WAIT_CLASS_NETWORK] = "network",
	[WAIT_CLASS_POLL] = "poll",
	[WAIT_CLASS_SLEEP] = "sleep",
	[WAIT_CLASS_PIPE] = "pipe",
	[WAIT_CLASS_PAGE_FAULT] = "page_fault",
	[WAIT_CLASS_GPU] = "gpu",
	[WAIT_CLASS_CHILD] = "child",
	[WAIT_CLASS_STOPPED] = "stopped",
	[WAIT_CLASS_IDLE] = "idle",
};

const char *wait_class_name(enum wait_class class)
{
	return class < WAIT_CLASS_COUNT ? names[class] : names[WAIT_CLASS_OTHER];
}

enum wait_class wait_class_of_stack(const struct profile *profile, const struct stack *stack)
{
	(void)profile;
	(void)stack;
	return WAIT_CLASS_OTHER;
}
