// SPDX-License-Identifier: Apache-2.0
#include "cli/target_process.h"

#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/process/process_target.h"
#include "base/cleanup.h"
#include "base/clock.h"

static int check(pid_t pid, struct error *err)
{
	struct error cause = { 0 };
	struct proc proc;
	int rc = proc_open(pid, &proc);

	if (rc == -ESRCH)
		return error_set(err, rc, "-p: there is no process %d", pid);
	if (rc)
		return error_errno(err, rc, "-p: process %d", pid);
	pid_t leader = process_target_leader(&proc);
	if (leader > 0 && leader != pid)
		rc = error_set(&cause, -EINVAL, "%d is a thread; give %d, the id of its process",
			       pid, leader);
	else
		rc = process_target_check(pid, &proc, &cause);
	proc_close(&proc);
	return rc ? error_set(err, rc, "-p: %s", cause.text) : 0;
}

int target_process_open(pid_t pid, int *ret_pidfd, struct error *err)
{
	// Before the check: it is of the process that is held open, unless that has exited.
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	int failure = fd < 0 ? errno : 0;
	int rc = check(pid, err);

	if (rc)
		return rc;
	if (failure)
		return error_errno(err, -failure, "-p: process %d", pid);
	*ret_pidfd = take_fd(fd);
	return 0;
}

void target_process_print_exit(pid_t pid, uint64_t after_ns, const char *command)
{
	fprintf(stderr, "%s: pid %d exited after %.1f s\n", command, pid,
		(double)after_ns / NS_PER_SECOND);
}
