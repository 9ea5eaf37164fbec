// SPDX-License-Identifier: Apache-2.0
#include "agent/python/python_runtime.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/guard/work.h"
#include "agent/process/process_memory.h"
#include "agent/python/python_build.h"
#include "agent/python/python_layout.h"
#include "agent/python/python_thread_state.h"
#include "agent/python/runtime_numbers.h"
#include "agent/unwind/unwind_table.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/id128.h"

enum {
	FILES_MAX = 2 * EXECUTABLES_MAX, // known to be interpreters or not; then all are dropped
	FAILURES_MAX = 16, // processes that failed, none having worked, until that is reported
	FILE_OTHER = 0,    // no interpreter
	FILE_REFUSED = PYTHON_RUNTIMES_MAX, // unsupported
	FILE_EVICTED,                       // its build has no number any more: read again
};

struct known_file {
	struct id128 id;
	uint32_t runtime; // number of its build, or FILE_
};

struct runtime {
	struct id128 id; // of its file
	struct python_build build;
	struct python_layout layout;
	struct unwind_segment segments[UNWIND_SEGMENTS_MAX]; // for the load bias in a process
	uint32_t segment_count;
	bool is_proven; // it worked for a process: a failure is that process's
	uint32_t failures;
	pid_t failed_pid; // the last one
};

struct python_runtimes {
	struct hash_table index; // of files, by id
	struct known_file *files;
	uint32_t file_count;
	uint32_t file_capacity;
	struct runtime runtimes[PYTHON_RUNTIMES_MAX]; // number 0 is unused
	struct runtime_numbers numbers;
	python_evicted_fn evicted; // NULL: nobody holds any
	void *context;
	bool reported_full;
};

struct python_runtimes *python_runtimes_new(void)
{
	return calloc(1, sizeof(struct python_runtimes));
}

void python_runtimes_free(struct python_runtimes *runtimes)
{
	if (!runtimes)
		return;
	hash_table_deinit(&runtimes->index);
	free(runtimes->files);
	free(runtimes);
}

/* ---- files -------------------------------------------------------------------------------------- */

static bool file_equals(const void *context, uint32_t item, const void *key)
{
	const struct python_runtimes *runtimes = context;

	return id128_equal(runtimes->files[item].id, *(const struct id128 *)key);
}

static uint32_t find_known(const struct python_runtimes *runtimes, struct id128 id)
{
	return hash_table_find(&runtimes->index, id128_hash(id), file_equals, runtimes, &id);
}

static int add_file(struct python_runtimes *runtimes, struct id128 id, uint32_t runtime)
{
	uint32_t item = find_known(runtimes, id);

	if (item != HASH_TABLE_NONE) { // was evicted
		runtimes->files[item].runtime = runtime;
		return 0;
	}
	if (runtimes->file_count == FILES_MAX) {
		hash_table_clear(&runtimes->index);
		runtimes->file_count = 0;
	}
	if (array_reserve(&runtimes->files, sizeof(*runtimes->files), &runtimes->file_capacity,
			  runtimes->file_count, 1, FILES_MAX))
		return -ENOMEM;
	runtimes->files[runtimes->file_count] = (struct known_file){ .id = id, .runtime = runtime };
	if (hash_table_add(&runtimes->index, id128_hash(id), runtimes->file_count))
		return -ENOMEM;
	runtimes->file_count++;
	return 0;
}

/* A dropped file comes again: its build keeps its number. */
static uint32_t find_same_file(const struct python_runtimes *runtimes, struct id128 id)
{
	for (uint32_t i = 1; i < PYTHON_RUNTIMES_MAX; i++) {
		if (runtimes->numbers.numbers[i].is_taken &&
		    id128_equal(runtimes->runtimes[i].id, id))
			return i;
	}
	return 0;
}

/* Before the number is another build's no process may be unwound by it. */
static void evict(struct python_runtimes *runtimes, uint32_t number)
{
	for (uint32_t i = 0; i < runtimes->file_count; i++)
		if (runtimes->files[i].runtime == number)
			runtimes->files[i].runtime = FILE_EVICTED;
	if (runtimes->evicted)
		runtimes->evicted(runtimes->context, number);
}

static int add_runtime(struct python_runtimes *runtimes, const struct runtime *runtime,
		       uint32_t *ret_number, struct error *notice)
{
	uint32_t number = find_same_file(runtimes, runtime->id);
	bool is_evicted = false;

	if (number) {
		*ret_number = number;
		return 0;
	}
	if (runtime_numbers_take(&runtimes->numbers, work_payer(), &number, &is_evicted)) {
		if (!runtimes->reported_full)
			error_set(
				notice, -ENOSPC,
				"stacks of other CPython builds stay native: table full (limit %d)",
				PYTHON_RUNTIMES_MAX - 1);
		runtimes->reported_full = true;
		return -ENOSPC;
	}
	if (is_evicted)
		evict(runtimes, number);
	runtimes->runtimes[number] = *runtime;
	*ret_number = number;
	return 0;
}

/* A build is judged by its file alone: a process may alter its own copy of these bytes. */
static int read_layout(const struct elf *elf, struct runtime *runtime, struct error *notice)
{
	uint8_t bytes[PYTHON_DEBUG_OFFSETS_BYTES];
	int rc = -ENOENT;

	// Those before 3.13 have none, and may end with the file's data.
	if (runtime->build.runtime &&
	    elf_read_address(elf, runtime->build.runtime, bytes, sizeof(bytes)) == 0)
		rc = python_layout_of_debug_offsets(bytes, sizeof(bytes), &runtime->layout, notice);
	if (rc != -ENOENT)
		return rc;
	runtime->layout.offsets.minor = (uint16_t)runtime->build.minor;
	return python_layout_of_version(runtime->build.minor, &runtime->layout);
}

/* The size of code objects is this version's. It differs in a debug build. */
static int check_layout(const struct elf *elf, const struct runtime *runtime)
{
	const struct python_layout *layout = &runtime->layout;
	uint64_t basicsize;

	if (!runtime->build.code_type)
		return 0;
	int rc = elf_read_address(elf, runtime->build.code_type + layout->type_basicsize,
				  &basicsize, sizeof(basicsize));
	if (rc)
		return rc == -ENOEXEC ? -ENOTSUP : rc;
	return basicsize == layout->code_basicsize ? 0 : -ENOTSUP;
}

static void report(const struct runtime *runtime, struct error *notice, const char *what)
{
	if (!notice->code)
		error_set(notice, -ENOTSUP, "stacks of CPython 3.%u stay native: %s",
			  runtime->layout.offsets.minor, what);
}

static int check_build(const struct elf *elf, struct runtime *runtime, struct error *notice)
{
	int rc = read_layout(elf, runtime, notice);

	if (rc == -ENOTSUP) {
		report(runtime, notice, "unsupported version");
		return rc;
	}
	if (!rc)
		rc = check_layout(elf, runtime);
	if (rc == -ENOTSUP)
		report(runtime, notice, "unsupported layout of code objects");
	return rc;
}

/* The build of @executable's file. Returns -EBADF if it is not open, or was written. */
static int read_file(struct python_runtimes *runtimes, struct executable *executable,
		     struct id128 id, const char *path, uint32_t *ret_number, struct error *notice)
{
	struct file_version version;
	_cleanup_close_ int fd = executable_open_file(executable, &version);
	struct runtime runtime = { .id = id };
	struct error cause = { 0 };
	struct stat status;
	struct elf elf;

	if (fd < 0 || fstat(fd, &status))
		return -EBADF;

	int rc = elf_read_headers(fd, &status, &elf, NULL);

	if (!rc)
		rc = python_build_read(&elf, path, &runtime.build, &cause);
	if (!rc)
		rc = check_build(&elf, &runtime, &cause);
	if (!rc)
		runtime.segment_count = unwind_segments_of(&elf, runtime.segments);
	if (!file_version_is_of(&version, fd))
		return -EBADF;
	if (cause.code)
		*notice = cause;
	if (rc == -ENOTSUP)
		*ret_number = FILE_REFUSED;
	else if (rc == -ENOENT || rc == -ENOEXEC || rc == -E2BIG)
		*ret_number = FILE_OTHER;
	else if (rc)
		return rc;
	return rc ? 0 : add_runtime(runtimes, &runtime, ret_number, notice);
}

/* The number of a mapping's build, FILE_OTHER or FILE_REFUSED. A process may map many altered interpreters. */
static int find_file(struct python_runtimes *runtimes, struct executable *executable,
		     const char *path, uint32_t *ret_number, struct error *notice)
{
	struct id128 id = id128_of(executable->key, strlen(executable->key));
	uint32_t item = find_known(runtimes, id);
	uint32_t number = FILE_OTHER;
	int rc;

	if (item != HASH_TABLE_NONE && runtimes->files[item].runtime != FILE_EVICTED) {
		*ret_number = runtimes->files[item].runtime;
		return 0;
	}
	if (!work_may_read())
		return -EDQUOT;
	rc = read_file(runtimes, executable, id, path, &number, notice);
	if (!rc)
		rc = add_file(runtimes, id, number);
	if (!rc)
		*ret_number = number;
	return rc;
}

/* ---- processes ---------------------------------------------------------------------------------- */

/* The load bias: to be added to a virtual address of the file. */
static bool find_bias(const struct runtime *runtime, const struct mapping *mapping,
		      uint64_t *ret_bias)
{
	for (uint32_t i = 0; i < runtime->segment_count; i++) {
		const struct unwind_segment *segment = &runtime->segments[i];

		// Mappings begin at pages, segments anywhere in them.
		if (mapping->file_offset + (mapping->limit - mapping->start) <= segment->offset ||
		    mapping->file_offset >= segment->offset + segment->size)
			continue;
		*ret_bias = mapping->start -
			    (segment->address + mapping->file_offset - segment->offset);
		return true;
	}
	return false;
}

static uint64_t interpreters_of(const struct runtime *runtime, uint64_t bias)
{
	if (runtime->layout.runtime_interpreters == PYTHON_NO_FIELD)
		return runtime->build.interpreters + bias;
	return runtime->build.runtime + runtime->layout.runtime_interpreters + bias;
}

/* Ways that do not begin at the thread's registers: the holder of the GIL, the list of threads. */
static void add_global_ways(const struct runtime *runtime, uint64_t bias,
			    struct python_process *process)
{
	const struct python_layout *layout = &runtime->layout;

	process->interpreter = interpreters_of(runtime, bias);
	process->ways |= PYTHON_WAY_LIST;
	if (runtime->build.holder)
		process->holder = runtime->build.holder + bias;
	else if (layout->runtime_holder != PYTHON_NO_FIELD)
		process->holder = runtime->build.runtime + layout->runtime_holder + bias;
	if (process->holder)
		process->ways |= PYTHON_WAY_HOLDER;
	// In _PyRuntime the main interpreter follows the list's head.
	if (layout->runtime_interpreters != PYTHON_NO_FIELD)
		process->interpreter += 8;
}

static int find_process(struct python_runtimes *runtimes, uint32_t number, pid_t pid, uint64_t bias,
			struct python_process *ret_process, struct error *notice)
{
	struct runtime *runtime = &runtimes->runtimes[number];
	struct python_process process = { .runtime = number };
	int rc;

	rc = python_thread_state_locate(pid, &runtime->layout, interpreters_of(runtime, bias),
					&process);
	if (rc == -ENOTSUP) {
		// The process may be starting, or altered: that says nothing about others.
		runtime->failures += pid != runtime->failed_pid;
		runtime->failed_pid = pid;
		if (!runtime->is_proven && runtime->failures == FAILURES_MAX) {
			runtime->failures++;
			report(runtime, notice, "thread states were not found");
		}
		return -EAGAIN;
	}
	if (rc)
		return rc;
	runtime->is_proven = true;
	runtime_numbers_use(&runtimes->numbers, number);
	if (runtime->build.code_type)
		process.code_type = runtime->build.code_type + bias;
	add_global_ways(runtime, bias, &process);
	*ret_process = process;
	return 0;
}

/* A file that could not be opened: try again later if it may be an interpreter. */
static int find_unopened(const char *path)
{
	return strstr(path, "python") ? -EAGAIN : -ENOENT;
}

static int find_in_mapping(struct python_runtimes *runtimes, pid_t pid, const char *path,
			   const struct mapping *mapping, struct python_process *ret_process,
			   struct error *notice)
{
	uint32_t number;
	uint64_t bias;
	int rc = find_file(runtimes, mapping->executable, path, &number, notice);

	if (rc)
		return rc == -EBADF ? find_unopened(path) : rc;
	if (number == FILE_REFUSED)
		return -ENOTSUP;
	if (number == FILE_OTHER || !find_bias(&runtimes->runtimes[number], mapping, &bias))
		return -ENOENT;
	return find_process(runtimes, number, pid, bias, ret_process, notice);
}

int python_runtimes_find(struct python_runtimes *runtimes, pid_t pid,
			 const struct mapping_list *mappings, struct python_process *ret_process,
			 struct error *notice)
{
	const struct executable *before = NULL;
	int result = -ENOENT;

	notice->code = 0;
	for (uint32_t i = 0; i < mappings->count; i++) {
		const struct mapping *mapping = &mappings->mappings[i];
		int rc;

		if (!mapping->executable || mapping->executable == before)
			continue;
		before = mapping->executable;
		rc = find_in_mapping(runtimes, pid, mapping_path(mappings, mapping), mapping,
				     ret_process, notice);
		if (!rc || rc == -ENOMEM || rc == -ESRCH || rc == -EDQUOT)
			return rc;
		if (rc != -ENOENT)
			result = rc;
	}
	return result;
}

const struct python_offsets *python_runtimes_offsets(const struct python_runtimes *runtimes,
						     uint32_t runtime)
{
	if (!runtime || runtime >= PYTHON_RUNTIMES_MAX ||
	    !runtimes->numbers.numbers[runtime].is_taken)
		return NULL;
	return &runtimes->runtimes[runtime].layout.offsets;
}

void python_runtimes_on_eviction(struct python_runtimes *runtimes, python_evicted_fn evicted,
				 void *context)
{
	runtimes->evicted = evicted;
	runtimes->context = context;
}

void python_runtimes_hold(struct python_runtimes *runtimes, uint32_t runtime)
{
	runtime_numbers_hold(&runtimes->numbers, runtime);
}

void python_runtimes_release(struct python_runtimes *runtimes, uint32_t runtime)
{
	runtime_numbers_release(&runtimes->numbers, runtime);
}
