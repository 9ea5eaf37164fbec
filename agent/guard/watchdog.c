// SPDX-License-Identifier: Apache-2.0
#include "agent/guard/watchdog.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

enum {
	SCHEDSTAT_BYTES = 128,
	LOG_WAIT_MS = 100, // for whoever reads standard error: it may be what hangs
};

struct watchdog {
	struct watchdog_options options;
	pthread_t thread;
	pid_t watched; // tid
	int stop_fd;
	// Written by the watched thread. A stage is a name and a pid, which may be of two stages for an instant.
	_Atomic uint64_t turn;
	_Atomic(const char *) stage;
	_Atomic pid_t pid;
};

static struct watchdog *watchdog; // NULL: none
static _Thread_local bool is_watched;

// ---- the watched thread ---------------------------------------------------------------------

static void set_stage(struct watchdog_stage stage)
{
	atomic_store_explicit(&watchdog->pid, stage.pid, memory_order_relaxed);
	atomic_store_explicit(&watchdog->stage, stage.name, memory_order_relaxed);
}

void watchdog_begin_turn(const char *stage)
{
	if (!is_watched)
		return;
	set_stage((struct watchdog_stage){ .name = stage });
	atomic_store(&watchdog->turn, (atomic_load(&watchdog->turn) + 1) | 1);
}

void watchdog_end_turn(void)
{
	if (is_watched && atomic_load(&watchdog->turn) % 2)
		atomic_fetch_add(&watchdog->turn, 1);
}

struct watchdog_stage watchdog_enter(const char *name, pid_t pid)
{
	struct watchdog_stage before = { 0 };

	if (!is_watched)
		return before;
	before.name = atomic_load_explicit(&watchdog->stage, memory_order_relaxed);
	before.pid = atomic_load_explicit(&watchdog->pid, memory_order_relaxed);
	set_stage((struct watchdog_stage){ name, pid });
	return before;
}

void watchdog_leave(struct watchdog_stage before)
{
	if (is_watched)
		set_stage(before);
}

// ---- the watching thread --------------------------------------------------------------------

// A wait for a CPU is known when it is over: it may be longer than what was counted since.
static uint64_t without_wait(uint64_t counted_ms, uint64_t waited_ms)
{
	return waited_ms < counted_ms ? counted_ms - waited_ms : 0;
}

void watchdog_view_tick(struct watchdog_view *view, const struct watchdog_tick *now,
			uint32_t tick_ms)
{
	uint64_t waited_ms = (now->waited_ns - view->waited_ns) / NS_PER_MS;
	bool is_same = now->turn == view->turn && now->turn % 2;

	view->busy_ms = is_same ? without_wait(view->busy_ms + tick_ms, waited_ms) : 0;
	view->signal_ms =
		is_same && now->has_signal ? without_wait(view->signal_ms + tick_ms, waited_ms) : 0;
	view->turn = now->turn;
	view->waited_ns = now->waited_ns;
}

// Its second number: the time that the thread was runnable without a CPU.
static uint64_t read_waited_ns(pid_t tid)
{
	char path[64];
	unsigned long long waited_ns = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%d/schedstat", tid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	if (!file || fscanf(file, "%*u %llu", &waited_ns) != 1)
		return 0;
	return waited_ns;
}

static bool is_ending(void)
{
	sigset_t pending;

	return sigpending(&pending) == 0 &&
	       (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

static bool may_log(void)
{
	struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };

	return poll(&out, 1, LOG_WAIT_MS) > 0;
}

static void end_process(const struct watchdog *dog, const struct watchdog_view *view,
			bool is_signal)
{
	const struct watchdog_options *options = &dog->options;
	const char *stage = atomic_load(&dog->stage);
	pid_t pid = atomic_load(&dog->pid);
	char process[32] = "";

	if (!is_signal)
		hung_processes_note(options->hung, pid);
	if (pid)
		snprintf(process, sizeof(process), " of process %d", pid);
	if (may_log() && is_signal)
		log_error(
			"%s: ended by its watchdog after a signal: still busy with %s%s (%.1f s); "
			"lost: the last export interval and batches not sent yet",
			options->subject, stage ? stage : "an unknown step", process,
			(double)view->busy_ms / 1000);
	else if (may_log())
		log_error("%s: ended by its watchdog: stuck in %s%s (%.1f s, limit %.1f s); %s",
			  options->subject, stage ? stage : "an unknown step", process,
			  (double)view->busy_ms / 1000, options->turn_ms_max / 1e3,
			  options->advice);
	_exit(EXIT_FAILURE); // without destructors: their locks may be what hangs
}

static void *watch(void *argument)
{
	struct watchdog *dog = argument;
	struct pollfd stop = { .fd = dog->stop_fd, .events = POLLIN };
	struct watchdog_view view = { 0 };
	int rc;

	while ((rc = poll(&stop, 1, (int)dog->options.tick_ms)) <= 0) {
		if (rc < 0) // a signal: not a tick
			continue;
		const struct watchdog_tick now = {
			.turn = atomic_load(&dog->turn),
			.waited_ns = read_waited_ns(dog->watched),
			.has_signal = is_ending(),
		};
		watchdog_view_tick(&view, &now, dog->options.tick_ms);
		if (view.signal_ms >= WATCHDOG_SIGNAL_MS)
			end_process(dog, &view, true);
		if (view.busy_ms >= dog->options.turn_ms_max)
			end_process(dog, &view, false);
	}
	return NULL;
}

// ---- life -----------------------------------------------------------------------------------

static void free_watchdog(struct watchdog *dog)
{
	cleanup_closep(&dog->stop_fd);
	free(dog);
}

static int start_thread(struct watchdog *dog)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&dog->thread, NULL, watch, dog);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

int watchdog_start(const struct watchdog_options *options, struct error *err)
{
	struct watchdog *dog = calloc(1, sizeof(*dog));

	if (!dog)
		return error_set(err, -ENOMEM, "out of memory");
	dog->options = *options;
	if (!dog->options.tick_ms)
		dog->options.tick_ms = WATCHDOG_TICK_MS;
	dog->watched = gettid();
	dog->stop_fd = eventfd(0, EFD_CLOEXEC);
	int rc = dog->stop_fd < 0 ? -errno : start_thread(dog);
	if (rc) {
		free_watchdog(dog);
		return error_errno(err, rc, "watchdog");
	}
	watchdog = dog;
	is_watched = true;
	return 0;
}

void watchdog_stop(void)
{
	const uint64_t one = 1;

	if (!watchdog)
		return;
	(void)!write(watchdog->stop_fd, &one, sizeof(one));
	pthread_join(watchdog->thread, NULL);
	is_watched = false;
	free_watchdog(take(watchdog));
}
