// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/thread_wait.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/process/process_memory.h"
#include "agent/dump/syscall_name.h"
#include "agent/stacks/wait_class.h"
#include "agent/stacks/wait_rules.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/utf8.h"

enum {
	PATH_SHOWN = 128,
	PAGE_BYTES = 4096,
	CLOCK_NUMBERS = 16, // clock_nanosleep()'s first argument is one of these
	FUTEX_BYTES = 40,   // a pthread_mutex_t, the rest of a pthread_rwlock_t
	LOCK_FUNCTIONS = 6, // a lock's functions are the first on the stack
	FD_SET_BYTES = FD_SETSIZE / 8,
};

/* ---- which call ---------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* "mov $NUMBER, %eax; syscall" right before the pc, as C libraries and vDSOs have it. */
static int64_t number_in_code(pid_t pid, uint64_t pc)
{
	struct {
		uint8_t move;
		uint32_t number;
		uint8_t call[2];
	} __attribute__((packed)) code;

	if (process_memory_read(pid, pc - sizeof(code), &code, sizeof(code)) || code.move != 0xb8 ||
	    code.call[0] != 0x0f || code.call[1] != 0x05)
		return SYSCALL_NONE;
	return code.number;
}
#else
static int64_t number_in_code(pid_t pid, uint64_t pc)
{
	(void)pid;
	(void)pc;
	return SYSCALL_NONE;
}
#endif

static bool sleeps_in(const struct thread *thread, const char *function)
{
	return strstr(thread->wait_channel, function) ||
	       (thread->kernel_stack && strstr(thread->kernel_stack, function));
}

/*
 * An interrupted call, by us for instance, goes on as restart_syscall() with its arguments still in their
 * registers. The code before it shows which it was, or the kernel function that sleeps: only these restart.
 */
static int64_t restarted_call(pid_t pid, const struct thread *thread,
			      const struct thread_registers *registers)
{
	int64_t number = number_in_code(pid, registers->pc);

	if (number != SYSCALL_NONE)
		return number;
	if (sleeps_in(thread, "futex"))
		return SYS_futex;
	if (sleeps_in(thread, "nanosleep"))
		return registers->arguments[0] < CLOCK_NUMBERS ? SYS_clock_nanosleep
							       : SYS_nanosleep;
#ifdef SYS_poll
	if (sleeps_in(thread, "poll"))
		return SYS_poll;
#endif
	return SYS_restart_syscall;
}

/* ---- what it points to --------------------------------------------------------------------- */

static void read_bytes(pid_t pid, uint64_t address, uint64_t size, struct wait_memory *memory)
{
	if (size > sizeof(memory->bytes))
		size = sizeof(memory->bytes);
	if (process_memory_read(pid, address, memory->bytes, size) == 0)
		memory->size = (uint32_t)size;
}

/* At most to the end of the page: the next one may be unmapped. */
static void read_within_page(pid_t pid, uint64_t address, uint64_t size, struct wait_memory *memory)
{
	uint64_t left = PAGE_BYTES - address % PAGE_BYTES;

	read_bytes(pid, address, size < left ? size : left, memory);
}

static void read_time(pid_t pid, uint64_t address, struct wait_memory *memory)
{
	memory->has_time = address && process_memory_read(pid, address, &memory->time,
							  sizeof(memory->time)) == 0;
}

static void read_sets(pid_t pid, const uint64_t *arguments, struct wait_memory *memory)
{
	memory->size = 3 * FD_SET_BYTES;
	for (int i = 0; i < 3; i++) {
		uint8_t *set = memory->bytes + i * FD_SET_BYTES;
		uint64_t bytes = (arguments[0] + 63) / 64 * 8;

		if (arguments[0] > FD_SETSIZE)
			bytes = FD_SET_BYTES;
		if (!arguments[i + 1] || process_memory_read(pid, arguments[i + 1], set, bytes))
			memset(set, 0, FD_SET_BYTES);
	}
}

void wait_memory_read(pid_t pid, const struct thread *thread,
		      const struct thread_registers *registers, struct wait_memory *ret_memory)
{
	const uint64_t *arguments = registers->arguments;
	const struct syscall_name *call;

	memset(ret_memory, 0, sizeof(*ret_memory));
	ret_memory->syscall = registers->syscall;
	if (registers->syscall == SYS_restart_syscall)
		ret_memory->syscall = restarted_call(pid, thread, registers);
	call = syscall_name_find(ret_memory->syscall);
	switch (call ? call->shape : SYSCALL_OTHER) {
	case SYSCALL_FUTEX:
		read_within_page(pid, arguments[0], FUTEX_BYTES, ret_memory);
		read_time(pid, arguments[3], ret_memory);
		break;
	case SYSCALL_POLL:
	case SYSCALL_PPOLL:
		read_bytes(pid, arguments[0],
			   arguments[1] < WAIT_MEMORY_BYTES ? arguments[1] * sizeof(struct pollfd)
							    : WAIT_MEMORY_BYTES,
			   ret_memory);
		if (call->shape == SYSCALL_PPOLL)
			read_time(pid, arguments[2], ret_memory);
		break;
	case SYSCALL_SELECT:
		read_sets(pid, arguments, ret_memory);
		break;
	case SYSCALL_EPOLL_TIMESPEC:
		read_time(pid, arguments[3], ret_memory);
		break;
	case SYSCALL_SLEEP:
		read_time(pid, arguments[0], ret_memory);
		break;
	case SYSCALL_CLOCK_SLEEP:
		read_time(pid, arguments[2], ret_memory);
		break;
	case SYSCALL_PATH:
	case SYSCALL_PATH_SECOND:
		read_within_page(pid, arguments[call->shape == SYSCALL_PATH_SECOND], PATH_SHOWN - 1,
				 ret_memory);
		break;
	default:
		break;
	}
}

/* ---- text --------------------------------------------------------------------------------- */

struct description {
	const struct thread *thread;
	const struct thread_registers *registers;
	const struct wait_memory *memory;
	const struct wait_context *context;
	const struct syscall_name *call;
	struct thread_wait *wait;
	size_t length; // of wait->text
};

static void say(struct description *is, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void say(struct description *is, const char *format, ...)
{
	size_t room = sizeof(is->wait->text) - is->length;
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(is->wait->text + is->length, room, format, arguments);
	va_end(arguments);
	if (length > 0)
		is->length += (size_t)length < room ? (size_t)length : room - 1;
}

static void say_file(struct description *is, int fd)
{
	char target[FILE_TARGET_BYTES];

	say(is, "fd %d", fd);
	if (is->context->files && file_target_describe(is->context->files, fd, target) == 0)
		say(is, " (%s)", target);
}

static void say_files(struct description *is, const int *fds, uint32_t count)
{
	for (uint32_t i = 0; i < count && i < WAIT_FILES_SHOWN; i++) {
		say(is, i ? ", " : " ");
		say_file(is, fds[i]);
	}
	if (count > WAIT_FILES_SHOWN)
		say(is, " and %u more", count - WAIT_FILES_SHOWN);
}

static void say_thread(struct description *is, const struct thread *thread)
{
	say(is, "thread %d \"%s\"", thread->tid, thread->name);
}

static void say_seconds(struct description *is, double seconds)
{
	if (seconds >= 0.001)
		say(is, "%.6g s", seconds);
	else
		say(is, "%.3g us", seconds * 1e6);
}

static void say_time(struct description *is, const char *before, const struct timespec *time)
{
	say(is, "%s", before);
	say_seconds(is, (double)time->tv_sec + (double)time->tv_nsec / 1e9);
}

static void say_timeout_ms(struct description *is, int64_t ms)
{
	if (ms > 0 && ms <= INT32_MAX) {
		say(is, ", for at most ");
		say_seconds(is, (double)ms / 1000);
	}
}

/* ---- locks --------------------------------------------------------------------------------- */

/* Has one of the first functions on the stack this name, or this prefix? */
static bool is_inside(const struct description *is, const char *beginning)
{
	const struct wait_context *context = is->context;

	for (uint32_t i = 0; i < context->function_count && i < LOCK_FUNCTIONS; i++)
		if (text_begins_with(wait_plain_name(context->functions[i].name), beginning))
			return true;
	return false;
}

/* A timed wait for a condition right below what takes the GIL. */
static bool is_gil(const struct description *is)
{
	const struct wait_context *context = is->context;
	bool waits = false;

	for (uint32_t i = 0; i < context->function_count && i < LOCK_FUNCTIONS; i++) {
		const struct wait_function *function = &context->functions[i];

		if (waits && wait_takes_gil(wait_plain_name(function->name), function->module))
			return true;
		waits = text_begins_with(wait_plain_name(function->name), "pthread_cond_");
	}
	return false;
}

static bool word_at(const struct wait_memory *memory, uint32_t offset, uint32_t *ret_word)
{
	if (offset + sizeof(*ret_word) > memory->size)
		return false;
	memcpy(ret_word, memory->bytes + offset, sizeof(*ret_word));
	return true;
}

static const struct thread *thread_at(const struct description *is, uint32_t offset)
{
	uint32_t tid;

	if (!word_at(is->memory, offset, &tid) || !tid)
		return NULL;
	return thread_list_find_in_namespace(is->context->threads, (pid_t)(tid & FUTEX_TID_MASK));
}

static void say_lock(struct description *is, enum wait_kind kind, const char *what,
		     const struct thread *owner)
{
	is->wait->kind = kind;
	is->wait->address = is->registers->arguments[0];
	say(is, "waits for %s 0x%" PRIx64, what, is->wait->address);
	if (!owner)
		return;
	is->wait->owner = owner->tid;
	say(is, ", held by ");
	say_thread(is, owner);
}

/*
 * glibc's pthread_rwlock_t (sysdeps/nptl/bits/struct_rwlock.h) has two words to wait for, at 8 and at
 * 12; the thread that writes is at 24.
 */
static const struct thread *rwlock_writer(const struct description *is)
{
	bool is_second = is_inside(is, "pthread_rwlock_wrlock") ||
			 is_inside(is, "pthread_rwlock_timedwrlock");
	const struct thread *writer = thread_at(is, is_second ? 12 : 16);

	return writer ? writer : thread_at(is, is_second ? 16 : 12);
}

static void describe_gil(struct description *is)
{
	const struct thread *holder = is->context->gil_holder;

	is->wait->kind = WAIT_GIL;
	say(is, "waits for the GIL");
	if (!holder)
		return;
	is->wait->owner = holder->tid;
	say(is, ", held by ");
	say_thread(is, holder);
}

/*
 * Who waits in pthread_mutex_lock() waits for the word to change from 2; the owner is 8 bytes after
 * it (sysdeps/nptl/bits/struct_mutex.h). Who waits in pthread_join() waits for the kernel to clear
 * the thread's id.
 */
static void describe_futex_wait(struct description *is)
{
	uint32_t word = 0, expected = (uint32_t)is->registers->arguments[2];
	bool is_private = is->registers->arguments[1] & FUTEX_PRIVATE_FLAG;
	const struct thread *owner;

	word_at(is->memory, 0, &word);
	if (is_gil(is)) {
		describe_gil(is);
	} else if (is_inside(is, "pthread_cond_")) {
		say_lock(is, WAIT_CONDITION, "a condition variable near", NULL);
	} else if (is_inside(is, "pthread_rwlock_")) {
		say_lock(is, WAIT_MUTEX, "a read-write lock near", rwlock_writer(is));
	} else if (is_inside(is, "PyThread_acquire_lock") || is_inside(is, "PyMutex_Lock")) {
		say_lock(is, WAIT_MUTEX, "a Python lock", NULL);
	} else if (is_inside(is, "sem_") || is_inside(is, "new_sem_")) {
		say_lock(is, WAIT_SEMAPHORE, "semaphore", NULL);
	} else if (!is_private && word == expected && (owner = thread_at(is, 0)) &&
		   owner != is->thread) {
		is->wait->kind = WAIT_THREAD;
		is->wait->owner = owner->tid;
		say(is, "waits for ");
		say_thread(is, owner);
		say(is, " to end");
	} else if (expected == 2 && (owner = thread_at(is, 8))) {
		say_lock(is, WAIT_MUTEX, "mutex", owner);
	} else {
		say_lock(is, WAIT_FUTEX, "a lock (futex)", NULL);
	}
}

static void describe_futex(struct description *is)
{
	uint32_t operation = is->registers->arguments[1] & FUTEX_CMD_MASK;

	switch (operation) {
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		say_lock(is, WAIT_MUTEX, "mutex", thread_at(is, 0));
		return;
	case FUTEX_WAIT:
		describe_futex_wait(is);
		if (is->memory->has_time && is->wait->kind != WAIT_GIL)
			say_time(is, ", for at most ", &is->memory->time);
		return;
	case FUTEX_WAIT_BITSET: // the time is a moment, not a length
		describe_futex_wait(is);
		if (is->memory->has_time && is->wait->kind != WAIT_GIL)
			say(is, ", with a time limit");
		return;
	}
	say_lock(is, WAIT_FUTEX, "a lock (futex)", NULL);
}

/* ---- files --------------------------------------------------------------------------------- */

static void describe_fd(struct description *is, uint64_t fd)
{
	is->wait->kind = WAIT_FILE;
	is->wait->fd = (int)fd;
	say(is, "in %s of ", is->call->name);
	say_file(is, (int)fd);
}

static void describe_epoll(struct description *is)
{
	int fds[EPOLL_FILES_MAX], epoll = (int)is->registers->arguments[0];
	uint32_t count = 0;

	if (is->context->files)
		count = file_target_epoll(is->context->files, epoll, fds, EPOLL_FILES_MAX);
	is->wait->kind = WAIT_FILES;
	is->wait->fd = epoll;
	say(is, "in %s of fd %d%s", is->call->name, epoll, count ? ":" : "");
	say_files(is, fds, count);
	if (is->call->shape == SYSCALL_EPOLL)
		say_timeout_ms(is, (int64_t)(int)is->registers->arguments[3]);
	else if (is->memory->has_time)
		say_time(is, ", for at most ", &is->memory->time);
}

static void describe_poll(struct description *is)
{
	int fds[WAIT_MEMORY_BYTES / sizeof(struct pollfd)];
	uint32_t count = 0;

	for (uint32_t at = 0; at + sizeof(struct pollfd) <= is->memory->size;
	     at += sizeof(struct pollfd)) {
		struct pollfd entry;

		memcpy(&entry, is->memory->bytes + at, sizeof(entry));
		if (entry.fd >= 0) // others are ignored
			fds[count++] = entry.fd;
	}
	is->wait->kind = count ? WAIT_FILES : WAIT_TIME;
	if (count == 1)
		is->wait->fd = fds[0];
	say(is, "in %s", is->call->name);
	if (count)
		say(is, " of");
	say_files(is, fds, count);
	if (is->call->shape == SYSCALL_POLL)
		say_timeout_ms(is, (int64_t)(int)is->registers->arguments[2]);
	else if (is->memory->has_time)
		say_time(is, ", for at most ", &is->memory->time);
}

static void describe_select(struct description *is)
{
	uint64_t limit = is->registers->arguments[0];
	int fds[WAIT_FILES_SHOWN];
	uint32_t count = 0;

	if (is->memory->size < 3 * FD_SET_BYTES)
		limit = 0;
	for (uint64_t fd = 0; fd < limit && fd < FD_SETSIZE; fd++) {
		uint8_t any = 0;

		for (int set = 0; set < 3; set++)
			any |= is->memory->bytes[set * FD_SET_BYTES + fd / 8];
		if (!(any >> fd % 8 & 1))
			continue;
		if (count < WAIT_FILES_SHOWN)
			fds[count] = (int)fd;
		count++;
	}
	is->wait->kind = count ? WAIT_FILES : WAIT_TIME;
	if (count == 1)
		is->wait->fd = fds[0];
	say(is, "in %s", is->call->name);
	if (count)
		say(is, " of");
	say_files(is, fds, count);
}

/* ---- others -------------------------------------------------------------------------------- */

static void describe_sleep(struct description *is)
{
	bool is_moment = is->call->shape == SYSCALL_CLOCK_SLEEP &&
			 is->registers->arguments[1] & TIMER_ABSTIME;

	is->wait->kind = WAIT_TIME;
	say(is, "sleeps");
	if (is_moment)
		say(is, " until a given time");
	else if (is->memory->has_time)
		say_time(is, " for ", &is->memory->time);
}

static void describe_child(struct description *is)
{
	const uint64_t *arguments = is->registers->arguments;
	int pid = (int)arguments[0];

	is->wait->kind = WAIT_PROCESS;
	if (is->call->shape == SYSCALL_CHILD_ID)
		pid = arguments[0] == P_PID ? (int)arguments[1] : -1;
	if (is->call->shape == SYSCALL_CHILD_ID && arguments[0] == P_PIDFD) {
		is->wait->fd = (int)arguments[1];
		say(is, "waits for the child of ");
		say_file(is, (int)arguments[1]);
	} else if (pid > 0) {
		say(is, "waits for child %d", pid);
	} else {
		say(is, "waits for any child");
	}
}

static void describe_path(struct description *is)
{
	char path[PATH_SHOWN] = "";

	is->wait->kind = WAIT_FILE;
	memcpy(path, is->memory->bytes,
	       is->memory->size < sizeof(path) ? is->memory->size : sizeof(path) - 1);
	utf8_clean(path);
	say(is, "in %s%s%s", is->call->name, path[0] ? " of " : "", path);
}

static void describe_call(struct description *is)
{
	const uint64_t *arguments = is->registers->arguments;

	switch (is->call->shape) {
	case SYSCALL_FUTEX:
		describe_futex(is);
		return;
	case SYSCALL_FD:
		describe_fd(is, arguments[0]);
		return;
	case SYSCALL_FD_SECOND:
		describe_fd(is, arguments[1]);
		return;
	case SYSCALL_EPOLL:
	case SYSCALL_EPOLL_TIMESPEC:
		describe_epoll(is);
		return;
	case SYSCALL_POLL:
	case SYSCALL_PPOLL:
		describe_poll(is);
		return;
	case SYSCALL_SELECT:
		describe_select(is);
		return;
	case SYSCALL_SLEEP:
	case SYSCALL_CLOCK_SLEEP:
		describe_sleep(is);
		return;
	case SYSCALL_CHILD:
	case SYSCALL_CHILD_ID:
		describe_child(is);
		return;
	case SYSCALL_PATH:
	case SYSCALL_PATH_SECOND:
		describe_path(is);
		return;
	case SYSCALL_SIGNAL:
		is->wait->kind = WAIT_SIGNAL;
		say(is, "waits for a signal");
		return;
	case SYSCALL_VFORK:
		is->wait->kind = WAIT_PROCESS;
		say(is, "in %s", is->call->name);
		return;
	case SYSCALL_MEMORY:
		is->wait->kind = WAIT_MEMORY;
		break;
	case SYSCALL_MESSAGE:
	case SYSCALL_OTHER:
	case SYSCALL_RESTART:
		break;
	}
	say(is, "in %s", is->call->name);
}

/* Blocked in a call that is not in the table, or in none: a page fault most likely. */
static void describe_other(struct description *is)
{
	const char *channel = is->thread->wait_channel;

	is->wait->kind = WAIT_OTHER;
	if (is->memory->syscall != SYSCALL_NONE) {
		say(is, "in system call %" PRId64, is->memory->syscall);
	} else {
		is->wait->kind = WAIT_MEMORY;
		say(is, "blocked outside of a system call");
	}
	if (channel[0])
		say(is, " (%s)", channel);
}

static bool is_blocked(const struct description *is)
{
	return strchr("SDTtI", is->thread->state) && is->thread->has_registers &&
	       !is->context->moved;
}

/* A running thread may be in the kernel. */
static void describe_running(struct description *is)
{
	is->wait->kind = WAIT_NOTHING;
	say(is, "runs");
	if (is->call)
		say(is, ", in %s", is->call->name);
}

void thread_wait_describe(const struct thread *thread, const struct thread_registers *registers,
			  const struct wait_memory *memory, const struct wait_context *context,
			  struct thread_wait *ret_wait)
{
	struct thread_wait wait = { .fd = -1, .syscall = memory->syscall };
	struct description is = {
		.thread = thread,
		.registers = registers,
		.memory = memory,
		.context = context,
		.call = syscall_name_find(memory->syscall),
		.wait = &wait,
	};

	wait.call = is.call ? is.call->name : NULL;
	if (thread->state == 'Z' || thread->state == 'X') {
		say(&is, "has exited");
	} else if (!is_blocked(&is)) {
		describe_running(&is);
	} else {
		if (thread->state == 'T' || thread->state == 't')
			say(&is, "stopped%s; ", thread->state == 't' ? " by its tracer" : "");
		if (is.call)
			describe_call(&is);
		else if (thread->state == 'S' || thread->state == 'D')
			describe_other(&is);
		else
			say(&is, "ran");
	}
	*ret_wait = wait;
}

const char *wait_kind_name(enum wait_kind kind)
{
	static const char *const names[] = {
		[WAIT_NOTHING] = "nothing",     [WAIT_FUTEX] = "futex",
		[WAIT_MUTEX] = "mutex",         [WAIT_GIL] = "gil",
		[WAIT_CONDITION] = "condition", [WAIT_SEMAPHORE] = "semaphore",
		[WAIT_THREAD] = "thread",       [WAIT_FILE] = "file",
		[WAIT_FILES] = "files",         [WAIT_TIME] = "time",
		[WAIT_PROCESS] = "process",     [WAIT_SIGNAL] = "signal",
		[WAIT_MEMORY] = "memory",       [WAIT_OTHER] = "other",
	};

	return names[kind];
}
