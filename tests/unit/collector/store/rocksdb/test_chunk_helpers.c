// SPDX-License-Identifier: Apache-2.0
// What helpers decode is what the query's own thread would have, and a query that ends early leaves nothing behind. The program is
// linked with ACCOUNTED (Makefile).
#include "collector/store/rocksdb/chunk_helpers.h"

#include "base/memory_account.h"
#include "collector/store/deadline.h"
#include "collector/store/rocksdb/rocksdb.h"
#include "tests/unit/collector/store/store_model.h"

#define MINUTE (60 * NS_PER_SECOND)

enum {
	HELPERS = 3,
	MINUTES = 10,
	ROWS = 20000,
	SERIES = 50,
	SLOTS = 3000,
	NODES = 900,
	PARTS_MAX = 3,
	BUDGETS = 40
};

// ---- one chunk ------------------------------------------------------------------------------------------

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t below)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)((random_state >> 33) % below);
}

/** A chunk of random rows; with @any_value few of them are in its palette, with @lengths there are intervals. */
static struct buffer random_chunk(bool sums, bool any_value, bool lengths)
{
	struct chunk_encoder *encoder = chunk_encoder_new();
	struct row *rows = calloc(ROWS, sizeof(*rows));
	struct buffer chunk = { 0 };
	uint32_t count;

	if (sums)
		chunk_encoder_write_sums(encoder);
	for (uint32_t i = 0; i < ROWS; i++)
		rows[i] = (struct row){ .series = i * SERIES / ROWS,
					.slot = random_below(SLOTS / 2),
					.node = 1 + random_below(NODES),
					.more_slots = lengths ? random_below(SLOTS / 2) : 0,
					.value = any_value ? random_below(UINT32_MAX) : 10000 };
	assert_int_equal(0, chunk_encode(encoder, rows, ROWS, TEST_SLOT_NS, 1, &chunk, &count));
	free(rows);
	chunk_encoder_freep(&encoder);
	return chunk;
}

/** Order does not matter to it. */
static int add_rows(void *context, const struct store_rows *rows)
{
	uint64_t *sum = context;

	for (uint32_t i = 0; i < rows->count; i++) {
		uint64_t slot = rows->slots ? rows->slots[i] : 0;
		uint64_t node = rows->nodes ? rows->nodes[i] : 0;

		*sum += (uint64_t)rows->values[i] *
			((slot * SERIES + rows->series) * 0x9e3779b97f4a7c15ULL ^
			 (node + 1) * 0xc2b2ae3d27d4eb4fULL);
	}
	return 0;
}

static uint64_t decode_alone(const struct buffer *chunk, struct row_query query)
{
	struct chunk_decoder *decoder = chunk_decoder_new();
	uint64_t sum = 0;

	query.context = &sum;
	assert_int_equal(
		0, chunk_decode(decoder, (struct bytes){ chunk->bytes, chunk->size }, &query));
	chunk_decoder_freep(&decoder);
	return sum;
}

/** In two steps, after the first of which the chunk's bytes go and nothing may be allocated. */
static uint64_t decode_in_steps(const struct buffer *chunk, struct row_query query,
				const char *what)
{
	struct byte_budget budget = { .bytes_max = 64 << 20 };
	struct memory_account account;
	char *copy = malloc(chunk->size);
	uint64_t sum = 0;
	bool is_wanted = false;

	memory_account_begin(&account, &budget);
	struct chunk_decoder *decoder = chunk_decoder_new();
	memcpy(copy, chunk->bytes, chunk->size);
	query.context = &sum;
	assert_int_equal(0, chunk_decode_begin(decoder, (struct bytes){ copy, chunk->size }, &query,
					       &is_wanted));
	memset(copy, 0xee, chunk->size);
	size_t used = account.bytes_used, used_max = account.bytes_used_max;
	if (is_wanted)
		assert_int_equal(0, chunk_decode_end(decoder, &query));
	EXPECT_EQ(used, account.bytes_used, what);
	EXPECT_EQ(used_max, account.bytes_used_max, what);
	chunk_decoder_freep(&decoder);
	memory_account_end(&account);
	free(copy);
	return sum;
}

TEST(second_step_allocates_nothing)
{
	static const struct {
		const char *what;
		bool sums, any_value, lengths;
	} chunks[] = {
		{ "plain", false, false, false },
		{ "sums", true, false, false },
		{ "any value", true, true, false },
		{ "intervals", true, false, true },
		{ "intervals of any value", false, true, true },
	};
	uint32_t wanted[SERIES];

	for (uint32_t i = 0; i < SERIES; i++)
		wanted[i] = i % 3 ? i : SERIES_UNWANTED;
	for EACH (c, chunks) {
		struct buffer chunk = random_chunk(c->sums, c->any_value, c->lengths);

		for (int way = 0; way < 16; way++) {
			const struct slot_range parts[] = { { 10, 20 }, { 300, 1100 } };
			struct row_query query = { .detail = (enum scan_detail)(way % 3),
						   .wanted = way & 4 ? wanted : NULL,
						   .wanted_count = SERIES,
						   .to_slot = UINT64_MAX,
						   .without_nodes = way % 3 == 0 && way & 8,
						   .rows = add_rows };
			if (way & 1) {
				query.parts = parts;
				query.part_count = ARRAY_SIZE(parts);
				query.to_slot = 1100;
			}
			if (decode_alone(&chunk, query) != decode_in_steps(&chunk, query, c->what))
				fail_msg("%s, way %d: sums differ", c->what, way);
		}
		buffer_deinit(&chunk);
	}
}

TEST(passes_on_each_chunk_once)
{
	struct buffer chunk = random_chunk(true, false, false), damaged = { 0 };
	struct chunk_helpers *helpers = chunk_helpers_new(HELPERS);
	struct row_query query = { .detail = SCAN_SUMS, .to_slot = 100, .rows = add_rows };
	uint64_t alone = decode_alone(&chunk, query), sum = 0;
	uint32_t given[2] = { 0 }, taken[2] = { 0 }; // sound ones, damaged ones
	struct chunk_sharing sharing;
	int rc;

	// Its last columns are gone: the head is sound.
	buffer_append(&damaged, chunk.bytes, chunk.size);
	memset(damaged.bytes + damaged.size / 2, 0, damaged.size / 2);
	query.context = &sum;
	chunk_sharing_init(&sharing, helpers, 1);
	sharing.rows = 1;
	for (uint32_t i = 0; i < 2000; i++) {
		bool is_damaged = i % 10 == 0, is_given;
		const struct buffer *from = is_damaged ? &damaged : &chunk;
		struct bytes bytes = { from->bytes, from->size };

		assert_int_equal(0, chunk_sharing_give(&sharing, bytes, ROWS, &query, &is_given));
		given[is_damaged] += is_given;
		while (chunk_sharing_take(&sharing, i % 100 == 99, &rc))
			taken[rc == -EBADMSG]++;
	}
	EXPECT_EQ(given[0], taken[0], "chunks");
	EXPECT_EQ(given[1], taken[1], "damaged ones");
	assert_true(given[0] && given[1]); // each hundred begins with an empty queue
	EXPECT_EQ(alone * given[0], sum, "sums");
	chunk_sharing_deinit(&sharing);
	chunk_helpers_free(helpers);
	buffer_deinit(&chunk);
	buffer_deinit(&damaged);
}

TEST(a_query_that_reads_little_shares_nothing)
{
	struct buffer chunk = random_chunk(false, false, false);
	struct chunk_helpers *helpers = chunk_helpers_new(HELPERS);
	struct row_query query = { .to_slot = 100, .rows = add_rows };
	struct bytes bytes = { chunk.bytes, chunk.size };
	struct chunk_sharing sharing;
	bool is_given;

	chunk_sharing_init(&sharing, helpers, ALONE_ROWS_DEFAULT);
	for (uint32_t rows = 0; rows < ALONE_ROWS_DEFAULT; rows += ROWS) {
		assert_int_equal(0, chunk_sharing_give(&sharing, bytes, ROWS, &query, &is_given));
		assert_false(is_given);
	}
	assert_int_equal(0, chunk_sharing_give(&sharing, bytes, 100, &query, &is_given));
	assert_false(is_given); // a small chunk
	assert_int_equal(0, chunk_sharing_give(&sharing, bytes, ROWS, &query, &is_given));
	assert_true(is_given);
	chunk_sharing_cancel(&sharing);
	chunk_sharing_deinit(&sharing);
	chunk_helpers_free(helpers);
	buffer_deinit(&chunk);
}

// ---- a store --------------------------------------------------------------------------------------------

struct scene {
	char path[64];
	struct store *store;
	uint64_t from_ns;
};

static void open_scene(struct scene *scene, uint32_t alone_rows)
{
	const struct store_options options = {
		.path = scene->path, .helpers = HELPERS, .alone_rows = alone_rows, .upgrade = true
	};
	struct error err = { 0 };

	if (rocksdb_store_open(&options, &scene->store, &err) < 0)
		fail_msg("open: %s", err.text);
}

/** Chunks of many minutes and groups, merged ones and open minutes. */
static void begin(struct scene *scene, struct model *model)
{
	struct error err = { 0 };

	directory_new(scene->path);
	scene->from_ns = hour_ns(0) + 55 * MINUTE; // into the next hour
	open_scene(scene, 1);
	for (uint64_t i = 0; i < 40; i++) {
		uint64_t minute_ns = scene->from_ns + model_random(model, MINUTES) * MINUTE;

		append_profile(scene->store, 1, i + 1, model_batch(model, 600, minute_ns, MINUTE));
		if (i == 15 || i == 30)
			assert_int_equal(0, store_flush(scene->store, &err));
		for (int j = 0; i == 15 && j < 100; j++)
			assert_int_equal(0,
					 store_maintain(scene->store, clock_realtime_ns(), &err));
	}
}

/** No query shares its chunks any more. */
static void reopen_alone(struct scene *scene)
{
	store_close(scene->store);
	open_scene(scene, UINT32_MAX);
}

static void end(struct scene *scene, struct model *model)
{
	store_close(scene->store);
	directory_remove(scene->path);
	model_deinit(model);
}

static const char *const selectors[] = { "{}", "{service=\"s1\"}", "{node=~\"n[13]\"}" };

static struct time_range random_range(struct model *model, const struct scene *scene)
{
	uint64_t slots = MINUTES * MINUTE / TEST_SLOT_NS;
	uint64_t from = model_random(model, (uint32_t)slots);

	return (struct time_range){
		scene->from_ns + from * TEST_SLOT_NS,
		scene->from_ns +
			(from + 1 + model_random(model, (uint32_t)(slots - from))) * TEST_SLOT_NS,
	};
}

TEST(shared_sums_equal_brute_force)
{
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct model model = { .random = seed, .length_max = seed % 2 ? 0 : 200 };
		struct scene scene;

		begin(&scene, &model);
		for (int i = 0; i < 6; i++) {
			struct time_range range = random_range(&model, &scene);
			const char *selector = selectors[i % (int)ARRAY_SIZE(selectors)];

			expect_model(&model, scene.store, selector, all_time, "all");
			expect_model(&model, scene.store, selector, range, "a range");
			expect_activity(&model, scene.store, selector, range, TEST_SLOT_NS,
					(enum activity_rows)(i % 3), "activity");
		}
		end(&scene, &model);
	}
}

/** What one scan answers. */
struct answer {
	uint64_t sum;
	int rc;
	struct error err;
};

/** Up to PARTS_MAX ranges that are read together. */
struct question {
	enum scan_detail detail;
	uint32_t part_count;
	struct time_range parts[PARTS_MAX];
};

/** @deadline and @budget, of the scan alone, may be NULL. */
static struct answer ask(const struct scene *scene, const struct question *question,
			 struct deadline *deadline, struct byte_budget *budget)
{
	struct selector selector = selector_of("{node!=\"n0\"}");
	struct store_selection *selection;
	struct memory_account account;
	struct answer answer = { 0 };
	struct store_scanner scanner = { .context = &answer.sum,
					 .detail = question->detail,
					 .rows = add_rows };

	assert_int_equal(
		0, store_select(scene->store, &selector, NULL, all_time, &selection, &answer.err));
	selection->deadline = deadline;
	memory_account_begin(&account, budget);
	answer.rc = store_scan_ranges(scene->store, selection, question->parts,
				      question->part_count, &scanner, &answer.err);
	memory_account_end(&account);
	if (budget)
		EXPECT_EQ(answer.rc != 0, memory_account_check(&account, NULL) != 0, "refused");
	store_selection_free(selection);
	selector_deinit(&selector);
	return answer;
}

static const struct question all_sums = { SCAN_SUMS, 1, { { 0, UINT64_MAX } } };

/** One range, or three apart. */
static struct question random_question(struct model *model, const struct scene *scene)
{
	struct question question = { .detail = (enum scan_detail)model_random(model, 3),
				     .part_count = model_random(model, 2) ? PARTS_MAX : 1 };
	uint64_t at_ns = scene->from_ns;

	if (question.part_count == 1)
		question.parts[0] = random_range(model, scene);
	for (uint32_t i = 0; question.part_count > 1 && i < PARTS_MAX; i++) {
		struct time_range *part = &question.parts[i];

		part->from_ns = at_ns + (1 + model_random(model, 5000)) * TEST_SLOT_NS;
		at_ns = part->to_ns =
			part->from_ns + (1 + model_random(model, 5000)) * TEST_SLOT_NS;
	}
	return question;
}

/** Tombstones cover some series in some minutes; no maintenance follows. */
static void delete_some(const struct scene *scene)
{
	for (uint64_t i = 0; i < 4; i++) {
		struct time_range range = { scene->from_ns + 2 * i * MINUTE,
					    scene->from_ns + (2 * i + 1) * MINUTE };
		struct selector selector = selector_of(i % 2 ? "{node=\"n1\"}" : "{node=\"n2\"}");
		struct store_deletion deletion;
		struct error err = { 0 };

		if (store_delete(scene->store, &selector, range, &deletion, &err) < 0)
			fail_msg("delete: %s", err.text);
		assert_true(deletion.series > 0);
		selector_deinit(&selector);
	}
}

TEST(shared_scans_equal_lone_ones)
{
	enum { ASKED = 90 };
	struct model model = { .random = 7, .length_max = 100, .uneven = true };
	struct question questions[ASKED];
	struct answer shared[ASKED];
	struct scene scene;

	begin(&scene, &model);
	delete_some(&scene);
	for (int i = 0; i < ASKED; i++) {
		questions[i] = random_question(&model, &scene);
		shared[i] = ask(&scene, &questions[i], NULL, NULL);
	}
	reopen_alone(&scene);
	for (int i = 0; i < ASKED; i++) {
		struct answer lone = ask(&scene, &questions[i], NULL, NULL);

		EXPECT_EQ(0, shared[i].rc, "rc");
		EXPECT_EQ(lone.sum, shared[i].sum, "sum");
	}
	end(&scene, &model);
}

static bool is_gone(void *context)
{
	uint32_t *polls_left = context;

	return (*polls_left)-- == 0;
}

TEST(ends_when_its_client_goes)
{
	struct model model = { .random = 8 };
	struct answer answer = { .rc = -1 };
	struct scene scene;
	uint32_t polls = 0;

	begin(&scene, &model);
	uint64_t sum = ask(&scene, &all_sums, NULL, NULL).sum;
	for (; answer.rc; polls++) {
		uint32_t polls_left = polls;
		struct deadline deadline = { .is_gone = is_gone, .context = &polls_left };

		answer = ask(&scene, &all_sums, &deadline, NULL);
		if (answer.rc)
			EXPECT_EQ(-ECANCELED, answer.rc, answer.err.text);
	}
	assert_true(polls > 20);
	EXPECT_EQ(sum, answer.sum, "the whole answer");
	end(&scene, &model);
}

TEST(ends_at_its_deadline)
{
	const struct question question = { SCAN_SERIES_SUMS, 1, { all_time } };
	struct model model = { .random = 9 };
	struct answer answer = { .rc = -1 };
	struct scene scene;
	uint32_t ended = 0;

	begin(&scene, &model);
	uint64_t sum = ask(&scene, &question, NULL, NULL).sum;
	for (uint64_t us = 1; answer.rc; us += us / 8 + 1) {
		struct deadline deadline = { .at_ns = clock_monotonic_ns() + us * NS_PER_US };

		answer = ask(&scene, &question, &deadline, NULL);
		if (answer.rc)
			EXPECT_EQ(-ETIMEDOUT, answer.rc, answer.err.text);
		ended += answer.rc != 0;
	}
	assert_true(ended > 5);
	EXPECT_EQ(sum, answer.sum, "the whole answer");
	end(&scene, &model);
}

/** The answer with each of some budgets of memory. */
static void ask_with_budgets(const struct scene *scene, uint64_t sum, int rcs[BUDGETS])
{
	for (size_t i = 0; i < BUDGETS; i++) {
		struct byte_budget budget = { .bytes_max = 1024 + i * MEMORY_ACCOUNT_STEP_BYTES };
		struct answer answer = ask(scene, &all_sums, NULL, &budget);

		rcs[i] = answer.rc;
		EXPECT_EQ(0, budget.bytes_taken, "given back");
		if (!answer.rc)
			EXPECT_EQ(sum, answer.sum, "the whole answer");
	}
}

TEST(sharing_refuses_no_query_for_its_memory)
{
	struct model model = { .random = 10 };
	int shared[BUDGETS], lone[BUDGETS];
	struct scene scene;

	begin(&scene, &model);
	uint64_t sum = ask(&scene, &all_sums, NULL, NULL).sum;
	ask_with_budgets(&scene, sum, shared);
	reopen_alone(&scene);
	ask_with_budgets(&scene, sum, lone);
	EXPECT_EQ(-ENOMEM, lone[0], "the smallest");
	EXPECT_EQ(0, lone[BUDGETS - 1], "the largest");
	for (int i = 0; i < BUDGETS; i++)
		EXPECT_EQ(lone[i], shared[i], "rc");
	end(&scene, &model);
}

RUN_TESTS(cmocka_unit_test(second_step_allocates_nothing),
	  cmocka_unit_test(passes_on_each_chunk_once),
	  cmocka_unit_test(a_query_that_reads_little_shares_nothing),
	  cmocka_unit_test(shared_sums_equal_brute_force),
	  cmocka_unit_test(shared_scans_equal_lone_ones),
	  cmocka_unit_test(ends_when_its_client_goes), cmocka_unit_test(ends_at_its_deadline),
	  cmocka_unit_test(sharing_refuses_no_query_for_its_memory))
