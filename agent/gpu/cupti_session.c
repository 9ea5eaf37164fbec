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
	MAPS_LINES_MAX = 1 << 17,    // of a process's mappings: twice vm.max_map_count's default
	BASELINE_LAUNCHES_MIN = 100, // fewer are no rate to compare with
};

struct cupti_session {
	struct cupti_shared *shared; // the process can write to it
	uint32_t requested;          // number of our session; 0: none
};

// ---- finding the helper ---------------------------------------------------------------------

// By the mapping's address: a memfd has no path, and the helper has closed its descriptor.
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
	for (uint32_t lines = 0; lines < MAPS_LINES_MAX && getline(&line, &size, maps) > 0;
	     lines++) {
		if (strstr(line, MAPPING_NAME "\n"))
			return open_mapping(pid, line);
	}
	return -ENOENT;
}

// Any process can use that name: map only sealed memory of the right size.
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

int cupti_session_find(pid_t pid, struct cupti_session **ret_session, struct error *err)
{
	_cleanup_free_ struct cupti_session *session = calloc(1, sizeof(*session));
	_cleanup_close_ int fd = find_mapping(pid);

	if (!session)
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
				 "cannot open the helper's memory of process %d: permission "
				 "denied; run as root, or "
				 "with CAP_SYS_PTRACE and CAP_CHECKPOINT_RESTORE",
				 (int)pid);
	if (fd < 0)
		return error_errno(err, fd, "cannot open the helper's memory of process %d",
				   (int)pid);
	int rc = map_shared(fd, &session->shared);
	if (rc)
		return error_set(
			err, rc,
			"cannot use the helper's memory of process %d: not made by this version of "
			"libcairn_cupti.so",
			(int)pid);
	*ret_session = take(session);
	return 0;
}

static void wake(struct cupti_session *session)
{
	syscall(SYS_futex, &session->shared->session_requested, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool is_open(const struct cupti_session *session)
{
	return session->requested && __atomic_load_n(&session->shared->session_done,
						     __ATOMIC_ACQUIRE) != session->requested;
}

void cupti_session_free(struct cupti_session *session)
{
	if (!session)
		return;
	// A new request ends the running session; one of 0 ms begins no other.
	if (is_open(session)) {
		session->shared->session_ms = 0;
		__atomic_store_n(&session->shared->session_requested, session->requested + 1,
				 __ATOMIC_RELEASE);
		wake(session);
	}
	munmap(session->shared, sizeof(*session->shared));
	free(session);
}

void cupti_session_freep(struct cupti_session **session)
{
	cupti_session_free(*session);
}

// ---- the session ----------------------------------------------------------------------------

int cupti_session_begin(struct cupti_session *session, const struct cupti_session_options *options)
{
	struct cupti_shared *shared = session->shared;
	uint32_t last = __atomic_load_n(&shared->session_requested, __ATOMIC_ACQUIRE);

	if (last != __atomic_load_n(&shared->session_done, __ATOMIC_ACQUIRE))
		return -EBUSY;
	shared->session_ms = options->session_ms;
	shared->records_max = options->records_max;
	shared->one_in = options->one_in;
	session->requested = last + 1 ? last + 1 : 1;
	__atomic_store_n(&shared->session_requested, session->requested, __ATOMIC_RELEASE);
	wake(session);
	return 0;
}

static uint32_t at_most(uint32_t value, uint32_t max)
{
	return value < max ? value : max;
}

// Copied before it is checked: the process may change it at any time.
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

int cupti_session_read(struct cupti_session *session, struct cupti_result *ret_result)
{
	const struct cupti_shared *shared = session->shared;
	struct cupti_result result = { 0 };

	if (!session->requested)
		return -ENOENT;
	if (is_open(session))
		return -EAGAIN;
	result.state = (enum cupti_state)at_most(shared->state, CUPTI_STATE_OVER_BUDGET);
	result.code = shared->result;
	result.baseline_ns = shared->baseline_ns;
	result.baseline_launches = shared->baseline_launches;
	result.measured_ns = shared->measured_ns;
	result.measured_launches = shared->measured_launches;
	result.gpu_kernels = shared->gpu_kernels;
	result.gpu_kernel_ns = shared->gpu_kernel_ns;
	result.records_dropped = shared->records_dropped;
	result.overhead_ns = shared->overhead_ns;
	result.enable_ns = shared->enable_ns;
	result.disable_ns = shared->disable_ns;
	int rc = copy_records(shared, &result);
	if (rc) {
		cupti_result_deinit(&result);
		return rc;
	}
	session->requested = 0;
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

double cupti_result_overhead(const struct cupti_result *result)
{
	double session_ns = (double)result->baseline_ns + (double)result->measured_ns;

	return session_ns > 0 ? (double)result->overhead_ns / session_ns : 0;
}

double cupti_result_slowdown(const struct cupti_result *result)
{
	if (!result->baseline_ns || !result->measured_ns ||
	    result->baseline_launches < BASELINE_LAUNCHES_MIN)
		return 0;
	double before = (double)result->baseline_launches / (double)result->baseline_ns;
	double during = (double)result->measured_launches / (double)result->measured_ns;
	return during < before ? 1 - during / before : 0;
}
