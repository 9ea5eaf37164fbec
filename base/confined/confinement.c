// SPDX-License-Identifier: Apache-2.0
#include "base/confined/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/confined/seccomp_filter.h"
#include "base/sanitized.h"

enum {
	LAST_CAPABILITY = 63,
	// Landlock's accesses, by the version of its ABI: newer than Debian 12's header.
	LANDLOCK_ABI_REFER = 2,
	LANDLOCK_ABI_TRUNCATE = 3,
	LANDLOCK_ABI_NETWORK = 4,
	LANDLOCK_ABI_IOCTL = 5,
	LANDLOCK_ABI_SCOPES = 6,
	LANDLOCK_VERSION = 1, // a flag
};

/* As in linux/landlock.h; older kernels know the first fields. */
struct landlock_rules {
	uint64_t files, network, scopes;
};

/* ---- limits -------------------------------------------------------------------------------- */

static void set_limit(int resource, rlim_t limit)
{
	const struct rlimit both = { limit, limit };

	setrlimit(resource, &both);
}

static void set_limits(const struct confinement *limits)
{
	(void)!nice(limits->nice);
	if (limits->cpu_seconds)
		set_limit(RLIMIT_CPU, limits->cpu_seconds);
	set_limit(RLIMIT_FSIZE, 0);
	set_limit(RLIMIT_NPROC, 0);
	set_limit(RLIMIT_MEMLOCK, 0);
	set_limit(RLIMIT_MSGQUEUE, 0);
	if (!IS_SANITIZED)
		set_limit(RLIMIT_DATA, limits->memory_bytes);
}

/* The OOM killer should end this process, not its agent or collector. */
static void raise_oom_score(void)
{
	_cleanup_close_ int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "1000", 4) != 4)
		return; // the score stays its parent's
}

/* Move them to the lowest numbers and close all else. */
static void keep_files(int *files, uint32_t count)
{
	// First out of the way of each other, then down.
	for (uint32_t i = 0; i < count; i++)
		if (files[i] >= 0)
			files[i] = fcntl(files[i], F_DUPFD, (int)count);
	for (uint32_t i = 0; i < count; i++) {
		if (files[i] >= 0) {
			dup2(files[i], (int)i);
			files[i] = (int)i;
		} else {
			close((int)i);
		}
	}
	close_range(count, ~0U, 0);
	// Nothing can be opened from here on.
	set_limit(RLIMIT_NOFILE, 0);
}

/* ---- privileges ---------------------------------------------------------------------------- */

int confinement_drop_privileges(struct error *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return error_errno(err, -errno, "no_new_privs");
	// It takes CAP_SETPCAP, which not everybody has; no_new_privs says the same to execve().
	for (unsigned long capability = 0; capability <= LAST_CAPABILITY; capability++)
		prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (syscall(SYS_capset, &head, none))
		return error_errno(err, -errno, "drop capabilities");
	set_limit(RLIMIT_CORE, 0);
	prctl(PR_SET_DUMPABLE, 0);
	return 0;
}

/* ---- system calls -------------------------------------------------------------------------- */

bool confinement_has_seccomp(void)
{
	const uint32_t action = SECCOMP_RET_ERRNO;

	return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

static int landlock_abi(void)
{
	return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION);
}

bool confinement_has_landlock(void)
{
	return landlock_abi() > 0;
}

/* No file, no port, no process outside. Returns 0 also where the kernel has no Landlock. */
static int deny_all_files(void)
{
	int abi = landlock_abi();
	struct landlock_rules rules = { .files = (1 << 13) - 1 };
	size_t size = sizeof(rules.files);

	if (abi < 1)
		return 0;
	if (abi >= LANDLOCK_ABI_REFER)
		rules.files |= 1 << 13;
	if (abi >= LANDLOCK_ABI_TRUNCATE)
		rules.files |= 1 << 14;
	if (abi >= LANDLOCK_ABI_IOCTL)
		rules.files |= 1 << 15;
	if (abi >= LANDLOCK_ABI_NETWORK) {
		rules.network = 3; // bind, connect
		size += sizeof(rules.network);
	}
	if (abi >= LANDLOCK_ABI_SCOPES) {
		rules.scopes = 3; // abstract sockets, signals
		size += sizeof(rules.scopes);
	}
	_cleanup_close_ int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
	if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0))
		return -errno;
	return 0;
}

/*
 * What libdw, libelf, zlib and the C library need once the files are open. EPERM for the rest, not a signal: the next
 * version of a library may try a call and do without it.
 */
static int allow_few_calls(void)
{
	const uint64_t self = (uint64_t)getpid(), all = UINT64_MAX;
	const struct seccomp_rule rules[] = {
		{ .number = SYS_read },
		{ .number = SYS_pread64 },
		{ .number = SYS_readv },
		{ .number = SYS_preadv },
		{ .number = SYS_write },
		{ .number = SYS_writev },
		{ .number = SYS_recvfrom },
		{ .number = SYS_lseek },
		{ .number = SYS_close },
		{ .number = SYS_fstat },
		{ SYS_newfstatat, 3, AT_EMPTY_PATH, AT_EMPTY_PATH, 0 },
		{ SYS_fcntl, 1, all, F_GETFL, 0 },
		{ SYS_fcntl, 1, all, F_GETFD, 0 },
#ifdef SYS_poll
		{ .number = SYS_poll },
#endif
		{ .number = SYS_ppoll },
		{ SYS_mmap, 2, PROT_EXEC, 0, 0 },
		{ SYS_mprotect, 2, PROT_EXEC, 0, 0 },
		{ .number = SYS_munmap },
		{ .number = SYS_mremap },
		{ .number = SYS_madvise },
		{ .number = SYS_brk },
		{ .number = SYS_futex },
		{ .number = SYS_sched_yield },
		{ .number = SYS_clock_gettime },
		{ .number = SYS_clock_nanosleep },
		{ .number = SYS_getrandom },
		{ .number = SYS_sysinfo },
		{ SYS_prlimit64, 0, all, 0, 0 }, // its own
		{ .number = SYS_getpid },
		{ .number = SYS_gettid },
		{ SYS_tgkill, 0, all, self, 0 }, // abort()
		{ .number = SYS_rt_sigaction },
		{ .number = SYS_rt_sigprocmask },
		{ .number = SYS_rt_sigreturn },
		{ .number = SYS_sigaltstack },
		{ .number = SYS_restart_syscall },
		{ .number = SYS_exit },
		{ .number = SYS_exit_group },
	};
	const struct seccomp_filter filter = {
		.rules = rules,
		.count = ARRAY_SIZE(rules),
		.fits = SECCOMP_RET_ALLOW,
		.otherwise = SECCOMP_RET_ERRNO | EPERM,
	};

	return seccomp_filter_install(&filter, NULL);
}

int confine_process(const struct confinement *limits, pid_t parent, int *files, uint32_t count)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		return -ESRCH;
	for (int number = 1; number < NSIG; number++)
		signal(number, SIG_DFL);
	raise_oom_score();
	int rc = deny_all_files();
	if (rc)
		return rc;
	set_limits(limits);
	keep_files(files, count);
	return allow_few_calls();
}
