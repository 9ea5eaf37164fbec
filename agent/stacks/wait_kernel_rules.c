// SPDX-License-Identifier: Apache-2.0
// Rules for the kernel's functions and for libraries, and how names match both tables' rules.
#include "agent/stacks/wait_rules.h"

#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

/*
 * By the names in Linux 6.1 to 6.18. From the leaf, the first function with a rule decides: the scheduler's
 * own are not on the stack.
 */
static const struct kernel_rule kernel_rules[] = {
	// kernel/futex/: futex_wait_queue() until 6.15, futex_do_wait() since.
	{ "futex_*", CAUSE_LOCK, false },
	{ "__futex_*", CAUSE_LOCK, false },
	{ "do_futex", CAUSE_LOCK, false },
	// ipc/sem.c, fs/locks.c
	{ "do_semtimedop", CAUSE_LOCK, false },
	{ "__do_semtimedop", CAUSE_LOCK, false },
	{ "locks_lock_inode_wait", CAUSE_LOCK, false },
	{ "fcntl_setlk", CAUSE_LOCK, false },
	{ "do_lock_file_wait", CAUSE_LOCK, false },
	// kernel/locking/: the caller says more.
	{ "__mutex_lock*", CAUSE_KERNEL_LOCK, false },
	{ "mutex_lock*", CAUSE_KERNEL_LOCK, false },
	{ "rwsem_down_*", CAUSE_KERNEL_LOCK, false },
	{ "down_read*", CAUSE_KERNEL_LOCK, false },
	{ "down_write*", CAUSE_KERNEL_LOCK, false },
	{ "__down_*", CAUSE_KERNEL_LOCK, false },
	{ "percpu_rwsem_wait", CAUSE_KERNEL_LOCK, false },
	{ "rt_mutex_*", CAUSE_KERNEL_LOCK, false },
	{ "__rt_mutex_*", CAUSE_KERNEL_LOCK, false },
	// A clone() that waits for a lock or for memory waits for no child.
	{ "copy_process", CAUSE_LOCK, false },
	// mm/vmscan.c, mm/memcontrol.c: reclaim, also at a cgroup's limit
	{ "reclaim_throttle", CAUSE_PAGE_FAULT, true },
	{ "throttle_direct_reclaim", CAUSE_PAGE_FAULT, true },
	{ "try_to_free_pages", CAUSE_PAGE_FAULT, true },
	{ "try_to_free_mem_cgroup_pages", CAUSE_PAGE_FAULT, true },
	{ "mem_cgroup_handle_over_high", CAUSE_PAGE_FAULT, true },
	{ "__mem_cgroup_handle_over_high", CAUSE_PAGE_FAULT, true },
	{ "mem_cgroup_oom_synchronize", CAUSE_PAGE_FAULT, true },
	// arch/x86/mm/fault.c, arch/arm64/mm/fault.c: a system call faults, too.
	{ "exc_page_fault", CAUSE_PAGE_FAULT, true },
	{ "asm_exc_page_fault", CAUSE_PAGE_FAULT, true },
	{ "do_user_addr_fault", CAUSE_PAGE_FAULT, true },
	{ "do_page_fault", CAUSE_PAGE_FAULT, true },
	{ "do_mem_abort", CAUSE_PAGE_FAULT, true },
	{ "handle_mm_fault", CAUSE_PAGE_FAULT, true },
	{ "handle_userfault", CAUSE_PAGE_FAULT, true },
	// fs/eventpoll.c, fs/select.c
	{ "ep_poll", CAUSE_EPOLL, false },
	{ "do_epoll_wait", CAUSE_EPOLL, false },
	{ "do_epoll_pwait", CAUSE_EPOLL, false },
	{ "poll_schedule_timeout", CAUSE_POLL, false },
	{ "do_poll", CAUSE_POLL, false },
	{ "do_sys_poll", CAUSE_POLL, false },
	{ "do_select", CAUSE_POLL, false },
	{ "core_sys_select", CAUSE_POLL, false },
	// io_uring/: of files mostly; sockets have other ways to be waited for.
	{ "io_cqring_wait*", CAUSE_RING, false },
	{ "io_uring_*", CAUSE_RING, false },
	{ "__do_sys_io_uring_enter", CAUSE_RING, false },
	// Waiting for a connection is waiting for work: net/ipv4/inet_connection_sock.c, net/unix/.
	{ "inet_csk_accept", CAUSE_WORK, true },
	{ "do_accept", CAUSE_WORK, true },
	{ "__sys_accept4", CAUSE_WORK, true },
	{ "unix_accept", CAUSE_WORK, true },
	// net/
	{ "sk_wait_data", CAUSE_NETWORK, false },
	{ "sk_stream_wait_*", CAUSE_NETWORK, false },
	{ "__lock_sock", CAUSE_NETWORK, false },
	{ "lock_sock_nested", CAUSE_NETWORK, false },
	{ "__skb_wait_for_more_packets", CAUSE_NETWORK, false },
	{ "__skb_recv_*", CAUSE_NETWORK, false },
	{ "skb_recv_*", CAUSE_NETWORK, false },
	{ "sock_alloc_send_pskb", CAUSE_NETWORK, false },
	{ "sock_wait_for_wmem", CAUSE_NETWORK, false },
	{ "tcp_*", CAUSE_NETWORK, false },
	{ "mptcp_*", CAUSE_NETWORK, false },
	{ "udp_*", CAUSE_NETWORK, false },
	{ "udpv6_*", CAUSE_NETWORK, false },
	{ "inet_*", CAUSE_NETWORK, false },
	{ "__inet_*", CAUSE_NETWORK, false },
	{ "inet6_*", CAUSE_NETWORK, false },
	{ "unix_*", CAUSE_NETWORK, false },
	{ "__unix_*", CAUSE_NETWORK, false },
	{ "netlink_*", CAUSE_NETWORK, false },
	{ "packet_recvmsg", CAUSE_NETWORK, false },
	{ "vsock_*", CAUSE_NETWORK, false },
	{ "tls_sw_*", CAUSE_NETWORK, false },
	{ "sctp_*", CAUSE_NETWORK, false },
	{ "sock_recvmsg", CAUSE_NETWORK, false },
	{ "sock_sendmsg", CAUSE_NETWORK, false },
	{ "__sock_sendmsg", CAUSE_NETWORK, false },
	{ "____sys_recvmsg", CAUSE_NETWORK, false },
	{ "____sys_sendmsg", CAUSE_NETWORK, false },
	{ "rpc_wait_bit_killable", CAUSE_NETWORK, false }, // NFS
	{ "p9_client_*", CAUSE_NETWORK, false },
	{ "cifs_*", CAUSE_NETWORK, false },
	{ "smb2_*", CAUSE_NETWORK, false },
	// fs/pipe.c (anon_pipe_* since 6.15), fs/eventfd.c, ipc/
	{ "pipe_*", CAUSE_PIPE, false },
	{ "anon_pipe_*", CAUSE_PIPE, false },
	{ "fifo_*", CAUSE_PIPE, false },
	{ "wait_for_partner", CAUSE_PIPE, false },
	{ "eventfd_*", CAUSE_PIPE, false },
	{ "do_msgrcv", CAUSE_PIPE, false },
	{ "do_msgsnd", CAUSE_PIPE, false },
	{ "do_mq_timed*", CAUSE_PIPE, false },
	{ "n_tty_write", CAUSE_PIPE, false }, // the terminal's reader is slow
	// kernel/time/hrtimer.c, fs/timerfd.c
	{ "hrtimer_nanosleep*", CAUSE_SLEEP, false }, // also restarted after a signal
	{ "alarm_timer_nsleep*", CAUSE_SLEEP, false },
	{ "alarmtimer_do_nsleep", CAUSE_SLEEP, false },
	{ "do_nanosleep", CAUSE_SLEEP, false },
	{ "common_nsleep*", CAUSE_SLEEP, false },
	{ "timerfd_read*", CAUSE_SLEEP, false },
	// kernel/signal.c: a thread that handles signals; fs/signalfd.c, fs/notify/
	{ "do_sigtimedwait", CAUSE_WORK, false },
	{ "__do_sys_pause", CAUSE_WORK, false },
	{ "__x64_sys_pause", CAUSE_WORK, false }, // the same address
	{ "__ia32_sys_pause", CAUSE_WORK, false },
	{ "sigsuspend", CAUSE_WORK, false },
	{ "signalfd_read*", CAUSE_WORK, false },
	{ "inotify_read", CAUSE_WORK, false },
	{ "fanotify_read", CAUSE_WORK, false },
	// Input of a person, log lines, a file system's requests: drivers/tty/, kernel/printk/, fs/fuse/dev.c
	{ "n_tty_read", CAUSE_WORK, false },
	{ "do_syslog", CAUSE_WORK, false },
	{ "devkmsg_read", CAUSE_WORK, false },
	{ "fuse_dev_do_read", CAUSE_WORK, false },
	// Handlers of page faults, idle guests, readers of traces: fs/userfaultfd.c, virt/kvm/, kernel/trace/
	{ "userfaultfd_read*", CAUSE_WORK, false },
	{ "userfaultfd_ctx_read", CAUSE_WORK, false },
	{ "kvm_vcpu_*", CAUSE_WORK, false },
	{ "ring_buffer_wait", CAUSE_WORK, false },
	// kernel/signal.c, kernel/ptrace.c, kernel/cgroup/freezer.c
	{ "do_signal_stop", CAUSE_STOPPED, false },
	{ "ptrace_stop", CAUSE_STOPPED, false },
	{ "do_freezer_trap", CAUSE_STOPPED, false },
	{ "get_signal", CAUSE_STOPPED, false }, // do_signal_stop() may be inlined into it
	{ "__refrigerator", CAUSE_STOPPED, false },
	{ "do_jobctl_trap", CAUSE_STOPPED, false },
	// kernel/exit.c, kernel/fork.c: vfork() waits in kernel_clone() itself.
	{ "de_thread", CAUSE_CHILD, false }, // exec() ends the other threads
	{ "coredump_*", CAUSE_STOPPED, false },
	{ "do_exit", CAUSE_LOCK, false }, // below get_signal(), but not stopped
	{ "do_wait", CAUSE_CHILD, false },
	{ "__do_wait", CAUSE_CHILD, false },
	{ "kernel_wait4", CAUSE_CHILD, false },
	{ "kernel_waitid*", CAUSE_CHILD, false },
	{ "kernel_clone", CAUSE_CHILD, false },
	{ "__do_sys_vfork", CAUSE_CHILD, false },
	// mm/filemap.c, block/, fs/: io_schedule() is not always on the stack.
	{ "io_schedule*", CAUSE_DISK, false },
	{ "folio_wait_*", CAUSE_DISK, false },
	{ "__folio_lock*", CAUSE_DISK, false },
	{ "wait_on_page_*", CAUSE_DISK, false },
	{ "__lock_page*", CAUSE_DISK, false },
	{ "bit_wait_io*", CAUSE_DISK, false },
	{ "__wait_on_buffer", CAUSE_DISK, false },
	{ "wait_for_completion_io*", CAUSE_DISK, false },
	{ "submit_bio_wait", CAUSE_DISK, false },
	{ "blk_*", CAUSE_DISK, false },
	{ "__blk*", CAUSE_DISK, false },
	{ "blkdev_*", CAUSE_DISK, false },
	{ "rq_qos_wait", CAUSE_DISK, false },
	{ "wbt_wait", CAUSE_DISK, false },
	{ "filemap_*", CAUSE_DISK, false },
	{ "__filemap_*", CAUSE_DISK, false },
	{ "file_write_and_wait_range", CAUSE_DISK, false },
	{ "balance_dirty_pages*", CAUSE_DISK, false },
	{ "wb_wait_for_completion", CAUSE_DISK, false },
	{ "sync_inodes_sb", CAUSE_DISK, false },
	{ "ksys_sync", CAUSE_DISK, false },
	{ "vfs_fsync_range", CAUSE_DISK, false },
	{ "do_fsync", CAUSE_DISK, false },
	{ "iomap_*", CAUSE_DISK, false },
	{ "__iomap_*", CAUSE_DISK, false },
	{ "read_events", CAUSE_RING, false }, // fs/aio.c, also in event loops
	{ "jbd2_*", CAUSE_DISK, false },
	{ "ext4_*", CAUSE_DISK, false },
	{ "xfs_*", CAUSE_DISK, false },
	{ "btrfs_*", CAUSE_DISK, false },
	{ "f2fs_*", CAUSE_DISK, false },
	{ "nfs_*", CAUSE_DISK, false },
	{ "nfs4_*", CAUSE_DISK, false },
	{ "ceph_*", CAUSE_DISK, false },
	{ "request_wait_answer", CAUSE_DISK, false }, // fs/fuse/dev.c
	{ "fuse_*", CAUSE_DISK, false },
	{ "swap_readpage*", CAUSE_DISK, false },
	{ "d_alloc_parallel", CAUSE_DISK, false },
	{ "autofs_wait", CAUSE_DISK, false },
	{ "fanotify_handle_event", CAUSE_DISK, false }, // a watcher must allow the access
};

/* The C library's functions: for stacks without kernel frames. */
static const struct {
	const char *name;
	enum wait_cause cause;
} calls[] = {
	{ "epoll_wait", CAUSE_EPOLL },
	{ "epoll_pwait*", CAUSE_EPOLL },
	{ "poll", CAUSE_POLL },
	{ "ppoll", CAUSE_POLL },
	{ "select", CAUSE_POLL },
	{ "pselect", CAUSE_POLL },
	{ "pthread_*", CAUSE_LOCK },
	{ "futex_*", CAUSE_LOCK },
	{ "lll_lock_wait*", CAUSE_LOCK },
	{ "sem_*", CAUSE_LOCK },
	{ "new_sem_*", CAUSE_LOCK },
	{ "runtime.futex*", CAUSE_LOCK },
	{ "clock_nanosleep", CAUSE_SLEEP },
	{ "nanosleep", CAUSE_SLEEP },
	{ "accept", CAUSE_WORK },
	{ "accept4", CAUSE_WORK },
	{ "recv*", CAUSE_NETWORK },
	{ "connect", CAUSE_NETWORK },
	{ "send*", CAUSE_NETWORK },
	{ "wait4", CAUSE_CHILD },
	{ "waitpid", CAUSE_CHILD },
	{ "waitid", CAUSE_CHILD },
	{ "fsync", CAUSE_DISK },
	{ "fdatasync", CAUSE_DISK },
	{ "pread64", CAUSE_DISK },
	{ "pause", CAUSE_WORK },
	{ "sigwait*", CAUSE_WORK },
	{ "sigtimedwait", CAUSE_WORK },
	{ "sigsuspend", CAUSE_WORK },
};

/* Kernel modules whose functions wait for a GPU. */
static const char *const gpu_modules[] = { "nvidia", "amdgpu", "amdkfd", "i915", "xe", "nouveau" };

static const char *const pool_libraries[] = {
	"libgomp.so",  "libgomp-",          "libomp.so", "libomp-",    "libiomp5.so",
	"libiomp5-",   "libtbb.so",         "libtbb-",   "libcuda.so", "libcupti.so",
	"libopenblas", "libscipy_openblas", "libuv.so",  "libgrpc.so", "libgpr.so",
};

static const char *const system_libraries[] = {
	"libc.so",     "libc-",   "libpthread", "ld-",        "libstdc++",
	"libc++",      "libm.so", "libm-",      "libgcc_s",   "libaio.so",
	"liburing.so", "[vdso]",  "python3",    "libpython3", "libabsl_",
};

// ---- matching -------------------------------------------------------------------------------

bool wait_module_begins(const char *module, const char *prefix)
{
	return text_begins_with(path_base_name(module), prefix);
}

const char *wait_plain_name(const char *name)
{
	return name + strspn(name, "_");
}

bool wait_name_matches(const char *pattern, const char *name)
{
	size_t length;

	if (!*pattern)
		return true;
	if (*pattern == '~')
		return strstr(name, pattern + 1) != NULL;
	if (*pattern != *name) // nearly always, without a call
		return false;
	length = strlen(pattern);
	if (pattern[length - 1] == '*')
		return strncmp(name, pattern, length - 1) == 0;
	return strncmp(name, pattern, length) == 0 && strchr("(<@.[", name[length]);
}

static bool is_gpu_module(const char *module)
{
	module += *module == '[';
	for (size_t i = 0; i < ARRAY_SIZE(gpu_modules); i++) {
		const char *after = module + strlen(gpu_modules[i]);

		if (text_begins_with(module, gpu_modules[i]) && strchr("]_-", *after))
			return true;
	}
	return false;
}

const struct kernel_rule *kernel_rule_find(const char *name, const char *module)
{
	static const struct kernel_rule gpu = { "", CAUSE_GPU, true };

	if (is_gpu_module(module))
		return &gpu;
	for (size_t i = 0; i < ARRAY_SIZE(kernel_rules); i++)
		if (wait_name_matches(kernel_rules[i].name, name))
			return &kernel_rules[i];
	return NULL;
}

enum wait_cause wait_cause_of_call(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (wait_name_matches(calls[i].name, wait_plain_name(name)))
			return calls[i].cause;
	return CAUSE_UNKNOWN;
}

static bool is_one_of(const char *module, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (wait_module_begins(module, names[i]))
			return true;
	return false;
}

bool wait_is_pool_library(const char *module)
{
	return is_one_of(module, pool_libraries, ARRAY_SIZE(pool_libraries));
}

bool wait_is_system_library(const char *module)
{
	return is_one_of(module, system_libraries, ARRAY_SIZE(system_libraries)) ||
	       strstr(module, ".cpython-") != NULL;
}
