// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/process_pause.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/array.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "agent/bpf/machine.h"
#include "agent/process/proc.h"

enum {
	PASSES_MAX = 16, // over /proc/PID/task, until it has no new thread
	POLL_NS = 20000, // a thread needs about that to stop
};

#define SLEEPER_STOP_NS NS_PER_MS

struct held_thread {
	struct paused_thread thread;
	int signal; // pending when it stopped: delivered when it resumes
	bool gone;
};

struct schedule {
	int policy;
	struct sched_param priority;
};

struct process_pause {
	pid_t pid;
	struct paused_thread *threads; // for the caller
	uint32_t thread_count;

	pthread_t tracer;
	bool has_tracer;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool begun, ending, ended; // under the lock
	bool expired;
	bool hurries; // the caller has real-time priority; its own before:
	struct schedule before;
	int rc; // of the beginning
	struct error err;
	uint64_t began_ns, ended_ns;

	// The tracer's own.
	struct held_thread *held;
	uint32_t held_count, held_capacity;
	struct hash_table index; // of held, by tid
};

/* ---- errors ------------------------------------------------------------------------------- */

/* The number behind "@name:" in a status file, or -1. */
static long status_number(pid_t tid, const char *name)
{
	_cleanup_(buffer_deinit) struct buffer status = { 0 };
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", tid);
	_cleanup_close_ int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0 || proc_read(folder, "status", 65536, &status))
		return -1;
	const char *at = strstr(buffer_string(&status), name);
	return at ? strtol(at + strlen(name), NULL, 10) : -1;
}

/* Yama's setting, -1 where the kernel has no Yama. */
static long yama_scope(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	long scope = -1;

	return file && fscanf(file, "%ld", &scope) == 1 ? scope : -1;
}

static int explain_refusal(pid_t pid, pid_t tid, int rc, struct error *err)
{
	long tracer = status_number(tid, "\nTracerPid:");
	long scope = yama_scope();

	if (rc == -ESRCH)
		return error_set(err, rc, "process %d has exited", pid);
	if (tracer > 0)
		return error_set(err, -EBUSY, "process %d is being traced by process %ld already",
				 pid, tracer);
	if (pid == getpid())
		return error_set(err, rc, "process %d is cairn itself", pid);
	if (rc == -EPERM && scope == 3)
		return error_set(err, rc,
				 "kernel.yama.ptrace_scope is 3: no tracing until the machine "
				 "restarts");
	if (rc == -EPERM && machine_has_capability(CAP_SYS_PTRACE))
		return error_set(err, rc,
				 "may not trace process %d despite CAP_SYS_PTRACE: a security "
				 "module or another user namespace protects it",
				 pid);
	if (rc == -EPERM)
		return error_set(err, rc,
				 "may not trace process %d: run as root, or with CAP_SYS_PTRACE%s",
				 pid,
				 scope > 0 ? ", or set kernel.yama.ptrace_scope to 0 for your own "
					     "processes"
					   : "");
	return error_errno(err, rc, "trace process %d", pid);
}

/* ---- seize --------------------------------------------------------------------------------- */

static uint64_t hash_of(pid_t tid)
{
	return XXH3_64bits(&tid, sizeof(tid));
}

static bool has_tid(const void *context, uint32_t item, const void *key)
{
	const struct process_pause *pause = context;

	return pause->held[item].thread.tid == *(const pid_t *)key;
}

static bool is_held(const struct process_pause *pause, pid_t tid)
{
	return hash_table_find(&pause->index, hash_of(tid), has_tid, pause, &tid) !=
	       HASH_TABLE_NONE;
}

static int add_held(struct process_pause *pause, pid_t tid)
{
	if (array_reserve(&pause->held, sizeof(*pause->held), &pause->held_capacity,
			  pause->held_count, 1, UINT32_MAX))
		return -ENOMEM;
	pause->held[pause->held_count] = (struct held_thread){ .thread.tid = tid };
	return hash_table_add(&pause->index, hash_of(tid), pause->held_count++);
}

/* As in proc(5); 'X' too if it is not there. */
static char thread_state(pid_t tid)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	struct proc_stat stat;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d", tid);
	_cleanup_close_ int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (folder < 0 || proc_read(folder, "stat", 1024, &text) ||
	    proc_stat_parse((const char *)text.bytes, text.size, &stat))
		return 'X';
	return stat.state;
}

/* Exited threads, as the main one may be, are skipped. */
static bool has_exited(pid_t tid)
{
	char state = thread_state(tid);

	return state == 'Z' || state == 'X';
}

/* Seizing does not stop: all threads are stopped at once afterwards. */
static int seize_thread(struct process_pause *pause, const char *name)
{
	pid_t tid = (pid_t)strtol(name, NULL, 10);

	if (tid <= 0 || is_held(pause, tid) || pause->held_count >= PAUSE_THREADS_MAX)
		return 0;
	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) == 0)
		return add_held(pause, tid);
	int rc = -errno;
	if (has_exited(tid))
		return 0;
	return explain_refusal(pause->pid, tid, rc, &pause->err);
}

static int seize_new_threads(struct process_pause *pause, DIR *tasks)
{
	struct dirent *entry;
	int rc = 0;

	rewinddir(tasks);
	while (!rc && (entry = readdir(tasks)))
		rc = seize_thread(pause, entry->d_name);
	return rc;
}

/* ---- stop ---------------------------------------------------------------------------------- */

/* From @first on. */
static void interrupt_threads(struct process_pause *pause, uint32_t first)
{
	for (uint32_t i = first; i < pause->held_count; i++)
		ptrace(PTRACE_INTERRUPT, pause->held[i].thread.tid, NULL, NULL);
}

/* Has it stopped? It may stop for a signal first. */
static bool take_stop(struct held_thread *held)
{
	pid_t tid = held->thread.tid;
	int status;
	pid_t rc = waitpid(tid, &status, __WALL | WNOHANG);

	if (rc == 0)
		return false;
	if (rc < 0 || !WIFSTOPPED(status)) {
		held->gone = true;
		return true;
	}
	held->signal = status >> 16 ? 0 : WSTOPSIG(status);
	held->thread.stopped = thread_registers_read(tid, &held->thread.registers) == 0;
	held->gone = !held->thread.stopped;
	return true;
}

/* A thread in uninterruptible sleep does not stop, and does not run either. */
static void wait_for_stop(struct held_thread *held, uint64_t asked_ns)
{
	const struct timespec moment = { .tv_nsec = POLL_NS };

	while (!take_stop(held)) {
		uint64_t waited_ns = clock_monotonic_ns() - asked_ns;

		if (waited_ns > PAUSE_STOP_NS ||
		    (waited_ns > SLEEPER_STOP_NS && thread_state(held->thread.tid) == 'D'))
			return;
		clock_nanosleep(CLOCK_MONOTONIC, 0, &moment, NULL);
	}
}

static void wait_for_stops(struct process_pause *pause, uint32_t first)
{
	uint64_t asked_ns = clock_monotonic_ns();

	for (uint32_t i = first; i < pause->held_count; i++)
		wait_for_stop(&pause->held[i], asked_ns);
}

/* Stopping counts in the pause's time limit. */
static bool has_time_for_a_pass(const struct process_pause *pause)
{
	return clock_monotonic_ns() - pause->began_ns < PAUSE_HELD_NS - PAUSE_STOP_NS;
}

/*
 * Running threads start others: /proc/PID/task is read until all in it are held. Those of the first pass are
 * all seized before any is stopped, so that the pause begins late.
 */
static int stop_all(struct process_pause *pause, DIR *tasks)
{
	int rc = seize_new_threads(pause, tasks);
	uint32_t stopped = 0;

	pause->began_ns = clock_monotonic_ns();
	for (int pass = 0;
	     !rc && pass < PASSES_MAX && stopped < pause->held_count && has_time_for_a_pass(pause);
	     pass++) {
		uint32_t first = stopped;

		interrupt_threads(pause, first);
		stopped = pause->held_count;
		wait_for_stops(pause, first);
		rc = seize_new_threads(pause, tasks);
	}
	if (!rc && !pause->held_count)
		rc = error_set(&pause->err, -ESRCH, "process %d has exited", pause->pid);
	return rc;
}

/* ---- resume -------------------------------------------------------------------------------- */

/* One that has not stopped yet resumes when the tracer's thread ends. */
static void release_all(struct process_pause *pause)
{
	for (uint32_t i = 0; i < pause->held_count; i++) {
		struct held_thread *held = &pause->held[i];

		if (!held->thread.stopped && !held->gone)
			take_stop(held);
		if (!held->gone)
			ptrace(PTRACE_DETACH, held->thread.tid, NULL, (long)held->signal);
	}
}

/* ---- priority ------------------------------------------------------------------------------ */

/* During the pause we should not wait for a CPU. */
static bool hurry(struct schedule *ret_before)
{
	const struct sched_param first = { .sched_priority = 1 };

	return pthread_getschedparam(pthread_self(), &ret_before->policy, &ret_before->priority) ==
		       0 &&
	       pthread_setschedparam(pthread_self(), SCHED_FIFO, &first) == 0;
}

static void calm_down(const struct schedule *before)
{
	pthread_setschedparam(pthread_self(), before->policy, &before->priority);
}

/* ---- the tracer ---------------------------------------------------------------------------- */

static int by_tid(const void *a, const void *b)
{
	const struct paused_thread *left = a, *right = b;

	return (left->tid > right->tid) - (left->tid < right->tid);
}

static int publish_threads(struct process_pause *pause)
{
	pause->threads = calloc(pause->held_count, sizeof(*pause->threads));
	if (!pause->threads)
		return -ENOMEM;
	for (uint32_t i = 0; i < pause->held_count; i++)
		if (!pause->held[i].gone)
			pause->threads[pause->thread_count++] = pause->held[i].thread;
	qsort(pause->threads, pause->thread_count, sizeof(*pause->threads), by_tid);
	return 0;
}

static int begin(struct process_pause *pause)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/task", pause->pid);
	DIR *tasks = opendir(path);
	if (!tasks)
		return error_set(&pause->err, errno == ENOENT ? -ESRCH : -errno,
				 "there is no process %d", pause->pid);
	int rc = stop_all(pause, tasks);
	closedir(tasks);
	return rc ? rc : publish_threads(pause);
}

/* Until the caller ends the pause, or the time limit. */
static void wait_for_end(struct process_pause *pause)
{
	uint64_t until_ns = pause->began_ns + PAUSE_HELD_NS;
	const struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_SECOND),
					.tv_nsec = (long)(until_ns % NS_PER_SECOND) };

	while (!pause->ending && !pause->expired)
		if (pthread_cond_timedwait(&pause->changed, &pause->lock, &until) == ETIMEDOUT)
			pause->expired = !pause->ending;
}

static void *trace(void *context)
{
	struct process_pause *pause = context;
	int rc = begin(pause); // with its creator's priority

	pthread_mutex_lock(&pause->lock);
	pause->rc = rc;
	pause->begun = true;
	pthread_cond_broadcast(&pause->changed);
	if (!rc)
		wait_for_end(pause);
	pthread_mutex_unlock(&pause->lock);

	release_all(pause);
	pause->ended_ns = clock_monotonic_ns();
	return NULL;
}

/* The tracer blocks signals: other threads of ours take them. */
static int start_tracer(struct process_pause *pause)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = -pthread_create(&pause->tracer, NULL, trace, pause);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pause->has_tracer = !rc;
	return rc;
}

static void init(struct process_pause *pause, pid_t pid)
{
	pthread_condattr_t attributes;

	pause->pid = pid;
	pthread_mutex_init(&pause->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&pause->changed, &attributes);
	pthread_condattr_destroy(&attributes);
}

static void freep(struct process_pause **pause)
{
	process_pause_free(*pause);
}

int process_pause_begin(pid_t pid, struct process_pause **ret_pause, struct error *err)
{
	_cleanup_(freep) struct process_pause *pause = calloc(1, sizeof(*pause));

	if (!pause)
		return error_set(err, -ENOMEM, "out of memory");
	init(pause, pid);
	pause->hurries = hurry(&pause->before);
	int rc = start_tracer(pause);
	if (rc)
		return error_errno(err, rc, "start a thread");

	pthread_mutex_lock(&pause->lock);
	while (!pause->begun)
		pthread_cond_wait(&pause->changed, &pause->lock);
	rc = pause->rc;
	pthread_mutex_unlock(&pause->lock);
	if (rc)
		return error_set(err, rc, "%s",
				 pause->err.code ? pause->err.text : "out of memory");
	*ret_pause = take(pause);
	return 0;
}

const struct paused_thread *process_pause_threads(const struct process_pause *pause,
						  uint32_t *ret_count)
{
	*ret_count = pause->thread_count;
	return pause->threads;
}

const struct paused_thread *process_pause_find(const struct process_pause *pause, pid_t tid)
{
	const struct paused_thread wanted = { .tid = tid };

	if (!pause->thread_count)
		return NULL;
	return bsearch(&wanted, pause->threads, pause->thread_count, sizeof(*pause->threads),
		       by_tid);
}

uint64_t process_pause_end(struct process_pause *pause, bool *ret_expired)
{
	if (pause->has_tracer) {
		pthread_mutex_lock(&pause->lock);
		pause->ending = true;
		pthread_cond_broadcast(&pause->changed);
		pthread_mutex_unlock(&pause->lock);
		pthread_join(pause->tracer, NULL);
		pause->has_tracer = false;
	}
	if (pause->hurries)
		calm_down(&pause->before);
	pause->hurries = false;
	*ret_expired = pause->expired;
	return pause->ended_ns - pause->began_ns;
}

void process_pause_free(struct process_pause *pause)
{
	bool expired;

	if (!pause)
		return;
	process_pause_end(pause, &expired);
	pthread_cond_destroy(&pause->changed);
	pthread_mutex_destroy(&pause->lock);
	free(pause->threads);
	free(pause->held);
	hash_table_deinit(&pause->index);
	free(pause);
}
