// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/series_quota.h"

#include <stdlib.h>

#include "base/clock.h"
#include "tests/test.h"

static const struct process_key a_process = { .pid = 1, .start_ns = 1 };
static const struct process_key another_process = { .pid = 2, .start_ns = 1 };

#define HOUR_NS (3600 * NS_PER_SECOND)

/* Processes up to this pid have ended. */
static uint32_t ended_pid;

static bool is_known(void *context, const struct process_key *process)
{
	(void)context;
	return process->pid > ended_pid;
}

static void expire(struct series_quota *quota, uint64_t now_ns)
{
	series_quota_expire(quota, now_ns, is_known, NULL);
}

TEST(bounds_thread_names_of_a_process)
{
	struct series_quota *quota = series_quota_new();

	for (uint64_t name = 0; name < PROCESS_THREAD_NAMES_MAX; name++)
		assert_true(series_quota_admit_name(quota, &a_process, name));
	assert_false(series_quota_admit_name(quota, &a_process, PROCESS_THREAD_NAMES_MAX));
	assert_true(series_quota_admit_name(quota, &a_process, 3)); // it has it
	assert_true(series_quota_admit_name(quota, &another_process, PROCESS_THREAD_NAMES_MAX));
	series_quota_free(quota);
}

TEST(bounds_series_of_a_process)
{
	struct series_quota *quota = series_quota_new();

	for (uint64_t series = 0; series < PROCESS_SERIES_MAX; series++)
		assert_true(series_quota_admit_series(quota, &a_process, series));
	assert_false(series_quota_admit_series(quota, &a_process, PROCESS_SERIES_MAX));
	assert_true(series_quota_admit_series(quota, &another_process, PROCESS_SERIES_MAX));
	series_quota_free(quota);
}

TEST(idle_names_make_room)
{
	struct series_quota *quota = series_quota_new();
	uint64_t now = 100 * HOUR_NS;

	expire(quota, now);
	for (uint64_t name = 0; name < PROCESS_THREAD_NAMES_MAX; name++)
		series_quota_admit_name(quota, &a_process, name);
	expire(quota, now + HOUR_NS / 2);
	assert_true(series_quota_admit_name(quota, &a_process, 0)); // used again
	assert_false(series_quota_admit_name(quota, &a_process, 99));
	expire(quota, now + HOUR_NS + 1);
	for (uint64_t name = 100; name < 100 + PROCESS_THREAD_NAMES_MAX - 1; name++)
		assert_true(series_quota_admit_name(quota, &a_process, name));
	assert_false(series_quota_admit_name(quota, &a_process, 99));
	series_quota_free(quota);
}

TEST(evicts_idle_processes)
{
	struct series_quota *quota = series_quota_new();
	struct process_key key = a_process;
	uint64_t now = 100 * HOUR_NS;

	expire(quota, now);
	for (key.pid = 1; key.pid <= 1000; key.pid++)
		series_quota_admit_series(quota, &key, key.pid);
	expire(quota, now + HOUR_NS / 2);
	for (key.pid = 1; key.pid <= 1000; key.pid += 3)
		series_quota_admit_series(quota, &key, key.pid);
	expire(quota, now + HOUR_NS + 1);
	assert_int_equal(334, series_quota_process_count(quota));
	for (key.pid = 1; key.pid <= 1000; key.pid += 3) // none was lost: no second one is added
		series_quota_admit_series(quota, &key, key.pid);
	assert_int_equal(334, series_quota_process_count(quota));
	series_quota_free(quota);
}

TEST(frees_exited_processes)
{
	struct series_quota *quota = series_quota_new();
	struct process_key key = a_process;
	uint64_t now = 100 * HOUR_NS;

	expire(quota, now);
	// A node that starts 1,000 processes a minute for a day has memory for those that run.
	for (uint32_t minute = 0; minute < 24 * 60; minute++) {
		for (uint32_t i = 0; i < 1000; i++, key.pid++)
			assert_true(series_quota_admit_series(quota, &key, 1));
		ended_pid = key.pid - 10;
		now += 60 * NS_PER_SECOND;
		expire(quota, now);
		assert_int_equal(9, series_quota_process_count(quota));
	}
	ended_pid = 0;
	series_quota_free(quota);
}

TEST(memory_is_bounded)
{
	struct series_quota *quota = series_quota_new();
	struct process_key key = a_process;
	uint32_t admitted = 0;

	for (key.pid = 1; key.pid <= 1000000; key.pid++)
		admitted += series_quota_admit_series(quota, &key, 1);
	assert_in_range(admitted, 50000, 500000);
	series_quota_free(quota);
}

RUN_TESTS(cmocka_unit_test(bounds_thread_names_of_a_process),
	  cmocka_unit_test(bounds_series_of_a_process), cmocka_unit_test(idle_names_make_room),
	  cmocka_unit_test(evicts_idle_processes), cmocka_unit_test(frees_exited_processes),
	  cmocka_unit_test(memory_is_bounded))
