// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

enum { STATUS_BYTES = 8192 };

static long status_number(const struct proc *proc, const char *name)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	if (proc_read(proc->fd, "status", STATUS_BYTES, &text))
		return 0;
	const char *at = strstr(buffer_string(&text), name);
	return at ? strtol(at + strlen(name), NULL, 10) : 0;
}

pid_t process_target_leader(const struct proc *proc)
{
	return (pid_t)status_number(proc, "\nTgid:");
}

int process_target_check(pid_t pid, const struct proc *proc, struct error *err)
{
	if (proc->stat.kernel_thread)
		return error_set(err, -EINVAL,
				 "%d (%s) is a thread of the kernel, which has no "
				 "user stack",
				 pid, proc->stat.name);
	if (proc->files == proc->fd && (proc->stat.state == 'Z' || proc->stat.state == 'X'))
		return error_set(err, -ESRCH,
				 "process %d (%s) has exited; its parent %ld has not waited for it "
				 "yet",
				 pid, proc->stat.name, status_number(proc, "\nPPid:"));
	return 0;
}
