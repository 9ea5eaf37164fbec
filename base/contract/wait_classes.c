// SPDX-License-Identifier: Apache-2.0
#include "base/contract/wait_classes.h"

#include <string.h>

static const struct wait_class_spec classes[WAIT_CLASS_COUNT] = {
	[WAIT_CLASS_OTHER] = { "other", "other", "something that cairn does not classify" },
	[WAIT_CLASS_LOCK] = { "lock", "lock", "a mutex, condition variable or futex" },
	[WAIT_CLASS_GIL] = { "gil", "GIL", "Python's global interpreter lock" },
	[WAIT_CLASS_DISK] = { "disk", "disk", "a disk: read, write or sync" },
	[WAIT_CLASS_NETWORK] = { "network", "network", "a socket: data to come or room to send" },
	[WAIT_CLASS_POLL] = { "poll", "poll",
			      "one of several descriptors (poll, select, epoll), not in an event "
			      "loop" },
	[WAIT_CLASS_SLEEP] = { "sleep", "sleep", "a timer that the thread set itself" },
	[WAIT_CLASS_PIPE] = { "pipe", "pipe", "the other end of a pipe" },
	[WAIT_CLASS_PAGE_FAULT] = { "page_fault", "page fault",
				    "memory to be read in or allocated" },
	[WAIT_CLASS_GPU] = { "gpu", "GPU", "a GPU, in its driver" },
	[WAIT_CLASS_CHILD] = { "child", "child or thread", "a child process or a thread to exit" },
	[WAIT_CLASS_STOPPED] = { "stopped", "stopped", "SIGCONT or a debugger" },
	[WAIT_CLASS_IDLE] = { "idle", "idle", "work: an idle worker or event loop" },
};

const struct wait_class_spec *wait_class_spec(enum wait_class class)
{
	return (unsigned int)class < WAIT_CLASS_COUNT ? &classes[class]
						      : &classes[WAIT_CLASS_OTHER];
}

const char *wait_class_name(enum wait_class class)
{
	return wait_class_spec(class)->token;
}

enum wait_class wait_class_find(const char *token)
{
	for (int class = 0; class < WAIT_CLASS_COUNT; class ++) {
		if (strcmp(classes[class].token, token) == 0)
			return (enum wait_class) class;
	}
	return WAIT_CLASS_OTHER;
}
