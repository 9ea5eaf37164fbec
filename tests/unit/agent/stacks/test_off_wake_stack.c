// SPDX-License-Identifier: Apache-2.0
// A blocked stack and its waker's are joined, and the blocked part is found again.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/stacks/off_wake_stack.h"
#include "agent/sources/wakers.h"
#include "agent/stacks/export_interval.h"
#include "base/clock.h"
#include "tests/unit/agent/process/new_process_table.h"

#define SLOT_NS (20 * NS_PER_MS)

/* Stack traces, by the low words of their hashes. */
enum { BLOCKED_USER = 1, BLOCKED_KERNEL, WAKER_USER, WAKER_KERNEL, JOINED, DEEP, NOWHERE };

struct fixture {
	struct executable_table *executables;
	struct export_interval_sources sources;
	struct wake_record record;
	struct joined_stack joined;
};

static uint32_t locate(struct fixture *fixture, const char *name)
{
	// A wait class comes from names, whatever kind of code they are of.
	return location_table_add_python(fixture->sources.frames.locations, name, "a.py", 1);
}

static void add_stack(struct fixture *fixture, uint64_t low, const char *leaf, const char *root,
		      enum stack_end end)
{
	const struct stack_hash hash = { .low = low };
	uint32_t locations[] = { locate(fixture, leaf), locate(fixture, root) };

	assert_int_equal(0, stack_table_add(fixture->sources.stacks, &hash, locations, 2, end, 1));
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	struct labels no_labels = { 0 };

	fixture->executables = executable_table_new();
	fixture->sources = (struct export_interval_sources){
		.frames.processes = new_process_table(fixture->executables, &no_labels),
		.frames.locations = location_table_new(fixture->executables, NULL),
		.stacks = stack_table_new(),
	};
	add_stack(fixture, BLOCKED_USER, "get", "handle", STACK_END_COMPLETE);
	add_stack(fixture, BLOCKED_KERNEL, "futex_wait", "do_futex", STACK_END_COMPLETE);
	add_stack(fixture, WAKER_USER, "unlock", "rebuild", STACK_END_DEPTH);
	add_stack(fixture, WAKER_KERNEL, "futex_wake", "wake_syscall", STACK_END_COMPLETE);
	fixture->record = (struct wake_record){
		.kind = RECORD_WAKE,
		.waker_kind = WAKER_THREAD,
		.joined.low = JOINED,
		.blocked = { .process.pid = getpid(),
			     .user.low = BLOCKED_USER,
			     .kernel.low = BLOCKED_KERNEL },
		.waker = { .process.pid = getpid(),
			   .user.low = WAKER_USER,
			   .kernel.low = WAKER_KERNEL },
		.waker_name = "a name of 16 byt",
	};
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	stack_table_free(fixture->sources.stacks);
	location_table_free(fixture->sources.frames.locations);
	process_table_free(fixture->sources.frames.processes);
	executable_table_free(fixture->executables);
	free(fixture);
	return 0;
}

static int join(struct fixture *fixture)
{
	return off_wake_stack_join(&fixture->sources.frames, fixture->sources.stacks,
				   &fixture->record, 1, &fixture->joined);
}

static const char *text_of(const struct profile *profile, const struct stack *stack)
{
	static char text[1024];

	text[0] = 0;
	for (uint32_t i = 0; i < stack->location_count; i++) {
		uint32_t at = profile->stack_locations[stack->first_location + i];
		const struct line *line = &profile->lines[profile->locations[at].first_line];

		strcat(strcat(text, i ? " " : ""), profile_string(profile, line->name));
	}
	return text;
}

/* The profile of one count that has the joined stack. */
static struct profile *profile_of_joined(struct fixture *fixture)
{
	const struct count_key key = {
		.process.pid = getpid(),
		.thread_name = "worker",
		.user.low = JOINED,
		.slot = 100,
		.kind = SAMPLE_KIND_OFF_WAKE,
	};
	const struct count count = { .value = 7, .samples = 1 };
	struct export_interval interval;

	assert_int_equal(0, stack_table_add(fixture->sources.stacks, &key.user,
					    fixture->joined.locations, fixture->joined.count,
					    fixture->joined.end, 1));
	assert_int_equal(0, export_interval_init(&interval, &fixture->sources, SLOT_NS, 1));
	assert_int_equal(0, export_interval_add(&interval, &key, &count, 1));
	struct profile *profile = export_interval_finish(&interval, 2);
	export_interval_deinit(&interval);
	return profile;
}

TEST(both_stacks_meet_at_the_waker_frame)
{
	struct fixture *fixture = *state;

	EXPECT_EQ(0, join(fixture), "both are there");
	EXPECT_EQ(STACK_END_COMPLETE, fixture->joined.end, "the blocked thread's root is the root");
	struct profile *profile = profile_of_joined(fixture);
	struct stack blocked = off_wake_stack_blocked_part(profile, &profile->stacks[0]);

	// The leaf first, as in profiles.
	EXPECT_STR("rebuild unlock wake_syscall futex_wake [waker: a name of 16 byt] futex_wait "
		   "do_futex get handle",
		   text_of(profile, &profile->stacks[0]), "joined");
	EXPECT_STR("futex_wait do_futex get handle", text_of(profile, &blocked), "blocked");
	EXPECT_STR(PROFILE_TYPE_OFF_WAKE, profile_string(profile, profile->series[0].type), "type");
	profile_free(profile);
}

TEST(a_stack_without_waker_frame_is_all_blocked)
{
	struct fixture *fixture = *state;

	EXPECT_EQ(0, join(fixture), "both are there");
	struct profile *profile = profile_of_joined(fixture);
	struct stack blocked = off_wake_stack_blocked_part(profile, &profile->stacks[0]);
	struct stack same = off_wake_stack_blocked_part(profile, &blocked);

	EXPECT_EQ(blocked.location_count, same.location_count, "nothing is cut off");
	profile_free(profile);
}

TEST(the_waker_frame_names_the_waker)
{
	static const struct {
		const char *what;
		uint32_t kind;
		const char name[THREAD_NAME_BYTES];
		const char *marker;
	} cases[] = {
		{ "a thread", WAKER_THREAD, "nginx", "[waker: nginx]" },
		{ "an interrupt", WAKER_INTERRUPT, "", "[waker: interrupt]" },
		{ "a kernel thread", WAKER_KERNEL_THREAD, "ksoftirqd/3",
		  "[waker: kernel thread ksoftirqd]" },
		{ "hostile", WAKER_THREAD, "\xff\n\x1b[0m", NULL },
	};
	struct fixture *fixture = *state;

	for EACH (c, cases) {
		fixture->record.waker_kind = c->kind;
		memcpy(fixture->record.waker_name, c->name, THREAD_NAME_BYTES);
		fixture->record.waker.user = (struct stack_hash){ 0 };
		EXPECT_EQ(0, join(fixture), c->what);
		struct profile *profile = profile_of_joined(fixture);
		if (c->marker && !strstr(text_of(profile, &profile->stacks[0]), c->marker))
			fail_msg("%s: %s", c->what, text_of(profile, &profile->stacks[0]));
		EXPECT_EQ(4,
			  off_wake_stack_blocked_part(profile, &profile->stacks[0]).location_count,
			  c->what);
		profile_free(profile);
	}
}

TEST(refuses_a_pair_without_its_stack_traces)
{
	struct fixture *fixture = *state;

	fixture->record.waker.user.low = NOWHERE;
	EXPECT_EQ(-ENOENT, join(fixture), "the waker's");
	fixture->record.waker.user.low = WAKER_USER;
	fixture->record.blocked.kernel.low = NOWHERE;
	EXPECT_EQ(-ENOENT, join(fixture), "the blocked one's");
}

TEST(leaves_out_the_wakers_first_functions)
{
	struct fixture *fixture = *state;
	const struct stack_hash deep = { .low = DEEP };
	uint32_t locations[STACK_DEPTH_MAX];

	for (uint32_t i = 0; i < STACK_DEPTH_MAX; i++)
		locations[i] = locate(fixture, i ? "recurse" : "unlock");
	assert_int_equal(0, stack_table_add(fixture->sources.stacks, &deep, locations,
					    STACK_DEPTH_MAX, STACK_END_DEPTH, 1));
	fixture->record.waker.user = fixture->record.blocked.user = deep;
	EXPECT_EQ(0, join(fixture), "two deep ones");
	EXPECT_EQ(STACK_FRAMES_MAX, fixture->joined.count, "all that a stack may have");
	struct profile *profile = profile_of_joined(fixture);
	struct stack blocked = off_wake_stack_blocked_part(profile, &profile->stacks[0]);
	EXPECT_EQ(STACK_DEPTH_MAX + 2, blocked.location_count, "the blocked part is whole");
	profile_free(profile);
}

TEST(services_are_a_list_of_names)
{
	static const struct {
		const char *services, *service;
		bool listed;
	} cases[] = {
		{ "a", "a", true },    { "a,b", "b", true },
		{ "a,b", "a", true },  { "checkout", "check", false },
		{ "a,b", "c", false }, { "a,b", "a,b", false },
		{ "a", "", false },    { "", "", false },
	};

	for EACH (c, cases)
		EXPECT_EQ(c->listed, wakers_is_listed(c->services, c->service), c->services);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

RUN_TESTS(WITH_FIXTURE(both_stacks_meet_at_the_waker_frame),
	  WITH_FIXTURE(a_stack_without_waker_frame_is_all_blocked),
	  WITH_FIXTURE(the_waker_frame_names_the_waker),
	  WITH_FIXTURE(refuses_a_pair_without_its_stack_traces),
	  WITH_FIXTURE(leaves_out_the_wakers_first_functions),
	  cmocka_unit_test(services_are_a_list_of_names))
