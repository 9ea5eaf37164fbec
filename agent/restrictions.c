// SPDX-License-Identifier: Apache-2.0
#include "agent/restrictions.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/confined/seccomp_filter.h"

enum {
	NOTICE_BYTES = 512, // the kernel's struct seccomp_notif, of 80 bytes in Linux 6
	CALLS_MAX = SECCOMP_RULES_MAX,
};

#define ALL UINT64_MAX

struct call {
	const char *name;
	struct seccomp_rule rule;
};

#define ALWAYS(call)                         \
	{                                    \
#call,                       \
		{                            \
			.number = SYS_##call \
		}                            \
	}
#define IF(call, argument, mask, value)                            \
	{                                                          \
#call,                                             \
		{                                                  \
			SYS_##call, (argument), (mask), (value), 0 \
		}                                                  \
	}
#define ALLOW(call, argument, mask, value)                                         \
	{                                                                          \
#call,                                                             \
		{                                                                  \
			SYS_##call, (argument), (mask), (value), SECCOMP_RET_ALLOW \
		}                                                                  \
	}

/*
 * A list of what is refused, not of what is allowed: gRPC, curl, libbpf and NVIDIA's library choose their calls anew in each
 * version. The first row that fits decides.
 */
static const struct call calls[] = {
	// Programs and processes: the launcher of confined processes was started before.
	ALWAYS(execve),
	ALWAYS(execveat),
#ifdef SYS_fork
	ALWAYS(fork),
	ALWAYS(vfork),
#endif
	IF(clone, 0, CLONE_THREAD, 0),
	// Its flags lie in memory: the C library uses clone() for threads then.
	{ "clone3", { .number = SYS_clone3, .action = SECCOMP_RET_ERRNO | ENOSYS } },
	// Other processes: their memory is read (process_vm_readv), never written; only whether they live is asked.
	ALWAYS(ptrace),
	ALWAYS(process_vm_writev),
	ALWAYS(process_madvise),
	ALWAYS(pidfd_getfd),
	ALWAYS(pidfd_send_signal),
	ALLOW(kill, 1, ALL, 0),
	ALWAYS(kill),
	ALWAYS(tkill),
	ALWAYS(rt_sigqueueinfo),
	ALWAYS(rt_tgsigqueueinfo),
	ALWAYS(migrate_pages),
	ALWAYS(move_pages),
	// The file system's shape, namespaces, and files by handle.
	ALWAYS(mount),
	ALWAYS(umount2),
	ALWAYS(move_mount),
	ALWAYS(open_tree),
	ALWAYS(fsopen),
	ALWAYS(fsconfig),
	ALWAYS(fsmount),
	ALWAYS(fspick),
	ALWAYS(mount_setattr),
	ALWAYS(pivot_root),
	ALWAYS(chroot),
	ALWAYS(unshare),
	ALWAYS(setns),
	ALWAYS(open_by_handle_at),
#ifdef SYS_mknod
	ALWAYS(mknod),
	ALWAYS(chown),
	ALWAYS(lchown),
#endif
	ALWAYS(mknodat),
	ALWAYS(fchownat),
	ALWAYS(fchown),
	ALWAYS(quotactl),
	ALWAYS(swapon),
	ALWAYS(swapoff),
	ALWAYS(fanotify_init),
	// The kernel, and the machine's state.
	ALWAYS(init_module),
	ALWAYS(finit_module),
	ALWAYS(delete_module),
	ALWAYS(kexec_load),
	ALWAYS(kexec_file_load),
	ALWAYS(reboot),
	ALWAYS(settimeofday),
	ALWAYS(clock_settime),
	ALWAYS(clock_adjtime),
	ALWAYS(adjtimex),
	ALWAYS(sethostname),
	ALWAYS(setdomainname),
	ALWAYS(acct),
	ALWAYS(personality),
#ifdef SYS_iopl
	ALWAYS(iopl),
	ALWAYS(ioperm),
	ALWAYS(modify_ldt),
#endif
	// Who it is.
	ALWAYS(setuid),
	ALWAYS(setgid),
	ALWAYS(setreuid),
	ALWAYS(setregid),
	ALWAYS(setresuid),
	ALWAYS(setresgid),
	ALWAYS(setfsuid),
	ALWAYS(setfsgid),
	ALWAYS(setgroups),
	ALWAYS(capset),
	// Doors into the kernel that it does not use.
	ALWAYS(io_uring_setup),
	ALWAYS(userfaultfd),
	ALWAYS(add_key),
	ALWAYS(request_key),
	ALWAYS(keyctl),
	ALWAYS(vmsplice),
	// It listens at --admin only, since before.
	ALWAYS(listen),
	ALWAYS(accept),
	ALWAYS(accept4),
	IF(socket, 0, ALL, AF_PACKET),
	IF(socket, 0, ALL, AF_VSOCK),
	IF(socket, 0, ALL, AF_ALG),
};
_Static_assert(ARRAY_SIZE(calls) <= CALLS_MAX, "the filter has room");

enum { OWN_RULES = 3 }; // with numbers that are known at the start only

struct restrictions {
	struct event_log *events;
	int notices_fd; // -1: none
	int event_fd;   // notices_fd is there; then: is_stopping
	atomic_bool is_stopping;
	pthread_t thread;
	bool is_posted[ARRAY_SIZE(calls)];
	atomic_uint_fast64_t refused;
};

/* ---- the filter ----------------------------------------------------------------------------- */

/* For the calling thread and those that it starts. Returns 0, the listener's descriptor, or -errno. */
static int install(uint32_t action, uint32_t flags, int listener, struct error *err)
{
	struct seccomp_rule rules[ARRAY_SIZE(calls) + OWN_RULES];
	const uint64_t self = (uint64_t)getpid();
	uint32_t count = 0;

	if (listener >= 0)
		rules[count++] = (struct seccomp_rule){ SYS_accept4, 0, ALL, (uint64_t)listener,
							SECCOMP_RET_ALLOW };

	// abort(), and what wakes threads.
	rules[count++] = (struct seccomp_rule){ SYS_tgkill, 0, ALL, self, SECCOMP_RET_ALLOW };
	rules[count++] = (struct seccomp_rule){ .number = SYS_tgkill };
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		rules[count++] = calls[i].rule;
	const struct seccomp_filter filter = {
		.rules = rules,
		.count = count,
		.fits = action,
		.otherwise = SECCOMP_RET_ALLOW,
		.flags = flags,
	};
	return seccomp_filter_install(&filter, err);
}

/* ---- refused calls -------------------------------------------------------------------------- */

static void post(struct restrictions *restrictions, int number)
{
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		if (calls[i].rule.number == (uint32_t)number && !calls[i].rule.action) {
			event_warn_once(
				restrictions->events, &restrictions->is_posted[i], "seccomp",
				"refused system call %s: the agent never makes it; a library "
				"tried, or somebody runs code in the agent; report it to cairn's "
				"developers",
				calls[i].name);
			return;
		}
}

/* The answer first: its caller may hold the lock of the events. */
static void refuse(struct restrictions *restrictions)
{
	union {
		struct seccomp_notif notice;
		uint8_t bytes[NOTICE_BYTES];
	} received = { 0 };
	struct seccomp_notif_resp answer = { .error = -EPERM };

	if (ioctl(restrictions->notices_fd, SECCOMP_IOCTL_NOTIF_RECV, &received))
		return; // the caller was killed
	answer.id = received.notice.id;
	ioctl(restrictions->notices_fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	atomic_fetch_add(&restrictions->refused, 1);
	post(restrictions, received.notice.data.nr);
}

/*
 * It has a filter of its own, which does not ask it: glibc's setuid(), for one, makes all threads call. Started before there
 * is a listener.
 */
static void *run(void *context)
{
	struct restrictions *restrictions = context;
	eventfd_t event;

	prctl(PR_SET_NAME, "cairn-seccomp");
	install(SECCOMP_RET_ERRNO | EPERM, 0, -1, NULL);
	while (eventfd_read(restrictions->event_fd, &event) && errno == EINTR)
		;
	struct pollfd watched[] = {
		{ .fd = restrictions->notices_fd, .events = POLLIN },
		{ .fd = restrictions->event_fd, .events = POLLIN },
	};
	while (restrictions->notices_fd >= 0 && !atomic_load(&restrictions->is_stopping)) {
		if (poll(watched, ARRAY_SIZE(watched), -1) > 0 && watched[0].revents & POLLIN)
			refuse(restrictions);
	}
	return NULL;
}

/* ---- imposing ------------------------------------------------------------------------------- */

static void forbid_dumps(struct event_log *events)
{
	const struct rlimit none = { 0, 0 };

	if (setrlimit(RLIMIT_CORE, &none) || prctl(PR_SET_DUMPABLE, 0))
		event_warn(events, "agent",
			   "cannot disable its core dumps: %s; a core file would have data of "
			   "profiled processes: start it with `ulimit -c 0`",
			   strerror(errno));
}

/* Two listeners cannot be: then the kernel's audit log has what is refused. */
static void refuse_unheard(struct event_log *events, int listener, const char *why)
{
	struct error err = { 0 };

	if (install(SECCOMP_RET_ERRNO | EPERM, SECCOMP_FILTER_FLAG_LOG, listener, &err) < 0)
		event_info(events, "seccomp",
			   "cannot confine the agent: %s; profiling works without it; allow "
			   "seccomp(2) in "
			   "the container's seccomp profile",
			   err.text);
	else
		event_info(
			events, "seccomp",
			"refused system calls are not counted: %s; the kernel's audit log has them",
			why);
}

static int listen_for_refused(struct event_log *events, int listener,
			      struct restrictions **ret_restrictions, struct error *err)
{
	struct restrictions *restrictions = calloc(1, sizeof(*restrictions));

	if (!restrictions)
		return error_set(err, -ENOMEM, "out of memory");
	*restrictions = (struct restrictions){ .events = events, .notices_fd = -1 };
	restrictions->event_fd = eventfd(0, EFD_CLOEXEC);
	int rc = restrictions->event_fd < 0
			 ? -errno
			 : -pthread_create(&restrictions->thread, NULL, run, restrictions);
	if (rc) {
		cleanup_closep(&restrictions->event_fd);
		free(restrictions);
		return error_errno(err, rc, "start a thread");
	}
	rc = install(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER, listener, err);
	restrictions->notices_fd = rc < 0 ? -1 : rc;
	eventfd_write(restrictions->event_fd, 1);
	if (rc < 0) {
		restrictions_free(restrictions);
		return rc;
	}
	*ret_restrictions = restrictions;
	return 0;
}

struct restrictions *restrictions_impose(struct event_log *events, int listener)
{
#ifdef __SANITIZE_ADDRESS__ // its leak checker traces the agent at its end
	(void)events, (void)listener;
	return NULL;
#endif
	struct restrictions *restrictions = NULL;
	struct error err = { 0 };

	forbid_dumps(events);
	if (listen_for_refused(events, listener, &restrictions, &err) == 0)
		return restrictions;
	refuse_unheard(events, listener, err.text);
	return NULL;
}

uint64_t restrictions_refused(const struct restrictions *restrictions)
{
	return restrictions ? atomic_load(&restrictions->refused) : 0;
}

void restrictions_free(struct restrictions *restrictions)
{
	if (!restrictions)
		return;
	atomic_store(&restrictions->is_stopping, true);
	eventfd_write(restrictions->event_fd, 1);
	pthread_join(restrictions->thread, NULL);
	cleanup_closep(&restrictions->notices_fd);
	close(restrictions->event_fd);
	free(restrictions);
}
