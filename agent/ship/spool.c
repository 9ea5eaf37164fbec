// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/spool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent/ship/spool_folder.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/time_span.h"

#define NEVER UINT64_MAX

struct spool {
	struct spool_options options;
	char *path;      // of the folder; NULL: none
	bool has_thread; // that of the folder
	pthread_t thread;

	pthread_mutex_t mutex;         // over what follows
	pthread_cond_t added, due;     // for the sender's thread, and the folder's
	struct batch *oldest, *newest; // that wait
	struct batch *sending;         // NULL: none
	struct spool_folder *folder;   // NULL: not open. Set once
	uint32_t memory_count;         // of those that wait, and are in no file
	uint64_t next_number;          // of a file
	struct spool_stats stats;
	uint64_t rest_until_ns; // monotonic: before it the folder is not tried again
	bool is_failing;        // and logged
	bool has_logged_damage;
	bool is_ended;
	bool is_closing;
};

// ---- the queue: with the mutex --------------------------------------------------------------

static void count_in(struct spool *spool, const struct batch *batch)
{
	spool->stats.count++;
	if (batch->file) // the little that it has in memory is bounded by count_max
		return;
	spool->stats.memory_bytes += batch->memory_bytes;
	spool->memory_count++;
}

static void count_out(struct spool *spool, const struct batch *batch)
{
	spool->stats.count--;
	if (batch->file)
		return;
	spool->stats.memory_bytes -= batch->memory_bytes;
	spool->memory_count--;
}

static void append(struct spool *spool, struct batch *batch)
{
	batch->next = NULL;
	if (spool->newest)
		spool->newest->next = batch;
	else
		spool->oldest = batch;
	spool->newest = batch;
	count_in(spool, batch);
}

static void prepend(struct spool *spool, struct batch *batch)
{
	batch->next = spool->oldest;
	spool->oldest = batch;
	if (!spool->newest)
		spool->newest = batch;
	count_in(spool, batch);
}

static struct batch *remove_after(struct spool *spool, struct batch *before)
{
	struct batch **link = before ? &before->next : &spool->oldest;
	struct batch *batch = *link;

	*link = batch->next;
	if (spool->newest == batch)
		spool->newest = before;
	batch->next = NULL;
	count_out(spool, batch);
	return batch;
}

/* The oldest one that is in a file, or is not; removed. NULL: none. */
static struct batch *remove_oldest(struct spool *spool, bool is_in_file)
{
	struct batch *before = NULL;

	for (struct batch *batch = spool->oldest; batch; before = batch, batch = batch->next)
		if ((batch->file != 0) == is_in_file)
			return remove_after(spool, before);
	return NULL;
}

static void count_dropped(struct spool *spool, uint64_t sample_count)
{
	spool->stats.dropped_batches++;
	spool->stats.dropped_samples += sample_count;
}

/* The folder's thread may be about to write it. */
static void free_or_leave(struct batch *batch)
{
	if (batch->is_written)
		batch->is_gone = true;
	else
		batch_free(batch);
}

static void drop_from_memory(struct spool *spool)
{
	const struct spool_options *options = &spool->options;

	while (spool->memory_count && (spool->stats.memory_bytes > options->memory_bytes_max ||
				       spool->memory_count > options->count_max)) {
		struct batch *batch = remove_oldest(spool, false);

		count_dropped(spool, batch->sample_count);
		free_or_leave(batch);
	}
}

static void release_file(struct spool *spool, struct batch *batch)
{
	spool->stats.folder_count--;
	spool->stats.folder_bytes -= batch->file_size;
	batch->file = 0;
}

// ---- the folder -----------------------------------------------------------------------------

/* Said once, until it can be used again. */
static void note_failure(struct spool *spool, const char *what, const struct error *err)
{
	pthread_mutex_lock(&spool->mutex);
	bool is_new = !spool->is_failing;
	spool->is_failing = true;
	spool->stats.failures++;
	spool->stats.uses_folder = false;
	spool->rest_until_ns = clock_monotonic_ns() + spool->options.retry_ms * NS_PER_MS;
	pthread_mutex_unlock(&spool->mutex);
	if (is_new)
		log_warn("spool: %s %s: %s; batches wait in memory (limit %llu MiB) and are lost "
			 "at a restart; retrying every %u s",
			 what, spool->path, err->text,
			 (unsigned long long)(spool->options.memory_bytes_max >> 20),
			 spool->options.retry_ms / 1000);
}

static void note_success(struct spool *spool)
{
	pthread_mutex_lock(&spool->mutex);
	bool is_over = spool->is_failing;
	spool->is_failing = false;
	spool->stats.uses_folder = true;
	pthread_mutex_unlock(&spool->mutex);
	if (is_over)
		log_info("spool: %s can be used again", spool->path);
}

static bool is_full(const struct spool *spool, uint64_t more)
{
	return spool->stats.folder_bytes + more > spool->options.folder_bytes_max ||
	       spool->stats.folder_count >= spool->options.count_max;
}

/* Drops the oldest files until there is room for @size bytes more. Returns whether there is. */
static bool make_room(struct spool *spool, uint64_t size)
{
	pthread_mutex_lock(&spool->mutex);
	while (is_full(spool, size)) {
		struct batch *batch = remove_oldest(spool, true);

		if (!batch)
			break;
		uint64_t file = batch->file;
		pthread_mutex_unlock(&spool->mutex);
		uint64_t sample_count = batch->is_found
						? spool_folder_count_samples(spool->folder, file)
						: batch->sample_count;
		spool_folder_remove(spool->folder, file);
		pthread_mutex_lock(&spool->mutex);
		release_file(spool, batch);
		count_dropped(spool, sample_count);
		batch_free(batch);
	}
	bool has_room = !is_full(spool, size);
	pthread_mutex_unlock(&spool->mutex);
	return has_room;
}

/* Returns the number of batches; what there is no memory for stays in the folder for the next start. */
static uint32_t add_found(struct spool *spool, const struct spool_folder_files *files)
{
	uint32_t count = 0;

	for (uint32_t i = files->count; i-- > 0;) { // each becomes the oldest
		const struct spool_folder_file *file = &files->list[i];
		struct batch *batch = calloc(1, sizeof(*batch));

		if (!batch)
			break;
		*batch = (struct batch){ .file = file->number,
					 .file_size = file->size,
					 .memory_bytes = sizeof(*batch),
					 .is_found = true };
		prepend(spool, batch);
		spool->stats.folder_count++;
		spool->stats.folder_bytes += file->size;
		count++;
	}
	return count;
}

static void log_found(const struct spool *spool, uint32_t count, uint64_t bytes, uint32_t foreign)
{
	if (count)
		log_info("spool: found %u batches (%.1f MiB) of earlier starts in %s: sending them",
			 count, (double)bytes / (1 << 20), spool->path);
	if (foreign)
		log_warn("spool: ignored %u entries in %s: not batches of this user; remove them, "
			 "or chown them to the agent's user",
			 foreign, spool->path);
}

/* Returns whether it is open. */
static bool open_folder(struct spool *spool)
{
	_cleanup_(spool_folder_files_deinit) struct spool_folder_files files = { 0 };
	struct spool_folder *folder = NULL;
	struct error err = { 0 };
	int rc = spool_folder_open(spool->path, &folder, &err);

	if (!rc)
		rc = spool_folder_list(folder, &files, &err);
	if (rc) {
		spool_folder_close(folder);
		note_failure(spool, "cannot use", &err);
		return false;
	}
	pthread_mutex_lock(&spool->mutex);
	spool->folder = folder;
	spool->next_number = files.last + 1;
	uint32_t count = add_found(spool, &files);
	uint64_t bytes = spool->stats.folder_bytes;
	spool->stats.found += count;
	pthread_cond_broadcast(&spool->added);
	pthread_mutex_unlock(&spool->mutex);
	log_found(spool, count, bytes, files.foreign);
	note_success(spool);
	make_room(spool, 0); // the limit may be lower than before
	return true;
}

/* Returns 0; -EFBIG if the batch is larger than the folder may be; or as spool_folder_write(). */
static int write_packed(struct spool *spool, const struct packed *packed, uint64_t sample_count,
			uint64_t *ret_number, struct error *err)
{
	if (!make_room(spool, spool_folder_file_size(packed)))
		return error_set(err, -EFBIG, "a batch is larger than --spool-disk");
	pthread_mutex_lock(&spool->mutex);
	uint64_t number = spool->next_number++;
	pthread_mutex_unlock(&spool->mutex);
	*ret_number = number;
	return spool_folder_write(spool->folder, number, packed, sample_count, err);
}

/* With the mutex: it waits in a file now, or need not wait any more. Returns a file to remove; 0: none. */
static uint64_t note_written(struct spool *spool, struct batch *batch, uint64_t number,
			     uint64_t size)
{
	spool->stats.written++;
	if (batch->is_gone)
		return number;
	bool waits = batch != spool->sending;
	if (waits)
		count_out(spool, batch);
	batch->file = number;
	batch->file_size = size;
	spool->stats.folder_count++;
	spool->stats.folder_bytes += size;
	if (waits) {
		batch_unload(batch);
		count_in(spool, batch);
	}
	return 0;
}

/* @batch has `is_written`, so that nobody frees it. */
static void write_batch(struct spool *spool, struct batch *batch)
{
	_cleanup_free_ uint8_t *own = NULL;
	struct packed packed = batch->packed;
	struct error err = { 0 };
	uint64_t number = 0, unwanted = 0;
	int rc = packed.bytes ? 0 : batch_compress(batch, &packed, &err);

	if (!batch->packed.bytes)
		own = packed.bytes;
	if (!rc)
		rc = write_packed(spool, &packed, batch->sample_count, &number, &err);

	pthread_mutex_lock(&spool->mutex);
	batch->is_written = false;
	batch->is_too_large = rc == -EFBIG;
	bool is_gone = batch->is_gone;
	if (!rc)
		unwanted = note_written(spool, batch, number, spool_folder_file_size(&packed));
	pthread_mutex_unlock(&spool->mutex);

	if (unwanted)
		spool_folder_remove(spool->folder, unwanted);
	if (is_gone)
		batch_free(batch);
	if (rc == 0)
		note_success(spool);
	else if (rc != -EFBIG)
		note_failure(spool, "cannot write to", &err);
}

// ---- the folder's thread: with the mutex ----------------------------------------------------

static bool is_writable(const struct batch *batch)
{
	return batch && !batch->file && !batch->is_too_large;
}

static struct batch *first_in_memory(struct spool *spool)
{
	struct batch *batch = spool->oldest;

	if (is_writable(spool->sending))
		return spool->sending;
	while (batch && !is_writable(batch))
		batch = batch->next;
	return batch;
}

/* When the oldest batch will have waited long enough; NEVER if there is none. */
static uint64_t due_ns(const struct spool *spool)
{
	const struct batch *oldest = spool->sending ? spool->sending : spool->oldest;

	if (!oldest)
		return NEVER;
	return spool->is_closing ? 0 : oldest->added_ns + spool->options.memory_ms * NS_PER_MS;
}

static void wait_until(struct spool *spool, uint64_t until_ns)
{
	const struct timespec until = { .tv_sec = until_ns / NS_PER_SECOND,
					.tv_nsec = until_ns % NS_PER_SECOND };

	if (until_ns == NEVER)
		pthread_cond_wait(&spool->due, &spool->mutex);
	else
		pthread_cond_clockwait(&spool->due, &spool->mutex, CLOCK_MONOTONIC, &until);
}

/* The next batch to write; waits for one. NULL: the spool is closed and there is none, or the folder fails. */
static struct batch *next_to_write(struct spool *spool)
{
	for (;;) {
		struct batch *batch = first_in_memory(spool);
		uint64_t from_ns = batch ? due_ns(spool) : NEVER;
		uint64_t rest_ns =
			spool->is_failing && !spool->is_closing ? spool->rest_until_ns : 0;

		from_ns = from_ns < rest_ns ? rest_ns : from_ns;
		if (batch && from_ns <= clock_monotonic_ns())
			return batch;
		if (spool->is_closing)
			return NULL;
		wait_until(spool, from_ns);
	}
}

static void write_all(struct spool *spool)
{
	struct batch *batch;

	pthread_mutex_lock(&spool->mutex);
	while ((batch = next_to_write(spool))) {
		batch->is_written = true;
		pthread_mutex_unlock(&spool->mutex);
		write_batch(spool, batch);
		pthread_mutex_lock(&spool->mutex);
		if (spool->is_closing && spool->is_failing)
			break;
	}
	pthread_mutex_unlock(&spool->mutex);
}

/* Returns whether the spool is closed. */
static bool rest(struct spool *spool)
{
	pthread_mutex_lock(&spool->mutex);
	while (!spool->is_closing && clock_monotonic_ns() < spool->rest_until_ns)
		wait_until(spool, spool->rest_until_ns);
	bool is_closing = spool->is_closing;
	pthread_mutex_unlock(&spool->mutex);
	return is_closing;
}

static void *keep_folder(void *argument)
{
	struct spool *spool = argument;
	bool is_closed = false;

	pthread_setname_np(pthread_self(), "spool");
	while (!open_folder(spool) && !is_closed)
		is_closed = rest(spool);
	if (spool->folder)
		write_all(spool);
	return NULL;
}

// ---- life -----------------------------------------------------------------------------------

static void spool_free(struct spool *spool)
{
	while (spool->oldest)
		batch_free(remove_after(spool, NULL));
	spool_folder_close(spool->folder);
	pthread_cond_destroy(&spool->added);
	pthread_cond_destroy(&spool->due);
	pthread_mutex_destroy(&spool->mutex);
	free(spool->path);
	free(spool);
}

static int start_thread(struct spool *spool, const char *folder, struct error *err)
{
	spool->path = strdup(folder);
	if (!spool->path)
		return error_set(err, -ENOMEM, "spool: out of memory");
	int rc = -pthread_create(&spool->thread, NULL, keep_folder, spool);
	if (rc)
		return error_errno(err, rc, "spool: cannot start a thread");
	spool->has_thread = true;
	return 0;
}

int spool_open(const struct spool_options *options, struct spool **ret_spool, struct error *err)
{
	struct spool *spool = calloc(1, sizeof(*spool));
	int rc = 0;

	if (!spool)
		return error_set(err, -ENOMEM, "spool: out of memory");
	spool->options = *options;
	spool->options.folder = NULL; // the caller's
	pthread_mutex_init(&spool->mutex, NULL);
	pthread_cond_init(&spool->added, NULL);
	pthread_cond_init(&spool->due, NULL);
	if (options->folder)
		rc = start_thread(spool, options->folder, err);
	if (rc) {
		spool_free(spool);
		return rc;
	}
	*ret_spool = spool;
	return 0;
}

void spool_add(struct spool *spool, struct batch *batch, uint64_t sample_count)
{
	pthread_mutex_lock(&spool->mutex);
	if (!batch)
		count_dropped(spool, sample_count);
	bool waits = spool->oldest || spool->sending;
	pthread_mutex_unlock(&spool->mutex);
	if (!batch)
		return;
	// Without the mutex: no other thread knows this batch yet. One that cannot be packed waits as it is.
	if (waits)
		batch_pack(batch, NULL);
	batch->added_ns = clock_monotonic_ns();

	pthread_mutex_lock(&spool->mutex);
	append(spool, batch);
	drop_from_memory(spool);
	pthread_cond_broadcast(&spool->added);
	pthread_cond_broadcast(&spool->due);
	pthread_mutex_unlock(&spool->mutex);
}

/* @file: its number when it was taken; one that was in memory then may be written meanwhile. */
static int load(struct spool *spool, struct batch *batch, uint64_t file, struct error *err)
{
	int rc = file ? spool_folder_begin_sending(spool->folder, file, err) : 0;

	if (!rc && !batch->profile && !batch->packed.bytes)
		rc = spool_folder_read(spool->folder, file, batch, err);
	return rc ? rc : batch_unpack(batch, err);
}

/* What was written long ago, or by others, is not worth more than a line. */
static void drop_unreadable(struct spool *spool, struct batch *batch, const struct error *err)
{
	pthread_mutex_lock(&spool->mutex);
	bool is_damaged = batch->file != 0 && err->code != -ENOMEM;
	bool is_first = is_damaged && !spool->has_logged_damage;
	spool->has_logged_damage |= is_damaged;
	spool->stats.damaged += is_damaged;
	if (!is_damaged)
		count_dropped(spool, batch->sample_count);
	pthread_mutex_unlock(&spool->mutex);
	if (is_first)
		log_warn("spool: dropped a batch in %s: %s; others are counted only "
			 "(spool_damaged); check its disk",
			 spool->path, err->text);
	spool_finish(spool, batch);
}

/* The oldest, not yet loaded. */
static struct batch *wait_for_oldest(struct spool *spool, uint64_t *ret_file)
{
	pthread_mutex_lock(&spool->mutex);
	while (!spool->oldest && !spool->is_ended)
		pthread_cond_wait(&spool->added, &spool->mutex);
	struct batch *batch = spool->oldest ? remove_after(spool, NULL) : NULL;
	spool->sending = batch;
	*ret_file = batch ? batch->file : 0;
	pthread_mutex_unlock(&spool->mutex);
	return batch;
}

struct batch *spool_next(struct spool *spool)
{
	struct batch *batch;
	uint64_t file;

	while ((batch = wait_for_oldest(spool, &file))) {
		struct error err = { 0 };

		if (load(spool, batch, file, &err) == 0)
			return batch;
		drop_unreadable(spool, batch, &err);
	}
	return NULL;
}

void spool_finish(struct spool *spool, struct batch *batch)
{
	pthread_mutex_lock(&spool->mutex);
	uint64_t file = batch->file;
	spool->sending = NULL;
	if (file)
		release_file(spool, batch);
	free_or_leave(batch);
	pthread_mutex_unlock(&spool->mutex);
	if (!file)
		return;
	spool_folder_remove(spool->folder, file);
	spool_folder_end_sending(spool->folder);
}

void spool_return(struct spool *spool, struct batch *batch)
{
	pthread_mutex_lock(&spool->mutex);
	spool->sending = NULL;
	bool is_in_file = batch->file != 0;
	if (is_in_file)
		batch_unload(batch);
	prepend(spool, batch);
	pthread_mutex_unlock(&spool->mutex);
	if (is_in_file)
		spool_folder_end_sending(spool->folder);
}

void spool_end(struct spool *spool)
{
	pthread_mutex_lock(&spool->mutex);
	spool->is_ended = true;
	pthread_cond_broadcast(&spool->added);
	pthread_mutex_unlock(&spool->mutex);
}

const char *spool_folder_path(const struct spool *spool)
{
	return spool->path;
}

void spool_read_stats(struct spool *spool, struct spool_stats *ret_stats)
{
	pthread_mutex_lock(&spool->mutex);
	*ret_stats = spool->stats;
	pthread_mutex_unlock(&spool->mutex);
}

static uint64_t samples_in_memory(const struct spool *spool)
{
	uint64_t samples = 0;

	for (const struct batch *batch = spool->oldest; batch; batch = batch->next)
		samples += batch->file ? 0 : batch->sample_count;
	return samples;
}

uint64_t spool_close(struct spool *spool, struct spool_rest *ret_rest)
{
	if (!spool)
		return 0;
	pthread_mutex_lock(&spool->mutex);
	spool->is_closing = true;
	pthread_cond_broadcast(&spool->due);
	pthread_mutex_unlock(&spool->mutex);
	if (spool->has_thread)
		pthread_join(spool->thread, NULL);
	uint64_t lost = spool->memory_count;
	if (ret_rest)
		*ret_rest = (struct spool_rest){ .kept = spool->stats.folder_count,
						 .lost_samples = samples_in_memory(spool) };
	spool_free(spool);
	return lost;
}
