/* SPDX-License-Identifier: Apache-2.0 */
// Unwind tables with doubles of the kernel's maps and of the compiler of call frame information: a file holds how large its
// table is to be. Included by one test program each.
#pragma once

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/test.h"

#include "agent/unwind/unwind_table_build.h"
#include "agent/publish/unwind_tables.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "tests/unit/agent/elf/elf_writer.h"
#include "tests/unit/agent/publish/unwind_maps_double.h"

#define MINUTE_NS (60 * NS_PER_SECOND)
#define HOUR_NS   (60 * MINUTE_NS)

/* A file's text: the table to build. */
struct order {
	uint32_t pages; // of words
	uint32_t rules; // of its own
	int32_t rc;     // fail instead
	uint32_t broken;
	uint32_t cpu_ms; // of building it: cached on disk from 1 on
	uint32_t rows;
};

enum { BUILD_WAIT_S = 20 }; // for the builder to ask, at most

static atomic_uint builds;
static atomic_uint rows_max_asked;                           // by the last build
static atomic_uint order_of[64];                             // by pages: when the table was built
static pthread_mutex_t building = PTHREAD_MUTEX_INITIALIZER; // held: builds wait
static sem_t asked;                                          // for each build

static inline void use_cpu(uint32_t ms)
{
	struct timespec now, end;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	end.tv_nsec += (long)ms * 1000000;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - end.tv_sec) * 1000000000L + now.tv_nsec < end.tv_nsec);
}

/* As many rows as are worth a file on disk, in order, as the cache checks. */
static inline void make_rows(struct unwind_table *table, const struct order *order)
{
	uint32_t each = order->rows / 5, index = 5 + 1;

	table->block_count = 5;
	table->word_count = index + 5 * each;
	for (uint32_t block = 0; block <= 5; block++)
		table->words[block] = index + block * each;
	for (uint32_t i = 0; i < 5 * each; i++)
		table->words[index + i] = i % each << TABLE_RULE_BITS;
}

static inline struct unwind_table *table_of(const struct order *order)
{
	struct unwind_table *table = calloc(1, sizeof(*table));

	table->first_address = IMAGE_ADDRESS;
	table->row_count = order->rows;
	table->block_count = order->pages ? 1 : 0;
	table->word_count = order->pages * TABLE_PAGE_WORDS;
	table->words = calloc(table->word_count + 2, sizeof(*table->words));
	table->rule_count = order->rules;
	table->rules = calloc(order->rules + 1, sizeof(*table->rules));
	for (uint32_t i = 0; i < order->rules; i++)
		table->rules[i] = (struct unwind_rule){
			.cfa = CFA_REGISTER,
			.cfa_offset = (int32_t)(order->pages << 16 | (i + 1)),
		};
	table->words[0] = 2;
	table->words[1] = order->broken == 1 ? table->word_count + 1 : table->word_count;
	for (uint32_t i = 2; i < table->word_count && order->rules; i++)
		table->words[i] =
			(i & (TABLE_BLOCK_BYTES - 1)) << TABLE_RULE_BITS | i % order->rules;
	if (order->broken == 2)
		table->words[2] = order->rules;
	if (order->rows)
		make_rows(table, order);
	return table;
}

int unwind_table_build(const struct elf *elf, const struct unwind_mark *marks, uint32_t mark_count,
		       uint32_t rows_max, struct unwind_table **ret_table, struct error *err)
{
	struct order order;

	(void)marks;
	(void)mark_count;
	rows_max_asked = rows_max;
	assert_int_equal(0, elf_read(elf, IMAGE_TEXT, &order, sizeof(order)));
	sem_post(&asked);
	pthread_mutex_lock(&building);
	pthread_mutex_unlock(&building);
	use_cpu(order.cpu_ms);
	builds++;
	if (order.rc)
		return error_set(err, order.rc, "as ordered");
	if (order.pages < 64)
		order_of[order.pages] = builds;
	*ret_table = table_of(&order);
	return 0;
}

/* The builder is asked for a table; without memory for it, never. */
static inline void wait_for_build(void)
{
	const struct timespec until = { .tv_sec = (time_t)(clock_monotonic_ns() / NS_PER_SECOND) +
						  BUILD_WAIT_S };

	assert_int_equal(0, sem_clockwait(&asked, CLOCK_MONOTONIC, &until));
}

/* ---- the world ----------------------------------------------------------------------------- */

static struct unwind_maps maps;
static struct executable_table *executables;
static struct unwind_tables *tables;

/* @folder: of tables on disk; NULL: none. */
static inline void open_world_with(const char *folder, uint64_t bytes_max)
{
	struct unwind_table_cache *cache = NULL;
	struct error err = { 0 };

	maps_double_clear();
	builds = 0;
	executables = executable_table_new();
	if (folder && unwind_table_cache_open(folder, 1 << 20, &cache, &err))
		fail_msg("unwind_table_cache_open: %s", err.text);
	if (unwind_tables_open(&maps, cache, bytes_max, &tables, &err))
		fail_msg("unwind_tables_open: %s", err.text);
}

static inline void open_world(uint64_t bytes_max)
{
	open_world_with(NULL, bytes_max);
}

static inline void close_world(void)
{
	unwind_tables_close(tables);
	executable_table_free(executables);
	maps_double_clear();
}

/* A file of its own identity whose table is as ordered. */
static inline struct executable *make_file(uint16_t id, struct order order)
{
	static struct elf_image image;
	struct executable *executable = NULL;

	image_init(&image);
	memcpy(image.note_id, &id, sizeof(id));
	memcpy(image.text, &order, sizeof(order));
	int fd = image_open_cut(&image, IMAGE_BYTES);
	assert_int_equal(0, executable_table_open(executables, fd, "/lib/a.so", &executable, NULL));
	close(fd);
	return executable_hold(executable);
}

static inline uint32_t want(struct executable *executable)
{
	uint32_t file = unwind_tables_want(tables, executable, 4096);

	assert_true(file != HASH_TABLE_NONE);
	return file;
}

static inline enum unwind_file_state state_of(uint32_t file)
{
	return unwind_tables_file(tables, file)->state;
}

/* Take over what was built until none is pending. Returns the file that wants room. */
static inline uint32_t settle(void)
{
	struct unwind_tables_stats stats;
	uint32_t wanting = HASH_TABLE_NONE, last;

	for (int i = 0; i < 1000; i++) {
		unwind_tables_read_stats(tables, &stats);
		if (!stats.pending)
			return wanting;
		struct pollfd fd = { .fd = unwind_tables_fd(tables), .events = POLLIN };
		poll(&fd, 1, 1000);
		unwind_tables_read(tables, &last);
		if (last != HASH_TABLE_NONE)
			wanting = last;
	}
	fail_msg("%s", "nothing settles");
	return wanting;
}

/* As if a process of @payer had mapped it. */
static inline struct executable *make_file_of(uint64_t payer, uint16_t id, struct order order)
{
	struct executable *executable = make_file(id, order);

	executable->payer = payer;
	return executable;
}

static inline void give_up(uint32_t file)
{
	assert_int_equal(0, unwind_tables_withdraw(tables, file));
	unwind_tables_remove(tables, file);
}

/* A table that a stack was seen to need, unless it is spare. */
static inline uint32_t load(uint8_t id, uint32_t pages, uint32_t rules, bool is_spare)
{
	struct executable *executable =
		make_file(id, (struct order){ .pages = pages, .rules = rules });
	uint32_t file = want(executable);

	if (!is_spare)
		unwind_tables_miss(tables, file, executable);
	settle();
	return file;
}

static inline uint64_t changed_of(uint32_t file)
{
	return unwind_tables_file(tables, file)->changed;
}

/* A stack ended in code that the table knows nothing of. Returns when the renewal is with the builder. */
static inline void begin_renewal(uint32_t file, struct executable *executable, uint64_t offset)
{
	unwind_tables_analyze(tables, file, executable, IMAGE_TEXT + offset, 16);
	usleep(110000); // one looks for them only so often
	unwind_tables_renew(tables);
}

static inline void take_built(void)
{
	struct pollfd fd = { .fd = unwind_tables_fd(tables), .events = POLLIN };
	uint32_t wanting;

	EXPECT_EQ(1, poll(&fd, 1, 5000), "built");
	unwind_tables_read(tables, &wanting);
}
