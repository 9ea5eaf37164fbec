// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/source_line_reader.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/symbols/source_line_cache.h"
#include "base/profile/profile.h"
#include "base/string_table.h"
#include "agent/symbols/executable_symbols.h"
#include "agent/symbols/source_line_worker.h"

/* A slow file is read rarely: requests are apart by this many times their cost. */
enum { REST_FACTOR = 20 };

/* The requests in one file, then their answers. */
struct job {
	struct job *next;
	char *key; // the executable's
	struct line_files files;
	uint32_t count;
	uint64_t offsets[LINE_WORKER_OFFSETS_MAX];
	uint64_t starts[LINE_WORKER_OFFSETS_MAX];
	uint32_t first[LINE_WORKER_OFFSETS_MAX]; // of an offset's lines
	uint8_t counts[LINE_WORKER_OFFSETS_MAX]; // 0: no lines
	struct line *lines;                      // with strings of `strings`
	uint32_t line_count, line_capacity;
	struct string_table strings;
	uint64_t cost_ns;
};

/* A file that is not read for a while. */
struct resting {
	struct id128 id;
	uint64_t until_ns;
};

struct source_line_reader {
	struct executable_table *executables;
	struct confined_launcher *launcher;
	struct event_log *events;
	// the caller's thread only
	struct source_line_cache cache;
	struct job *gathering; // requested since the last poll
	uint32_t job_count;    // gathering, waiting and being read
	struct resting resting[LINE_JOBS_MAX];
	uint32_t resting_at; // the one to replace next
	// both threads, under the lock
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct job *waiting, *done;
	bool busy, stopping;
	bool refused; // and reported; its own thread only
	atomic_uint_fast64_t failures;
	pthread_t thread;
};

/* ---- jobs ---------------------------------------------------------------------------------- */

static void free_job(struct job *job)
{
	if (!job)
		return;
	line_files_close(&job->files);
	string_table_deinit(&job->strings);
	free(job->lines);
	free(job->key);
	free(job);
}

static void free_jobs(struct job *job)
{
	while (job) {
		struct job *next = job->next;

		free_job(job);
		job = next;
	}
}

static int add_job_line(struct job *job, const struct source_line *source)
{
	if (array_reserve(&job->lines, sizeof(*job->lines), &job->line_capacity, job->line_count, 1,
			  UINT32_MAX))
		return -ENOMEM;
	struct line *line = &job->lines[job->line_count];
	line->number = source->number;
	int rc = string_table_add(&job->strings, source->name, strlen(source->name), &line->name);
	if (!rc)
		rc = string_table_add(&job->strings, source->file, strlen(source->file),
				      &line->file);
	job->line_count += rc == 0;
	return rc;
}

static void add_answer(void *context, uint32_t index, const struct source_lines *lines)
{
	struct job *job = context;
	uint32_t first = job->line_count;

	for (uint32_t i = 0; i < lines->count; i++)
		if (add_job_line(job, &lines->lines[i]))
			return;
	job->starts[index] = lines->start_offset;
	job->first[index] = first;
	job->counts[index] = (uint8_t)lines->count;
}

static int compare_offsets(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return (*a > *b) - (*a < *b);
}

/* One file is nobody's business; that no file can be read is the operator's. */
static void report(struct source_line_reader *reader, const struct job *job, int rc,
		   const char *cause)
{
	atomic_fetch_add(&reader->failures, 1);
	log_debug("source lines: %s: %s; frames show functions only", job->key, cause);
	if (rc == -ENOTCONN || rc == -EPERM)
		event_warn_once(reader->events, &reader->refused, "source lines",
				"not read: %s; frames show functions only until a restart", cause);
}

static void serve(struct source_line_reader *reader, struct job *job)
{
	struct error err = { 0 };
	uint64_t begin_ns = clock_monotonic_ns();

	qsort(job->offsets, job->count, sizeof(job->offsets[0]), compare_offsets);
	const struct line_request request = {
		.fd = job->files.fd,
		.debug_fd = job->files.debug_fd,
		.alt_fd = job->files.alt_fd,
		.offsets = job->offsets,
		.count = job->count,
	};
	int rc = source_line_worker_run(reader->launcher, &request, add_answer, job, &err);
	if (rc)
		report(reader, job, rc, err.text);
	job->cost_ns = clock_monotonic_ns() - begin_ns;
	line_files_close(&job->files);
}

static void *run(void *context)
{
	struct source_line_reader *reader = context;

	pthread_mutex_lock(&reader->lock);
	while (!reader->stopping) {
		struct job *job = reader->waiting;

		if (!job) {
			pthread_cond_wait(&reader->changed, &reader->lock);
			continue;
		}
		reader->waiting = job->next;
		reader->busy = true;
		pthread_mutex_unlock(&reader->lock);
		serve(reader, job);
		pthread_mutex_lock(&reader->lock);
		reader->busy = false;
		job->next = reader->done;
		reader->done = job;
		pthread_cond_broadcast(&reader->changed);
	}
	pthread_mutex_unlock(&reader->lock);
	return NULL;
}

/* ---- life ---------------------------------------------------------------------------------- */

struct source_line_reader *source_line_reader_new(struct executable_table *executables,
						  struct confined_launcher *launcher,
						  struct event_log *events)
{
	struct source_line_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->executables = executables;
	reader->launcher = launcher;
	reader->events = events;
	pthread_mutex_init(&reader->lock, NULL);
	pthread_cond_init(&reader->changed, NULL);
	if (pthread_create(&reader->thread, NULL, run, reader)) {
		free(reader);
		return NULL;
	}
	return reader;
}

void source_line_reader_free(struct source_line_reader *reader)
{
	if (!reader)
		return;
	pthread_mutex_lock(&reader->lock);
	reader->stopping = true;
	pthread_cond_broadcast(&reader->changed);
	pthread_mutex_unlock(&reader->lock);
	pthread_join(reader->thread, NULL); // at most LINE_WORKER_SECONDS
	free_jobs(reader->gathering);
	free_jobs(reader->waiting);
	free_jobs(reader->done);
	source_line_cache_deinit(&reader->cache);
	free(reader);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void cache_answer(struct source_line_reader *reader, const struct job *job, uint32_t index)
{
	struct id128 id = location_id_of_offset(FRAME_KIND_NATIVE, job->key, job->offsets[index]);
	struct source_lines lines = { .start_offset = job->starts[index],
				      .count = job->counts[index] };

	for (uint32_t i = 0; i < lines.count; i++) {
		const struct line *line = &job->lines[job->first[index] + i];

		lines.lines[i] = (struct source_line){
			.name = string_table_get(&job->strings, line->name),
			.file = string_table_get(&job->strings, line->file),
			.number = line->number,
		};
	}
	source_line_cache_answer(&reader->cache, id, lines.count ? &lines : NULL);
}

static void let_rest(struct source_line_reader *reader, const struct job *job)
{
	struct resting *resting = &reader->resting[reader->resting_at++ % LINE_JOBS_MAX];

	resting->id = id128_of(job->key, strlen(job->key));
	resting->until_ns = clock_monotonic_ns() + REST_FACTOR * job->cost_ns;
}

static bool is_resting(const struct source_line_reader *reader, const char *key)
{
	struct id128 hash = id128_of(key, strlen(key));
	uint64_t now_ns = clock_monotonic_ns();

	for (uint32_t i = 0; i < LINE_JOBS_MAX; i++)
		if (reader->resting[i].until_ns > now_ns &&
		    id128_equal(reader->resting[i].id, hash))
			return true;
	return false;
}

/* ---- requests ------------------------------------------------------------------------------ */

static bool is_small_enough(int fd)
{
	struct stat status;

	return fstat(fd, &status) == 0 && status.st_size <= LINE_FILE_BYTES_MAX;
}

static int begin_job(struct source_line_reader *reader, struct executable *executable,
		     struct job **ret_job)
{
	struct job *job = NULL;
	struct line_files files;

	if (reader->job_count == LINE_JOBS_MAX)
		return -EAGAIN;
	int rc = executable_open_lines(reader->executables, executable, &files);
	if (rc)
		return rc == -ENODATA ? -ENOENT : -EAGAIN;
	if (is_small_enough(files.debug_fd >= 0 ? files.debug_fd : files.fd))
		job = calloc(1, sizeof(*job));
	if (job)
		job->key = strdup(executable->key);
	if (!job || !job->key || string_table_init(&job->strings)) {
		line_files_close(&files);
		free(job ? job->key : NULL);
		free(job);
		return -EAGAIN;
	}
	job->files = files;
	job->next = reader->gathering;
	reader->gathering = job;
	reader->job_count++;
	*ret_job = job;
	return 0;
}

/* Returns 0; -EAGAIN: not now; -ENOENT: there are no lines. */
static int find_job(struct source_line_reader *reader, struct executable *executable,
		    struct job **ret_job)
{
	for (struct job *job = reader->gathering; job; job = job->next) {
		if (strcmp(job->key, executable->key) == 0) {
			*ret_job = job;
			return 0;
		}
	}
	return is_resting(reader, executable->key) ? -EAGAIN
						   : begin_job(reader, executable, ret_job);
}

static int request(struct source_line_reader *reader, struct executable *executable,
		   uint64_t offset, struct id128 id)
{
	struct job *job;
	int rc = find_job(reader, executable, &job);

	if (rc || job->count == LINE_WORKER_OFFSETS_MAX)
		return rc ? rc : -EAGAIN;
	if (source_line_cache_ask(&reader->cache, id, executable->symbols_version) == 0)
		job->offsets[job->count++] = offset;
	return -EAGAIN;
}

int source_line_reader_find(struct source_line_reader *reader, struct executable *executable,
			    uint64_t offset, struct source_lines *ret_lines)
{
	struct id128 id = location_id_of_offset(FRAME_KIND_NATIVE, executable->key, offset);
	const struct cached_lines *cached = source_line_cache_find(&reader->cache, id);

	if (cached && cached->asked)
		return -EAGAIN;
	// A debug file that came since may have lines.
	if (!cached || (!cached->count && cached->version != executable->symbols_version))
		return request(reader, executable, offset, id);
	if (!cached->count)
		return -ENOENT;
	source_line_cache_read(&reader->cache, cached, ret_lines);
	return 0;
}

/* ---- polling ------------------------------------------------------------------------------- */

static void hand_over(struct source_line_reader *reader)
{
	struct job *last = reader->gathering;

	if (!last)
		return;
	while (last->next)
		last = last->next;
	pthread_mutex_lock(&reader->lock);
	last->next = reader->waiting;
	reader->waiting = reader->gathering;
	pthread_cond_broadcast(&reader->changed);
	pthread_mutex_unlock(&reader->lock);
	reader->gathering = NULL;
}

/* @rest: let slow files rest. Who waits for answers wants the next ones soon, too. */
static void cache_answers(struct source_line_reader *reader, bool rest)
{
	pthread_mutex_lock(&reader->lock);
	struct job *job = take(reader->done);
	pthread_mutex_unlock(&reader->lock);
	while (job) {
		struct job *next = job->next;

		for (uint32_t i = 0; i < job->count; i++)
			cache_answer(reader, job, i);
		if (rest)
			let_rest(reader, job);
		free_job(job);
		reader->job_count--;
		job = next;
	}
}

void source_line_reader_poll(struct source_line_reader *reader)
{
	cache_answers(reader, true);
	hand_over(reader);
}

bool source_line_reader_wait(struct source_line_reader *reader, uint32_t wait_ms)
{
	uint64_t until_ns = clock_monotonic_ns() + wait_ms * NS_PER_MS;
	const struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_SECOND),
					.tv_nsec = (long)(until_ns % NS_PER_SECOND) };
	int rc = 0;

	hand_over(reader);
	pthread_mutex_lock(&reader->lock);
	while ((reader->waiting || reader->busy) && !rc)
		rc = pthread_cond_clockwait(&reader->changed, &reader->lock, CLOCK_MONOTONIC,
					    &until);
	bool idle = !reader->waiting && !reader->busy;
	pthread_mutex_unlock(&reader->lock);
	cache_answers(reader, false);
	return idle;
}

uint64_t source_line_reader_failures(const struct source_line_reader *reader)
{
	return atomic_load(&reader->failures);
}

uint64_t source_line_reader_bytes(const struct source_line_reader *reader)
{
	return source_line_cache_bytes(&reader->cache);
}
