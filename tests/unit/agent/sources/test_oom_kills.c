// SPDX-License-Identifier: Apache-2.0
// Events of processes, as the BPF programs send them; tests/e2e/test_memory.py has a real kill.

#include "tests/test.h"

#include "agent/sources/oom_kills.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "tests/unit/agent/process/process_tables.h"

#define SLOT_NS (20 * NS_PER_MS)

struct fixture {
	struct tables tables;
	struct location_table *locations;
	struct oom_kills *kills;
};

static void begin(struct fixture *fixture)
{
	*fixture = (struct fixture){ .tables = tables_new(NULL) };
	fixture->locations = location_table_new(fixture->tables.executables, NULL);
	fixture->kills = oom_kills_new(fixture->tables.processes);
	assert_non_null(fixture->kills);
}

static void finish(struct fixture *fixture)
{
	oom_kills_free(fixture->kills);
	location_table_free(fixture->locations);
	tables_free(&fixture->tables);
}

/* An exit, as sources_take_process() passes it on. */
static void take_exit(struct fixture *fixture, struct process_key key, bool killed_by_oom,
		      uint64_t realtime_ns)
{
	struct process_record record = { .kind = RECORD_PROCESS,
					 .event = PROCESS_EXIT,
					 .process = key,
					 .killed_by_oom = killed_by_oom,
					 .name = "victim" };

	oom_kills_take(fixture->kills, &record, realtime_ns);
}

static struct profile *drain(struct fixture *fixture, uint64_t from_ns)
{
	struct export_interval_sources sources = {
		.frames = { .processes = fixture->tables.processes,
			    .locations = fixture->locations },
	};
	struct export_interval interval;

	assert_int_equal(0, export_interval_init(&interval, &sources, SLOT_NS, from_ns));
	assert_int_equal(0, oom_kills_add(fixture->kills, &interval));
	struct profile *profile = export_interval_finish(&interval, from_ns + NS_PER_SECOND);
	export_interval_deinit(&interval);
	return profile;
}

TEST(counts_a_kill_in_its_slot_once)
{
	uint64_t now_ns = clock_realtime_ns() / NS_PER_SECOND * NS_PER_SECOND;
	struct fixture fixture;

	begin(&fixture);
	take_exit(&fixture, key_of(getpid(), 0), false, now_ns);
	take_exit(&fixture, key_of(getpid(), 0), true, now_ns + 100 * NS_PER_MS);
	struct profile *profile = drain(&fixture, now_ns);
	EXPECT_EQ(1, profile->sample_count, "samples");
	EXPECT_EQ(1, profile->samples[0].value, "kills");
	EXPECT_EQ((now_ns + 100 * NS_PER_MS) / SLOT_NS, profile->samples[0].slot, "slot");
	assert_string_equal("test_oom_kills",
			    labels_get(&profile->series[0].labels, LABEL_SERVICE));
	profile_free(profile);
	profile = drain(&fixture, now_ns);
	EXPECT_EQ(0, profile->sample_count, "only once");
	profile_free(profile);
	finish(&fixture);
}

TEST(names_a_process_that_is_gone)
{
	struct fixture fixture;

	begin(&fixture);
	take_exit(&fixture, (struct process_key){ .pid = 0x7fffffff, .start_ns = 1 }, true,
		  clock_realtime_ns());
	struct profile *profile = drain(&fixture, clock_realtime_ns());
	EXPECT_EQ(1, profile->sample_count, "samples");
	assert_string_equal("victim", labels_get(&profile->series[0].labels, LABEL_SERVICE));
	profile_free(profile);
	finish(&fixture);
}

TEST(counts_kills_beyond_the_limit_as_dropped)
{
	struct fixture fixture;

	begin(&fixture);
	for (uint32_t i = 0; i < OOM_KILLS_MAX + 3; i++)
		take_exit(&fixture, key_of(getpid(), 0), true, clock_realtime_ns());
	EXPECT_EQ(3, oom_kills_dropped(fixture.kills), "dropped");
	finish(&fixture);
}

RUN_TESTS(cmocka_unit_test(counts_a_kill_in_its_slot_once),
	  cmocka_unit_test(names_a_process_that_is_gone),
	  cmocka_unit_test(counts_kills_beyond_the_limit_as_dropped))
