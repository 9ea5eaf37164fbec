// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/slow_open.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "agent/elf/mount_device.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum { PATH_BYTES = 64, STAT_BYTES = 512, STARVED_WAITS = 4 };

/* Freed by the last of the two threads. */
struct slow_open {
	slow_open_fn fn;
	int folder;
	uint64_t flags;
	uint64_t inode;
	pthread_mutex_t lock;
	pthread_cond_t finished; // of CLOCK_MONOTONIC
	bool is_finished;
	bool is_abandoned;
	pid_t tid; // 0: it has not run yet
	int result;
	// Where it is, for who gives it up.
	dev_t device;
	char place[PATH_MAX]; // "": the device is known
	char path[PATH_MAX];
};

/* A file system that hangs, or rests. */
struct hung {
	dev_t device;     // 0: not known
	uint32_t threads; // 0: rests
	uint64_t since_ns, until_ns;
};

static struct {
	pthread_mutex_t lock;
	struct hung hung[SLOW_OPENS_MAX];
	struct slow_open_stats stats;
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- file systems that hang ----------------------------------------------------------------- */

/* Under the lock. */
static struct hung *find_hung(dev_t device)
{
	for (uint32_t i = 0; i < SLOW_OPENS_MAX; i++)
		if ((known.hung[i].threads || known.hung[i].until_ns) &&
		    known.hung[i].device == device)
			return &known.hung[i];
	return NULL;
}

/* Under the lock: a new one in the place of one that rests. */
static struct hung *add_hung(dev_t device, uint64_t now_ns)
{
	struct hung *hung = find_hung(device);

	for (uint32_t i = 0; !hung && i < SLOW_OPENS_MAX; i++)
		if (!known.hung[i].threads)
			hung = &known.hung[i];
	if (hung && !hung->threads)
		*hung = (struct hung){ .device = device, .since_ns = now_ns };
	return hung;
}

/* An open of it is abandoned. */
static void note_hung(dev_t device)
{
	pthread_mutex_lock(&known.lock);
	// There is room: as many threads as file systems.
	struct hung *hung = add_hung(device, clock_monotonic_ns());
	if (hung)
		hung->threads++;
	known.stats.hung++;
	known.stats.threads++;
	known.stats.device = device;
	pthread_mutex_unlock(&known.lock);
}

/* An abandoned open came back. */
static void note_end(dev_t device)
{
	const uint64_t most_ns = SLOW_OPEN_REST_S_MAX * NS_PER_SECOND;
	uint64_t now_ns = clock_monotonic_ns();

	pthread_mutex_lock(&known.lock);
	struct hung *hung = find_hung(device);
	if (hung && hung->threads && !--hung->threads) {
		uint64_t rest_ns = SLOW_OPEN_REST_FACTOR * (now_ns - hung->since_ns);
		hung->until_ns = now_ns + (rest_ns < most_ns ? rest_ns : most_ns);
	}
	known.stats.threads--;
	pthread_mutex_unlock(&known.lock);
}

static bool is_left_alone(dev_t device)
{
	pthread_mutex_lock(&known.lock);
	const struct hung *hung = find_hung(device);
	bool is = hung && (hung->threads || clock_monotonic_ns() < hung->until_ns);
	known.stats.refused += is;
	pthread_mutex_unlock(&known.lock);
	return is;
}

static bool has_hung(void)
{
	uint64_t now_ns = clock_monotonic_ns();
	bool has = false;

	pthread_mutex_lock(&known.lock);
	for (uint32_t i = 0; i < SLOW_OPENS_MAX; i++)
		has |= known.hung[i].threads || now_ns < known.hung[i].until_ns;
	pthread_mutex_unlock(&known.lock);
	return has;
}

static uint32_t abandoned_threads(void)
{
	struct slow_open_stats stats;

	slow_open_read_stats(&stats);
	return stats.threads;
}

void slow_open_read_stats(struct slow_open_stats *ret_stats)
{
	pthread_mutex_lock(&known.lock);
	*ret_stats = known.stats;
	pthread_mutex_unlock(&known.lock);
}

/* ---- where an open is ----------------------------------------------------------------------- */

/* What hangs is its place at the moment of the timeout. */
static void set_place(struct slow_open *open, dev_t device, const char *place)
{
	pthread_mutex_lock(&open->lock);
	if (!open->is_abandoned) {
		open->device = device;
		strcpy(open->place, place);
	}
	pthread_mutex_unlock(&open->lock);
}

int slow_open_enter(struct slow_open *open, dev_t device)
{
	if (is_left_alone(device))
		return -EBUSY;
	set_place(open, device, "");
	return 0;
}

int slow_open_enter_path(struct slow_open *open, const char *path)
{
	dev_t device = 0;

	if (strlen(path) >= sizeof(open->place))
		return -ENAMETOOLONG;
	// To look a device up costs more than the rest: only when it matters.
	if (has_hung() && mount_device_find(open->folder, path, &device) == 0 &&
	    is_left_alone(device))
		return -EBUSY;
	set_place(open, 0, path);
	return 0;
}

/* ---- the other thread ----------------------------------------------------------------------- */

static void free_request(struct slow_open *open)
{
	pthread_mutex_destroy(&open->lock);
	pthread_cond_destroy(&open->finished);
	close(open->folder);
	free(open);
}

static void *serve(void *argument)
{
	struct slow_open *open = argument;

	pthread_mutex_lock(&open->lock);
	open->tid = gettid();
	pthread_mutex_unlock(&open->lock);
	int result = open->fn(open, open->folder, open->path, open->flags, open->inode);

	pthread_mutex_lock(&open->lock);
	open->result = result;
	open->is_finished = true;
	bool is_abandoned = open->is_abandoned;
	pthread_cond_signal(&open->finished);
	pthread_mutex_unlock(&open->lock);
	if (!is_abandoned)
		return NULL;
	if (result >= 0)
		close(result);
	note_end(open->device);
	free_request(open);
	return NULL;
}

static struct slow_open *new_request(slow_open_fn fn, int folder, const char *path, uint64_t flags,
				     uint64_t inode)
{
	struct slow_open *open = calloc(1, sizeof(*open));
	pthread_condattr_t attributes;

	if (!open)
		return NULL;
	*open = (struct slow_open){ .fn = fn, .flags = flags, .inode = inode };
	open->folder = fcntl(folder, F_DUPFD_CLOEXEC, 3);
	strcpy(open->path, path);
	pthread_mutex_init(&open->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&open->finished, &attributes);
	pthread_condattr_destroy(&attributes);
	return open;
}

/* Signals are for the main thread. */
static int start(struct slow_open *open)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;

	sigfillset(&all);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	int rc = pthread_create(&thread, &attributes, serve, open);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -rc;
}

/* Whether the thread waits for a CPU, not for a server. Under the lock; reading /proc does not hang. */
static bool is_starved(const struct slow_open *open)
{
	char path[PATH_BYTES], text[STAT_BYTES];

	if (!open->tid)
		return true;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", open->tid);
	_cleanup_close_ int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (size < 0)
		return false;
	text[size] = '\0';
	const char *name_end = strrchr(text, ')'); // 17 (name) R ...
	return name_end && strncmp(name_end, ") R", 3) == 0;
}

/* Whose fault is it? A disk of this machine is slow at worst; network file systems have no block device. */
static void abandon(struct slow_open *open)
{
	if (open->place[0])
		mount_device_find(open->folder, open->place, &open->device);
	if (major(open->device) || is_starved(open))
		open->device = 0;
	note_hung(open->device);
	open->is_abandoned = true;
}

static void wait_a_while(struct slow_open *open)
{
	uint64_t until_ns = clock_monotonic_ns() + SLOW_OPEN_WAIT_MS * NS_PER_MS;
	struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_SECOND),
				  .tv_nsec = (long)(until_ns % NS_PER_SECOND) };
	int rc = 0;

	while (!open->is_finished && !rc)
		rc = pthread_cond_timedwait(&open->finished, &open->lock, &until);
}

/* True when @open has its result; else the other thread owns it. */
static bool wait_for(struct slow_open *open)
{
	pthread_mutex_lock(&open->lock);
	wait_a_while(open);
	for (int i = 0; i < STARVED_WAITS && !open->is_finished && is_starved(open); i++)
		wait_a_while(open);
	bool is_finished = open->is_finished;
	if (!is_finished)
		abandon(open);
	pthread_mutex_unlock(&open->lock);
	return is_finished;
}

int slow_open(slow_open_fn fn, int folder, const char *path, uint64_t flags, uint64_t inode)
{
	if (strlen(path) >= PATH_MAX)
		return -ENAMETOOLONG;
	if (abandoned_threads() >= SLOW_OPENS_MAX)
		return -EBUSY;
	struct slow_open *open = new_request(fn, folder, path, flags, inode);
	if (!open)
		return -ENOMEM;
	int rc = start(open);
	if (rc) {
		free_request(open);
		return rc;
	}
	if (!wait_for(open))
		return -ETIMEDOUT;
	int result = open->result;
	free_request(open);
	return result;
}
