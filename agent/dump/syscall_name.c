// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/syscall_name.h"

#include <stddef.h>
#include <sys/syscall.h>

#include "base/cleanup.h"

#define CALL(name, shape)                \
	{                                \
		SYS_##name, #name, shape \
	}

static const struct syscall_name calls[] = {
	CALL(futex, SYSCALL_FUTEX),
	CALL(epoll_pwait, SYSCALL_EPOLL),
	CALL(ppoll, SYSCALL_PPOLL),
	CALL(pselect6, SYSCALL_SELECT),
#ifdef SYS_epoll_wait
	CALL(epoll_wait, SYSCALL_EPOLL),
	CALL(poll, SYSCALL_POLL),
	CALL(select, SYSCALL_SELECT),
	CALL(pause, SYSCALL_SIGNAL),
	CALL(open, SYSCALL_PATH),
	CALL(stat, SYSCALL_PATH),
	CALL(lstat, SYSCALL_PATH),
	CALL(access, SYSCALL_PATH),
	CALL(mkdir, SYSCALL_PATH),
	CALL(rmdir, SYSCALL_PATH),
	CALL(rename, SYSCALL_PATH),
	CALL(unlink, SYSCALL_PATH),
	CALL(fork, SYSCALL_OTHER),
	CALL(vfork, SYSCALL_VFORK),
#endif
	CALL(epoll_pwait2, SYSCALL_EPOLL_TIMESPEC),
	CALL(nanosleep, SYSCALL_SLEEP),
	CALL(clock_nanosleep, SYSCALL_CLOCK_SLEEP),
	CALL(restart_syscall, SYSCALL_RESTART),
	CALL(read, SYSCALL_FD),
	CALL(readv, SYSCALL_FD),
	CALL(pread64, SYSCALL_FD),
	CALL(preadv, SYSCALL_FD),
	CALL(preadv2, SYSCALL_FD),
	CALL(write, SYSCALL_FD),
	CALL(writev, SYSCALL_FD),
	CALL(pwrite64, SYSCALL_FD),
	CALL(pwritev, SYSCALL_FD),
	CALL(pwritev2, SYSCALL_FD),
	CALL(recvfrom, SYSCALL_FD),
	CALL(recvmsg, SYSCALL_FD),
	CALL(recvmmsg, SYSCALL_FD),
	CALL(sendto, SYSCALL_FD),
	CALL(sendmsg, SYSCALL_FD),
	CALL(sendmmsg, SYSCALL_FD),
	CALL(accept, SYSCALL_FD),
	CALL(accept4, SYSCALL_FD),
	CALL(connect, SYSCALL_FD),
	CALL(ioctl, SYSCALL_FD),
	CALL(fsync, SYSCALL_FD),
	CALL(fdatasync, SYSCALL_FD),
	CALL(sync_file_range, SYSCALL_FD),
	CALL(ftruncate, SYSCALL_FD),
	CALL(fallocate, SYSCALL_FD),
	CALL(flock, SYSCALL_FD),
	CALL(fcntl, SYSCALL_FD),
	CALL(fstat, SYSCALL_FD),
	CALL(getdents64, SYSCALL_FD),
	CALL(close, SYSCALL_FD),
	CALL(syncfs, SYSCALL_FD),
	CALL(splice, SYSCALL_FD),
	CALL(tee, SYSCALL_FD),
	CALL(vmsplice, SYSCALL_FD),
	CALL(copy_file_range, SYSCALL_FD),
	CALL(sendfile, SYSCALL_FD_SECOND),
	CALL(io_uring_enter, SYSCALL_FD),
	CALL(mq_timedreceive, SYSCALL_FD),
	CALL(mq_timedsend, SYSCALL_FD),
	CALL(openat, SYSCALL_PATH_SECOND),
	CALL(openat2, SYSCALL_PATH_SECOND),
	CALL(newfstatat, SYSCALL_PATH_SECOND),
	CALL(statx, SYSCALL_PATH_SECOND),
	CALL(faccessat, SYSCALL_PATH_SECOND),
	CALL(unlinkat, SYSCALL_PATH_SECOND),
	CALL(mkdirat, SYSCALL_PATH_SECOND),
	CALL(execve, SYSCALL_PATH),
	CALL(statfs, SYSCALL_PATH),
	CALL(truncate, SYSCALL_PATH),
	CALL(wait4, SYSCALL_CHILD),
	CALL(waitid, SYSCALL_CHILD_ID),
	CALL(rt_sigsuspend, SYSCALL_SIGNAL),
	CALL(rt_sigtimedwait, SYSCALL_SIGNAL),
	CALL(clone, SYSCALL_VFORK),
	CALL(clone3, SYSCALL_VFORK),
	CALL(mmap, SYSCALL_MEMORY),
	CALL(munmap, SYSCALL_MEMORY),
	CALL(mprotect, SYSCALL_MEMORY),
	CALL(mremap, SYSCALL_MEMORY),
	CALL(madvise, SYSCALL_MEMORY),
	CALL(brk, SYSCALL_MEMORY),
	CALL(msync, SYSCALL_MEMORY),
	CALL(mlock, SYSCALL_MEMORY),
	CALL(msgrcv, SYSCALL_MESSAGE),
	CALL(msgsnd, SYSCALL_MESSAGE),
	CALL(semop, SYSCALL_MESSAGE),
	CALL(semtimedop, SYSCALL_MESSAGE),
	CALL(io_getevents, SYSCALL_OTHER),
	CALL(io_submit, SYSCALL_OTHER),
	CALL(getrandom, SYSCALL_OTHER),
	CALL(sched_yield, SYSCALL_OTHER),
	CALL(membarrier, SYSCALL_OTHER),
	CALL(sync, SYSCALL_OTHER),
	CALL(ptrace, SYSCALL_OTHER),
	CALL(process_vm_readv, SYSCALL_OTHER),
	CALL(exit, SYSCALL_OTHER),
	CALL(exit_group, SYSCALL_OTHER),
	CALL(rt_sigreturn, SYSCALL_OTHER),
};

const struct syscall_name *syscall_name_find(int64_t number)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].number == number)
			return &calls[i];
	return NULL;
}
