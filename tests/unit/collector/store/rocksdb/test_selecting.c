// SPDX-License-Identifier: Apache-2.0
// Subject: collector/store/rocksdb/rocksdb_select.c
// What users ask for holds no lock that a batch or a probe needs. PCRE2 is interposed: a match lasts as
// long as the test wants.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <dlfcn.h>
#include <pcre2.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "collector/store/rocksdb/rocksdb.h"
#include "tests/unit/collector/store/store_fixture.h"

enum { STUCK_S = 60 }; // a test that waits this long for a lock has failed

static sem_t begun, may_end;
static atomic_bool is_slow;

/** Interposed: the first match while is_slow lasts until may_end. */
int pcre2_match_8(const pcre2_code_8 *code, PCRE2_SPTR8 subject, PCRE2_SIZE size, PCRE2_SIZE start,
		  uint32_t options, pcre2_match_data_8 *data, pcre2_match_context_8 *context)
{
	typeof(pcre2_match_8) *match = (typeof(match))dlsym(RTLD_NEXT, "pcre2_match_8");

	if (atomic_exchange(&is_slow, false)) {
		sem_post(&begun);
		sem_wait(&may_end);
	}
	return match(code, subject, size, start, options, data, context);
}

static void append(struct store *store, uint64_t sequence, const char *labels)
{
	struct profile *profile = test_profile();
	struct store_append_result result = { 0 };
	struct store_batch_id batch = batch_of(1, sequence);
	struct error err = { 0 };

	add_text(profile, labels, hour_ns(0), "main;f", 1);
	assert_int_equal(0, store_append(store, &batch, profile, &result, &err));
	EXPECT_EQ(0, result.unknown_stack_count, "stacks");
	profile_free(profile);
}

enum asking { SELECT, LABEL_NAMES, LABEL_VALUES };

struct user {
	struct store *store;
	enum asking asking;
	uint32_t found;
};

/** A user's slow query. */
static void *ask(void *context)
{
	struct user *user = context;
	struct selector selector = selector_of("{node=~\"n.*\"}");
	struct time_range range = { hour_ns(0), hour_ns(1) };
	struct name_list list = { 0 };
	struct store_selection *selection;
	struct error err = { 0 };

	if (user->asking == SELECT) {
		assert_int_equal(
			0, store_select(user->store, &selector, NULL, range, &selection, &err));
		user->found = selection->series_count;
		store_selection_free(selection);
	} else {
		assert_int_equal(
			0, user->asking == LABEL_NAMES
				   ? store_label_names(user->store, &selector, range, &list, &err)
				   : store_label_values(user->store, "node", &selector, range,
							&list, &err));
		user->found = list.count;
		name_list_deinit(&list);
	}
	selector_deinit(&selector);
	return NULL;
}

TEST(batches_and_probes_do_not_wait_for_patterns)
{
	static const struct {
		const char *what;
		enum asking asking;
		uint32_t found;
	} cases[] = {
		{ "series", SELECT, 2 },
		{ "label names", LABEL_NAMES, 2 },
		{ "label values", LABEL_VALUES, 2 },
	};
	struct error err = { 0 };

	alarm(STUCK_S);
	for EACH (c, cases) {
		char path[64];
		struct store *store;
		struct store_stats stats;
		pthread_t thread;

		directory_new(path);
		struct store_options options = { .path = path };
		assert_int_equal(0, rocksdb_store_open(&options, &store, &err));
		append(store, 1, "service=a,node=n1");
		append(store, 2, "service=a,node=n2");
		sem_init(&begun, 0, 0);
		sem_init(&may_end, 0, 0);
		is_slow = true;
		struct user user = { store, c->asking, 0 };
		assert_int_equal(0, pthread_create(&thread, NULL, ask, &user));
		sem_wait(&begun);

		// While the user's pattern is at work:
		for (uint64_t sequence = 3; sequence < 100; sequence++) {
			char labels[64];

			sprintf(labels, "service=a,node=n%u", (unsigned int)sequence);
			append(store, sequence, labels);
		}
		store_read_stats(store, &stats);
		EXPECT_EQ(99, stats.batches_appended, c->what);
		EXPECT_EQ(99, stats.series, c->what);
		assert_int_equal(0, store_maintain(store, hour_ns(2), &err));
		struct user other = { store, c->asking, 0 };
		ask(&other);
		EXPECT_EQ(c->asking == LABEL_NAMES ? 2 : 99, other.found, c->what);

		sem_post(&may_end);
		pthread_join(thread, NULL);
		EXPECT_EQ(c->found, user.found, c->what); // as when it began
		store_close(store);
		directory_remove(path);
	}
	alarm(0);
}

RUN_TESTS(cmocka_unit_test(batches_and_probes_do_not_wait_for_patterns))
