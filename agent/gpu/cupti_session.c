// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/cupti_session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define MAPPING_NAME "/memfd:" CUPTI_SHARED_NAME " (deleted)"
#define SEALS        (F_SEAL_SHRINK | F_SEAL_GROW)

enum {
	LAUNCHES_COMPARED_MIN = 100, // fewer tell nothing of a rate
};

struct cupti_session {
	struct cupti_shared *shared; // the process writes to it as well
	uint32_t asked;              // 0: none of ours
};

// ---- finding the helper ---------------------------------------------------------------------

// The mapping's file by its address: the memory has no path, and its descriptor is closed.
static int open_mapping(pid_t pid, const char *line)
{
	unsigned long long from, to;
	char path[PATH_MAX];

	if (sscanf(line, "%llx-%llx ", &from, &to) != 2)
		return -EPROTO;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", (int)pid, from, to);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int find_mapping(pid_t pid)
{
	_cleanup_fclose_ FILE *maps = NULL;
	_cleanup_free_ char *line = NULL;
	char path[64];
	size_t size = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return errno == ENOENT ? -ESRCH : -errno;
	while (getline(&line, &size, maps) > 0) {
		if (strstr(line, MAPPING_NAME "\n"))
			return open_mapping(pid, line);
	}
	return -ENOENT;
}

// Whatever a process calls so: only sealed memory of the right size is mapped.
static int map_shared(int fd, struct cupti_shared **ret_shared)
{
	struct stat status;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &status) < 0 ||
	    status.st_size != (off_t)sizeof(struct cupti_shared))
		return -EPROTO;
	void *memory =
		mmap(NULL, sizeof(struct cupti_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -errno;
	struct cupti_shared *shared = memory;
	if (__atomic_load_n(&shared->magic, __ATOMIC_ACQUIRE) != CUPTI_SHARED_MAGIC ||
	    shared->version != CUPTI_SHARED_VERSION || shared->bytes != sizeof(*shared)) {
		munmap(memory, sizeof(struct cupti_shared));
		return -EPROTO;
	}
	*ret_shared = shared;
	return 0;
}

int cupti_session_find(pid_t pid, struct cupti_session **ret_window, struct error *err)
{
	_cleanup_free_ struct cupti_session *window = calloc(1, sizeof(*window));
	_cleanup_close_ int fd = find_mapping(pid);

	if (!window)
		return error_set(err, -ENOMEM, "out of memory");
	if (fd == -ENOENT)
		return error_set(err, -ENOENT,
				 "process %d has no helper: start it with "
				 "CUDA_INJECTION64_PATH=/path/to/libcairn_cupti.so",
				 (int)pid);
	if (fd == -ESRCH)
		return error_set(err, fd, "there is no process %d", (int)pid);
	if (fd == -EACCES || fd == -EPERM)
		return error_set(err, fd,
				 "may not open the memory of process %d's helper: run as root, or "
				 "with CAP_SYS_PTRACE and CAP_CHECKPOINT_RESTORE",
				 (int)pid);
	if (fd < 0)
		return error_errno(err, fd, "the memory of process %d's helper", (int)pid);
	int rc = map_shared(fd, &window->shared);
	if (rc)
		return error_set(err, rc,
				 "what process %d calls the helper's memory is none of ours",
				 (int)pid);
	*ret_window = take(window);
	return 0;
}

static void wake(struct cupti_session *window)
{
	syscall(SYS_futex, &window->shared->window_asked, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool is_open(const struct cupti_session *window)
{
	return window->asked &&
	       __atomic_load_n(&window->shared->window_done, __ATOMIC_ACQUIRE) != window->asked;
}

void cupti_session_free(struct cupti_session *window)
{
	if (!window)
		return;
	// The helper ends a window when another one is asked for; this one is of no length.
	if (is_open(window)) {
		window->shared->window_ms = 0;
		__atomic_store_n(&window->shared->window_asked, window->asked + 1,
				 __ATOMIC_RELEASE);
		wake(window);
	}
	munmap(window->shared, sizeof(*window->shared));
	free(window);
}

void cupti_session_freep(struct cupti_session **window)
{
	cupti_session_free(*window);
}

// ---- windows --------------------------------------------------------------------------------

int cupti_session_ask(struct cupti_session *window, const struct cupti_session_options *options)
{
	struct cupti_shared *shared = window->shared;
	uint32_t last = __atomic_load_n(&shared->window_asked, __ATOMIC_ACQUIRE);

	if (last != __atomic_load_n(&shared->window_done, __ATOMIC_ACQUIRE))
		return -EBUSY;
	shared->window_ms = options->window_ms;
	shared->records_max = options->records_max;
	shared->one_in = options->one_in;
	window->asked = last + 1 ? last + 1 : 1;
	__atomic_store_n(&shared->window_asked, window->asked, __ATOMIC_RELEASE);
	wake(window);
	return 0;
}

static uint32_t at_most(uint32_t value, uint32_t max)
{
	return value < max ? value : max;
}

// Copied before it is looked at: it may change at any time.
static int copy_records(const struct cupti_shared *shared, struct cupti_result *result)
{
	uint32_t count = at_most(shared->record_count, CUPTI_RECORDS);
	uint32_t names = at_most(shared->name_count, CUPTI_NAMES);

	result->records = calloc(count + 1, sizeof(*result->records));
	result->names = calloc(names + 1, sizeof(*result->names));
	if (!result->records || !result->names)
		return -ENOMEM;
	memcpy(result->names, shared->names, names * sizeof(*result->names));
	for (uint32_t i = 0; i < names; i++)
		result->names[i][CUPTI_NAME_BYTES - 1] = 0;
	result->name_count = names;
	for (uint32_t i = 0; i < count; i++) {
		struct cupti_record *record = &result->records[result->record_count];

		memcpy(record, &shared->records[i], sizeof(*record));
		if (record->name < names)
			result->record_count++;
	}
	return 0;
}

int cupti_session_read(struct cupti_session *window, struct cupti_result *ret_result)
{
	const struct cupti_shared *shared = window->shared;
	struct cupti_result result = { 0 };

	if (!window->asked)
		return -ENOENT;
	if (is_open(window))
		return -EAGAIN;
	result.state = (enum cupti_state)at_most(shared->state, CUPTI_STATE_DEAR);
	result.code = shared->result;
	result.compared_ns = shared->compared_ns;
	result.compared_launches = shared->compared_launches;
	result.measured_ns = shared->measured_ns;
	result.measured_launches = shared->measured_launches;
	result.kernels = shared->kernels;
	result.kernel_ns = shared->kernel_ns;
	result.records_dropped = shared->records_dropped;
	result.own_ns = shared->own_ns;
	result.enable_ns = shared->enable_ns;
	result.disable_ns = shared->disable_ns;
	int rc = copy_records(shared, &result);
	if (rc) {
		cupti_result_deinit(&result);
		return rc;
	}
	window->asked = 0;
	*ret_result = result;
	return 0;
}

// ---- results --------------------------------------------------------------------------------

void cupti_result_deinit(struct cupti_result *result)
{
	free(result->records);
	free(result->names);
	*result = (struct cupti_result){ 0 };
}

double cupti_result_own_share(const struct cupti_result *result)
{
	double window_ns = (double)result->compared_ns + (double)result->measured_ns;

	return window_ns > 0 ? (double)result->own_ns / window_ns : 0;
}

double cupti_result_slowdown(const struct cupti_result *result)
{
	if (!result->compared_ns || !result->measured_ns ||
	    result->compared_launches < LAUNCHES_COMPARED_MIN)
		return 0;
	double before = (double)result->compared_launches / (double)result->compared_ns;
	double during = (double)result->measured_launches / (double)result->measured_ns;
	return during < before ? 1 - during / before : 0;
}
