// SPDX-License-Identifier: Apache-2.0
// Frames of interpreters become locations by function, file and line, callers and leaves alike.
#include <unistd.h>

#include "agent/stacks/frame_resolver.h"
#include "tests/unit/agent/python/python_heap.h"
#include "tests/unit/agent/process/new_process_table.h"

struct fixture {
	struct heap heap;
	struct executable_table *executables;
	struct frame_resolver locator;
	struct process *process;
};

static int find_interpreter(void *context, const struct process_key *process,
			    struct python_interpreter *ret_interpreter)
{
	const struct fixture *fixture = context;

	(void)process;
	*ret_interpreter = (struct python_interpreter){ .offsets = &fixture->heap.offsets,
							.code_type = CODE_TYPE };
	return 0;
}

static void set_up(struct fixture *fixture)
{
	struct process_key key = { .pid = (uint32_t)getpid(), .start_ns = 1 };
	struct labels no_labels = { 0 };

	open_heap(&fixture->heap, 12, false);
	fixture->executables = executable_table_new();
	fixture->locator = (struct frame_resolver){
		.processes = new_process_table(fixture->executables, &no_labels),
		.locations = location_table_new(fixture->executables, NULL),
		.python_codes = python_code_cache_new(find_interpreter, fixture),
	};
	fixture->process = process_table_get(fixture->locator.processes, &key, "test");
	assert_non_null(fixture->process);
}

static void tear_down(struct fixture *fixture)
{
	python_code_cache_free(fixture->locator.python_codes);
	location_table_free(fixture->locator.locations);
	process_table_free(fixture->locator.processes);
	executable_table_free(fixture->executables);
	close_heap(&fixture->heap);
}

/* f at an instruction: the first 8 are on line 11, those behind on none. */
static struct raw_frame frame_at(const struct fixture *fixture, uint32_t index)
{
	return (struct raw_frame){
		.address = address_of(&fixture->heap, CODE_AT),
		.tag = FRAME_TAG_PYTHON,
		.detail = PYTHON_DETAIL(index, checksum_of(10)),
	};
}

static const char *shown(const struct fixture *fixture, uint32_t location)
{
	static char name[256];
	struct profile *profile = profile_new(20000000);
	uint32_t position;

	assert_true(location != HASH_TABLE_NONE);
	location_table_begin_profile(fixture->locator.locations);
	assert_int_equal(
		0, location_table_put(fixture->locator.locations, location, profile, &position));
	EXPECT_EQ(FRAME_KIND_PYTHON, profile->locations[position].kind, "kind");
	location_display_name(profile, &profile->locations[position], 0, name, sizeof(name));
	profile_free(profile);
	return name;
}

TEST(python_leaf_and_caller_share_a_line_location)
{
	struct fixture fixture;
	struct raw_frame first, last, behind;
	enum stack_end end = STACK_END_COMPLETE;
	uint32_t caller = 0;

	set_up(&fixture);
	first = frame_at(&fixture, 0);
	last = frame_at(&fixture, 7);
	behind = frame_at(&fixture, 8);
	uint32_t leaf = frame_resolve_leaf(&fixture.locator, fixture.process, &first);

	EXPECT_STR("f (f.py:11)", shown(&fixture, leaf), "leaf");
	EXPECT_EQ(false, location_table_is_unread_python(fixture.locator.locations, leaf), "read");
	EXPECT_EQ(leaf, frame_resolve_leaf(&fixture.locator, fixture.process, &last),
		  "another instruction of the line");
	EXPECT_EQ(0, frame_resolve_caller(&fixture.locator, fixture.process, &last, &caller, &end),
		  "caller");
	EXPECT_EQ(leaf, caller, "the same place");
	EXPECT_EQ(STACK_END_COMPLETE, end, "the stack goes on");
	EXPECT_STR("f (f.py)",
		   shown(&fixture, frame_resolve_leaf(&fixture.locator, fixture.process, &behind)),
		   "no line");
	tear_down(&fixture);
}

TEST(a_prefetched_python_leaf_outlives_its_process)
{
	struct fixture fixture;
	struct raw_frame leaf, other;

	set_up(&fixture);
	leaf = frame_at(&fixture, 0);
	other = frame_at(&fixture, 0);
	other.address += 16;
	frame_resolver_prefetch_leaf(&fixture.locator, fixture.process, &leaf);
	memset(fixture.heap.bytes, 0, fixture.heap.size);
	EXPECT_STR("f (f.py:11)",
		   shown(&fixture, frame_resolve_leaf(&fixture.locator, fixture.process, &leaf)),
		   "prepared");
	EXPECT_STR("<unknown> (python)",
		   shown(&fixture, frame_resolve_leaf(&fixture.locator, fixture.process, &other)),
		   "not prepared");
	tear_down(&fixture);
}

TEST(keeps_unreadable_python_frames)
{
	struct fixture fixture;
	enum stack_end end = STACK_END_COMPLETE;
	uint32_t location = 0;

	set_up(&fixture);
	struct raw_frame frame = { .address = 0x10, .tag = FRAME_TAG_PYTHON };

	EXPECT_EQ(0,
		  frame_resolve_caller(&fixture.locator, fixture.process, &frame, &location, &end),
		  "there");
	EXPECT_STR("<unknown> (python)", shown(&fixture, location), "unnamed");
	EXPECT_EQ(true, location_table_is_unread_python(fixture.locator.locations, location),
		  "to be read again");
	struct frame_resolver without = fixture.locator;

	without.python_codes = NULL;
	frame = frame_at(&fixture, 0);
	EXPECT_EQ(location, frame_resolve_leaf(&without, fixture.process, &frame),
		  "nobody to name it");
	tear_down(&fixture);
}

RUN_TESTS(cmocka_unit_test(python_leaf_and_caller_share_a_line_location),
	  cmocka_unit_test(a_prefetched_python_leaf_outlives_its_process),
	  cmocka_unit_test(keeps_unreadable_python_frames))
