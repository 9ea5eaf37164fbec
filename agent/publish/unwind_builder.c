// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/unwind_builder.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/elf/elf.h"
#include "agent/guard/shares.h"
#include "agent/python/python_eval_loop.h"
#include "agent/unwind/unwind_rules.h"
#include "agent/unwind/unwind_splice.h"
#include "agent/unwind/unwind_table_build.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum {
	// Before normal threads if permitted: on a busy node it got 60 ms in 0.8 s, and PyTorch's tables, half a second
	// of work, came ten seconds late.
	BUILDER_NICE = -5,
	BATCH_MAX = 64,  // tables installed by one call
	RULES_SHARE = 4, // the most of all rules that a file may use,
	BYTES_SHARE = 2, // and of the space: libtorch uses a tenth and a third
};

/* A batch waits so long for more tables to share the kernel's 10 ms. */
#define BATCH_NS (20 * NS_PER_MS)

/* Each payer has so much of the thread's time per interval before others come first; what is more it owes. */
#define SHARE_NS         (250 * NS_PER_MS)
#define SHARE_RENEWED_NS (5 * NS_PER_SECOND)

/* To free the rules of an installed table. */
struct installed {
	uint16_t *rules;
	uint32_t rule_count;
	uint64_t bytes;
};

struct unwind_builder {
	const struct unwind_maps *maps;
	uint64_t bytes_all; // initial limit, pages included
	pthread_t thread;
	bool started;
	int done_fd;

	pthread_mutex_t lock; // protects what follows
	pthread_cond_t changed;
	struct unwind_job *waiting;
	struct unwind_job *done;
	struct unwind_builder_stats stats;
	struct shares time;  // CPU time of the thread
	uint64_t renewed_ns; // when payers last gave some back
	uint64_t bytes_max;
	bool stopping;

	// The thread's own:
	struct unwind_rule *shared_rules;
	struct unwind_rules *rules;
	struct unwind_table_cache *cache; // NULL: none
	struct installed installed[UNWIND_TABLES_MAX];
	uint64_t bytes; // of installed tables and of the batch
	struct unwind_job *batch[BATCH_MAX];
	uint32_t numbers[BATCH_MAX];
	int fds[BATCH_MAX]; // of the batch's arrays
	uint32_t batch_count;
	uint64_t batch_began_ns;
	struct unwind_mark marks[UNWIND_MARKS_MAX];
};

// ---- jobs -----------------------------------------------------------------------------------

struct unwind_job *unwind_job_new(enum unwind_job_kind kind, uint32_t number)
{
	struct unwind_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->kind = kind;
	job->number = number;
	job->fd = -1;
	return job;
}

void unwind_job_free(struct unwind_job *job)
{
	if (!job)
		return;
	cleanup_closep(&job->fd);
	free(job);
}

static void free_jobs(struct unwind_job *job)
{
	while (job) {
		struct unwind_job *next = job->next;

		unwind_job_free(job);
		job = next;
	}
}

// How many shares its payer has taken: until the first is used up, the weight alone decides. Needs the lock.
static uint64_t shares_taken(const struct unwind_builder *builder, const struct unwind_job *job)
{
	return shares_of(&builder->time, job->payer) / SHARE_NS;
}

// Removals free space: they come first. One process with many large files, new ones again and again, must not keep the
// thread from all others'. Needs the lock.
static bool is_before(const struct unwind_builder *builder, const struct unwind_job *job,
		      const struct unwind_job *other)
{
	if (job->kind != other->kind)
		return job->kind == UNWIND_JOB_REMOVE;
	uint64_t taken = shares_taken(builder, job), taken_by_other = shares_taken(builder, other);

	return taken != taken_by_other ? taken < taken_by_other : job->weight > other->weight;
}

// Needs the lock.
static void renew_shares(struct unwind_builder *builder)
{
	uint64_t now = clock_monotonic_ns();

	if (now - builder->renewed_ns < SHARE_RENEWED_NS)
		return;
	builder->renewed_ns = now;
	shares_give_back_all(&builder->time, SHARE_NS);
}

// Needs the lock.
static struct unwind_job *take_next(struct unwind_builder *builder)
{
	struct unwind_job **first = &builder->waiting;

	renew_shares(builder);
	for (struct unwind_job **job = first; *job; job = &(*job)->next)
		if (is_before(builder, *job, *first))
			first = job;

	struct unwind_job *taken = *first;
	if (taken)
		*first = taken->next;
	return taken;
}

// All at once: the main loop reads them in one call.
static void return_jobs(struct unwind_builder *builder, struct unwind_job *const *jobs,
			uint32_t count)
{
	uint64_t one = 1;

	pthread_mutex_lock(&builder->lock);
	for (uint32_t i = 0; i < count; i++) {
		jobs[i]->next = builder->done;
		builder->done = jobs[i];
	}
	builder->stats.rules = unwind_rules_count(builder->rules);
	builder->stats.build_ns = clock_thread_cpu_ns();
	pthread_mutex_unlock(&builder->lock);
	// Fails only if the counter is full: the descriptor is readable anyway.
	if (write(builder->done_fd, &one, sizeof(one)) < 0)
		return;
}

// ---- building -------------------------------------------------------------------------------

static void free_tablep(struct unwind_table **table)
{
	unwind_table_free(*table);
}

static int find_cached(struct unwind_builder *builder, const struct unwind_job *job,
		       uint32_t mark_count, struct unwind_table **ret_table)
{
	if (!builder->cache)
		return -ENOENT;
	return unwind_table_cache_find(builder->cache, job->key,
				       unwind_marks_hash(builder->marks, mark_count), ret_table);
}

// Larger tables are refused by check_space() anyway: spare the memory.
static uint32_t rows_max(const struct unwind_builder *builder)
{
	uint64_t words = builder->bytes_all / BYTES_SHARE / sizeof(uint32_t);

	return words < UNWIND_TABLE_ROWS_MAX ? (uint32_t)words : UNWIND_TABLE_ROWS_MAX;
}

// From the cached table of the last job if there is one; it includes @marks_before of the marks.
static int build_table(struct unwind_builder *builder, struct unwind_job *job,
		       const struct elf *elf, uint32_t marks_before, uint32_t mark_count,
		       struct unwind_table **ret_table)
{
	_cleanup_(free_tablep) struct unwind_table *before = NULL;
	int rc = -ERANGE;

	if (job->renews && find_cached(builder, job, marks_before, &before) == 0)
		rc = unwind_table_splice(elf, before, builder->marks + marks_before,
					 mark_count - marks_before, ret_table, &job->error);
	if (rc == -ERANGE)
		rc = unwind_table_build(elf, builder->marks, mark_count, rows_max(builder),
					ret_table, &job->error);
	return rc;
}

// The table of a file that was written meanwhile would be everybody's with its former content.
static int check_version(struct unwind_job *job)
{
	if (file_version_is_of(&job->version, job->fd))
		return 0;
	return error_set(&job->error, -ESTALE, "the file was written");
}

// A failure to cache is ignored: the next agent builds the table again.
static int find_or_build(struct unwind_builder *builder, struct unwind_job *job,
			 const struct elf *elf, uint32_t marks_before, uint32_t mark_count,
			 struct unwind_table **ret_table)
{
	if (find_cached(builder, job, mark_count, ret_table) == 0) {
		job->from_disk = true;
		return 0;
	}
	uint64_t began_ns = clock_thread_cpu_ns();
	int rc = build_table(builder, job, elf, marks_before, mark_count, ret_table);
	uint64_t build_ns = clock_thread_cpu_ns() - began_ns;
	if (!rc)
		rc = check_version(job);
	if (!rc && builder->cache && build_ns >= UNWIND_TABLE_CACHE_BUILD_NS_MIN)
		unwind_table_cache_add(builder->cache, job->key,
				       unwind_marks_hash(builder->marks, mark_count), *ret_table);
	return rc;
}

static void add_analyze_marks(struct unwind_builder *builder, const struct unwind_job *job,
			      const struct elf *elf, uint32_t *ret_before, uint32_t *mark_count)
{
	for (uint32_t i = 0; i < job->analyzed.count && *mark_count < UNWIND_MARKS_MAX; i++) {
		if (i == job->analyzed_before)
			*ret_before = *mark_count;
		const struct unwind_function *function = &job->analyzed.functions[i];

		for (uint32_t j = 0; j < elf->load_count; j++) {
			const Elf64_Phdr *load = &elf->loads[j];
			uint64_t within = function->offset - load->p_offset;

			if (!(load->p_flags & PF_X) || within >= load->p_filesz ||
			    function->size > load->p_filesz - within)
				continue;
			builder->marks[(*mark_count)++] = (struct unwind_mark){
				.start = load->p_vaddr + within,
				.limit = load->p_vaddr + within + function->size,
				.flags = MARK_ANALYZE,
			};
			break;
		}
	}
}

static int expect_functions(struct unwind_builder *builder, struct unwind_job *job,
			    const struct elf *elf)
{
	int rc = analyzed_functions_expect(elf, &job->analyzed);

	if (rc)
		return error_errno(&job->error, rc, "find V8's functions");
	analyzed_functions_load(builder->cache, job->key, &job->analyzed);
	return 0;
}

// A table with all functions known to need analysis is taken only if an earlier agent has built it: most of the file's
// rules are ready sooner without.
static int build_first(struct unwind_builder *builder, struct unwind_job *job,
		       const struct elf *elf, uint32_t mark_count, struct unwind_table **ret_table)
{
	uint32_t marks_before = 0, all_marks = mark_count;
	int rc = expect_functions(builder, job, elf);

	if (rc)
		return rc;
	add_analyze_marks(builder, job, elf, &marks_before, &all_marks);
	if (job->analyzed.count && find_cached(builder, job, all_marks, ret_table) == 0) {
		job->analyzed_before = job->analyzed.count;
		job->from_disk = true;
		return 0;
	}
	return find_or_build(builder, job, elf, 0, mark_count, ret_table);
}

static int build(struct unwind_builder *builder, struct unwind_job *job,
		 struct unwind_table **ret_table)
{
	uint32_t mark_count = 0, marks_before = 0;
	struct stat status;
	struct elf elf;

	if (fstat(job->fd, &status))
		return error_errno(&job->error, -errno, "fstat");
	int rc = elf_read_headers(job->fd, &status, &elf, &job->error);
	if (rc)
		return rc;
	job->extent.segment_count = unwind_segments_of(&elf, job->extent.segments);
	rc = python_eval_loop_marks(&elf, builder->marks, &mark_count);
	if (rc)
		return error_errno(&job->error, rc, "find the Python interpreter loop");
	if (!job->renews)
		return build_first(builder, job, &elf, mark_count, ret_table);
	add_analyze_marks(builder, job, &elf, &marks_before, &mark_count);
	rc = find_or_build(builder, job, &elf, marks_before, mark_count, ret_table);
	if (!rc)
		analyzed_functions_store(builder->cache, job->key, &job->analyzed);
	return rc;
}

// Tables also come from disk: check all that the BPF search relies on.
static bool is_sound(const struct unwind_table *table)
{
	uint32_t before = table->block_count + 1;

	if (before == 0 || table->word_count < before || table->words[0] != before)
		return false;
	for (uint32_t i = 0; i <= table->block_count; i++) {
		if (table->words[i] < before || table->words[i] > table->word_count)
			return false;
		before = table->words[i];
	}
	for (uint32_t i = table->block_count + 1; i < table->word_count; i++)
		if ((table->words[i] & TABLE_RULE_MASK) >= table->rule_count)
			return false;
	return before == table->word_count;
}

static uint32_t page_count_of(const struct unwind_table *table)
{
	return (uint32_t)(((uint64_t)table->word_count + TABLE_PAGE_WORDS - 1) >> TABLE_PAGE_BITS);
}

// Replaces the table's rule numbers by the shared ones.
static void write_words(const struct unwind_table *table, const uint16_t *numbers,
			struct table_page *pages)
{
	uint32_t *words = pages->words, index_count = table->block_count + 1;

	memcpy(words, table->words, (size_t)index_count * sizeof(*words));
	for (uint32_t i = index_count; i < table->word_count; i++)
		words[i] = (table->words[i] & ~TABLE_RULE_MASK) |
			   numbers[table->words[i] & TABLE_RULE_MASK];
}

static int fill_map(const struct unwind_table *table, const uint16_t *numbers)
{
	uint32_t page_count = page_count_of(table);
	struct table_page *pages;
	int fd = unwind_maps_create_table(page_count, &pages);

	if (fd < 0)
		return fd;
	write_words(table, numbers, pages);
	unwind_maps_unmap_table(pages, page_count);
	return fd;
}

// -EFBIG is final, -ENOSPC lasts until something is evicted.
static int check_space(struct unwind_builder *builder, uint64_t bytes, uint64_t given_back)
{
	pthread_mutex_lock(&builder->lock);
	uint64_t bytes_max = builder->bytes_max;
	pthread_mutex_unlock(&builder->lock);

	if (bytes > builder->bytes_all / BYTES_SHARE)
		return -EFBIG;
	return builder->bytes + bytes > bytes_max + given_back ? -ENOSPC : 0;
}

static void count_rows(struct unwind_builder *builder, const struct unwind_table *table)
{
	pthread_mutex_lock(&builder->lock);
	builder->stats.rows += table->row_count;
	pthread_mutex_unlock(&builder->lock);
}

// Adds the table's rules and fills its map; the batch installs it.
static int load(struct unwind_builder *builder, struct unwind_job *job,
		const struct unwind_table *table)
{
	struct installed *installed = &builder->installed[job->number];

	job->bytes = unwind_maps_table_bytes(page_count_of(table));
	int rc = check_space(builder, job->bytes, job->renewed_bytes);
	if (rc)
		return error_set(&job->error, rc,
				 "table dropped: kernel memory for tables full (needs %llu KiB)",
				 (unsigned long long)job->bytes >> 10);

	if (table->rule_count > UNWIND_RULES_MAX / RULES_SHARE)
		return error_set(&job->error, -E2BIG, "too many rules (%u, limit %u)",
				 table->rule_count, UNWIND_RULES_MAX / RULES_SHARE);

	_cleanup_free_ uint16_t *numbers = calloc(table->rule_count + 1, sizeof(*numbers));
	if (!numbers)
		return error_set(&job->error, -ENOMEM, "out of memory");
	rc = unwind_rules_add(builder->rules, table->rules, table->rule_count, numbers);
	if (rc)
		return error_set(&job->error, rc,
				 "table dropped: kernel memory for rules full (needs %u)",
				 table->rule_count);
	int fd = fill_map(table, numbers);
	if (fd < 0) {
		unwind_rules_remove(builder->rules, numbers, table->rule_count);
		return error_errno(&job->error, fd, "table map cannot be created");
	}
	*installed = (struct installed){ take(numbers), table->rule_count, job->bytes };
	builder->bytes += job->bytes;
	if (!builder->batch_count)
		builder->batch_began_ns = clock_monotonic_ns();
	builder->fds[builder->batch_count] = fd;
	builder->numbers[builder->batch_count] = job->number;
	builder->batch[builder->batch_count++] = job;
	return 0;
}

static void drop_installed(struct unwind_builder *builder, uint32_t number)
{
	struct installed *installed = &builder->installed[number];

	unwind_rules_remove(builder->rules, installed->rules, installed->rule_count);
	builder->bytes -= installed->bytes;
	free(installed->rules);
	*installed = (struct installed){ 0 };
}

// Returns false if the job joined the batch.
static bool build_and_load(struct unwind_builder *builder, struct unwind_job *job)
{
	_cleanup_(free_tablep) struct unwind_table *table = NULL;

	job->rc = build(builder, job, &table);
	if (job->rc)
		return true;
	count_rows(builder, table);
	job->extent.first_address = table->first_address;
	job->extent.block_count = table->block_count;
	if (!table->block_count)
		return true;
	if (is_sound(table))
		job->rc = load(builder, job, table);
	else
		job->rc = error_set(&job->error, -EBADMSG, "table is inconsistent");
	return job->rc != 0;
}

static void flush(struct unwind_builder *builder)
{
	int rc = unwind_maps_install_tables(builder->maps, builder->numbers, builder->fds,
					    builder->batch_count);

	for (uint32_t i = 0; i < builder->batch_count; i++) {
		struct unwind_job *job = builder->batch[i];

		close(builder->fds[i]); // the table map holds it now
		if (!rc)
			continue;
		job->rc = error_errno(&job->error, rc, "table cannot be installed");
		unwind_maps_remove_table(builder->maps, job->number);
		drop_installed(builder, job->number);
	}
	if (builder->batch_count)
		return_jobs(builder, builder->batch, builder->batch_count);
	builder->batch_count = 0;
}

// ---- the thread -----------------------------------------------------------------------------

static void charge(struct unwind_builder *builder, uint64_t payer, uint64_t ns)
{
	pthread_mutex_lock(&builder->lock);
	shares_take(&builder->time, payer, ns);
	pthread_mutex_unlock(&builder->lock);
}

static void work(struct unwind_builder *builder, struct unwind_job *job)
{
	uint64_t began_ns = clock_thread_cpu_ns();

	if (job->kind == UNWIND_JOB_REMOVE) {
		job->rc = unwind_maps_remove_table(builder->maps, job->number);
		if (!job->rc)
			drop_installed(builder, job->number);
	}
	bool is_done = job->kind == UNWIND_JOB_REMOVE || build_and_load(builder, job);

	charge(builder, job->payer, clock_thread_cpu_ns() - began_ns);
	if (is_done)
		return_jobs(builder, &job, 1);
}

static bool batch_is_due(const struct unwind_builder *builder)
{
	return builder->batch_count == BATCH_MAX ||
	       (builder->batch_count && clock_monotonic_ns() - builder->batch_began_ns > BATCH_NS);
}

// NULL: no job, or flush the batch, or stop.
static struct unwind_job *next_job(struct unwind_builder *builder, bool *ret_stop)
{
	struct unwind_job *job = NULL;

	pthread_mutex_lock(&builder->lock);
	while (!builder->stopping && !batch_is_due(builder)) {
		job = take_next(builder);
		if (job || builder->batch_count)
			break;
		pthread_cond_wait(&builder->changed, &builder->lock);
	}
	*ret_stop = builder->stopping;
	pthread_mutex_unlock(&builder->lock);
	return job;
}

static void *run(void *context)
{
	struct unwind_builder *builder = context;
	bool stop = false;

	// Linux has a nice value per thread.
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), BUILDER_NICE);
	while (!stop) {
		struct unwind_job *job = next_job(builder, &stop);

		if (job)
			work(builder, job);
		else
			flush(builder);
	}
	return NULL;
}

static int start(struct unwind_builder *builder, struct error *err)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all,
			&before); // inherited: signals are for the main thread
	int rc = -pthread_create(&builder->thread, NULL, run, builder);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	builder->started = !rc;
	if (builder->started)
		pthread_setname_np(builder->thread, "unwind-tables");
	return rc ? error_errno(err, rc, "a thread cannot be started") : 0;
}

// ---- public ---------------------------------------------------------------------------------

int unwind_builder_open(const struct unwind_maps *maps, struct unwind_table_cache *cache,
			uint64_t bytes_max, struct unwind_builder **ret_builder, struct error *err)
{
	struct unwind_builder *builder = calloc(1, sizeof(*builder));
	int rc = 0;

	if (!builder) {
		unwind_table_cache_close(cache);
		return error_set(err, -ENOMEM, "out of memory");
	}
	builder->maps = maps;
	builder->cache = cache;
	builder->bytes_all = builder->bytes_max = bytes_max;
	pthread_mutex_init(&builder->lock, NULL);
	pthread_cond_init(&builder->changed, NULL);
	builder->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (builder->done_fd < 0)
		rc = error_errno(err, -errno, "eventfd");
	if (!rc && !(builder->shared_rules = unwind_maps_map_rules(maps)))
		rc = error_errno(err, -errno, "unwind_rules cannot be mapped");
	if (!rc && !(builder->rules = unwind_rules_new(builder->shared_rules)))
		rc = error_set(err, -ENOMEM, "out of memory");
	if (!rc)
		rc = start(builder, err);
	if (rc) {
		unwind_builder_close(builder);
		return rc;
	}
	*ret_builder = builder;
	return 0;
}

static void stop(struct unwind_builder *builder)
{
	if (!builder->started)
		return;
	pthread_mutex_lock(&builder->lock);
	builder->stopping = true;
	pthread_cond_signal(&builder->changed);
	pthread_mutex_unlock(&builder->lock);
	pthread_join(builder->thread, NULL);
}

void unwind_builder_close(struct unwind_builder *builder)
{
	if (!builder)
		return;
	stop(builder);
	free_jobs(builder->waiting);
	free_jobs(builder->done);
	for (uint32_t i = 0; i < UNWIND_TABLES_MAX; i++)
		free(builder->installed[i].rules);
	unwind_rules_free(builder->rules);
	unwind_table_cache_close(builder->cache);
	unwind_maps_unmap_rules(builder->shared_rules);
	pthread_cond_destroy(&builder->changed);
	pthread_mutex_destroy(&builder->lock);
	cleanup_closep(&builder->done_fd);
	free(builder);
}

void unwind_builder_add(struct unwind_builder *builder, struct unwind_job *job)
{
	pthread_mutex_lock(&builder->lock);
	job->next = builder->waiting;
	builder->waiting = job;
	pthread_cond_signal(&builder->changed);
	pthread_mutex_unlock(&builder->lock);
}

void unwind_builder_weigh(struct unwind_builder *builder, struct unwind_job *job, uint64_t weight)
{
	pthread_mutex_lock(&builder->lock);
	job->weight = weight;
	pthread_mutex_unlock(&builder->lock);
}

void unwind_builder_limit(struct unwind_builder *builder, uint64_t bytes_max)
{
	pthread_mutex_lock(&builder->lock);
	builder->bytes_max = bytes_max;
	pthread_mutex_unlock(&builder->lock);
}

int unwind_builder_fd(const struct unwind_builder *builder)
{
	return builder->done_fd;
}

struct unwind_job *unwind_builder_take(struct unwind_builder *builder)
{
	uint64_t count;

	if (read(builder->done_fd, &count, sizeof(count)) < 0)
		return NULL; // nothing is done
	pthread_mutex_lock(&builder->lock);
	struct unwind_job *done = builder->done;
	builder->done = NULL;
	pthread_mutex_unlock(&builder->lock);
	return done;
}

void unwind_builder_read_stats(struct unwind_builder *builder,
			       struct unwind_builder_stats *ret_stats)
{
	pthread_mutex_lock(&builder->lock);
	*ret_stats = builder->stats;
	pthread_mutex_unlock(&builder->lock);
}
