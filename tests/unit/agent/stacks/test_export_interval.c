// SPDX-License-Identifier: Apache-2.0
// Counts of this very process, as the BPF programs make them, become samples with named stacks.
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/stacks/export_interval.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "tests/unit/agent/process/new_process_table.h"

__attribute__((noinline)) static int a_leaf(int argument)
{
	__asm__ volatile("" : "+r"(argument));
	return argument + 1;
}

__attribute__((noinline)) static int a_caller(int argument)
{
	__asm__ volatile("" : "+r"(argument));
	return argument + 2;
}

static const char kernel_symbols[] = "ffffffff81000000 T _text\n"
				     "ffffffff81001000 T do_syscall\n"
				     "ffffffff81002000 T vfs_read\n"
				     "ffffffff81003000 T pipe_read\n";

#define SLOT_NS     (20 * NS_PER_MS)
#define KERNEL_LEAF 0xffffffff81002040ULL
#define PIPE_READ   0xffffffff81003040ULL

/* All that an interval reads. */
struct fixture {
	struct executable_table *executables;
	struct kallsyms *kallsyms;
	struct export_interval_sources sources;
	struct export_interval interval;
	struct count_key key; // of this process; no stacks yet
};

static uint64_t own_start_ns(void)
{
	FILE *stat = fopen("/proc/self/stat", "re");
	unsigned long long ticks = 0;
	char line[1024];

	assert_non_null(stat);
	assert_non_null(fgets(line, sizeof(line), stat));
	fclose(stat);
	// Field 22; 19 fields after the name's closing bracket and the state.
	assert_int_equal(1,
			 sscanf(strrchr(line, ')'),
				") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
				"%*s %*s %*s %llu",
				&ticks));
	return ticks * (NS_PER_SECOND / 100);
}

static struct kallsyms *open_kallsyms(void)
{
	char path[] = "/tmp/cairn-kallsyms-XXXXXX";
	int fd = mkstemp(path);
	struct kallsyms *kallsyms = NULL;
	struct error err;

	assert_true(fd >= 0);
	assert_int_equal(sizeof(kernel_symbols) - 1,
			 write(fd, kernel_symbols, sizeof(kernel_symbols) - 1));
	close(fd);
	assert_int_equal(0, kallsyms_open(path, &kallsyms, &err));
	unlink(path);
	return kallsyms;
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	struct labels no_labels = { 0 };

	fixture->executables = executable_table_new();
	fixture->kallsyms = open_kallsyms();
	fixture->sources = (struct export_interval_sources){
		.frames.processes = new_process_table(fixture->executables, &no_labels),
		.frames.locations = location_table_new(fixture->executables, fixture->kallsyms),
		.stacks = stack_table_new(),
	};
	assert_int_equal(0,
			 export_interval_init(&fixture->interval, &fixture->sources, SLOT_NS, 1));
	fixture->key = (struct count_key){
		.process = { .pid = getpid(), .start_ns = own_start_ns() },
		.thread_name = "worker",
		.slot = 100,
		.kind = SAMPLE_KIND_ON_CPU,
	};
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	export_interval_deinit(&fixture->interval);
	stack_table_free(fixture->sources.stacks);
	location_table_free(fixture->sources.frames.locations);
	process_table_free(fixture->sources.frames.processes);
	executable_table_free(fixture->executables);
	kallsyms_close(fixture->kallsyms);
	free(fixture);
	return 0;
}

static void add(struct fixture *fixture, const struct count_key *key, uint64_t value)
{
	struct count count = { .value = value, .samples = 1 };

	assert_int_equal(0, export_interval_add(&fixture->interval, key, &count, 1));
}

/* A user stack: a_leaf called by a_caller. */
static void set_user_stack(struct fixture *fixture, struct count_key *key)
{
	struct process *process =
		process_table_get(fixture->sources.frames.processes, &key->process, "test");
	struct code_address code;

	assert_int_equal(0, process_find_code(fixture->sources.frames.processes, process,
					      (uint64_t)a_caller + 1, &code));
	uint32_t caller = location_table_add_call(fixture->sources.frames.locations,
						  code.executable, code.offset);

	key->user = (struct stack_hash){ 1, 1 };
	key->user_leaf =
		(struct raw_frame){ .address = (uint64_t)a_leaf + 1, .tag = FRAME_TAG_NATIVE };
	assert_int_equal(0, stack_table_add(fixture->sources.stacks, &key->user, &caller, 1,
					    STACK_END_NO_FRAME_POINTER, 1));
}

/* A kernel stack: vfs_read called by do_syscall. */
static void set_kernel_stack(struct fixture *fixture, struct count_key *key)
{
	uint32_t caller = location_table_add_kernel(fixture->sources.frames.locations,
						    0xffffffff81001010ULL, false);

	key->kernel = (struct stack_hash){ 2, 2 };
	key->kernel_leaf = KERNEL_LEAF;
	assert_int_equal(0, stack_table_add(fixture->sources.stacks, &key->kernel, &caller, 1,
					    STACK_END_COMPLETE, 1));
}

/* "leaf caller caller ...", as shown. */
static const char *stack_text(const struct profile *profile, uint32_t number)
{
	static char text[1024];
	const struct stack *stack = &profile->stacks[number];

	text[0] = 0;
	for (uint32_t i = 0; i < stack->location_count; i++) {
		uint32_t at = profile->stack_locations[stack->first_location + i];
		char name[128];

		location_display_name(profile, &profile->locations[at], 0, name, sizeof(name));
		strcat(strcat(text, i ? " " : ""), name);
	}
	return text;
}

TEST(kernel_frames_lie_on_top_of_user_frames)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	set_user_stack(fixture, &key);
	set_kernel_stack(fixture, &key);
	add(fixture, &key, 10000);

	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_EQ(1, profile->sample_count, "one sample");
	EXPECT_STR("vfs_read_[k] do_syscall_[k] a_leaf a_caller",
		   stack_text(profile, profile->samples[0].stack), "order");
	EXPECT_EQ(STACK_END_NO_FRAME_POINTER, profile->stacks[0].end, "why the user part ended");
	EXPECT_EQ(100, profile->samples[0].slot, "slot");
	EXPECT_EQ(10000, profile->samples[0].value, "value");
	profile_free(profile);
}

TEST(pcs_of_one_function_become_one_stack)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	set_user_stack(fixture, &key);
	add(fixture, &key, 10000);
	key.user_leaf.address++;
	add(fixture, &key, 11000);

	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_EQ(1, profile->stack_count, "stacks");
	EXPECT_EQ(1, profile->sample_count, "equal samples are joined");
	EXPECT_EQ(21000, profile->samples[0].value, "the sum");
	profile_free(profile);
}

TEST(a_lost_stack_trace_leaves_its_leaf)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	set_user_stack(fixture, &key);
	key.user = (struct stack_hash){ 77, 77 };
	add(fixture, &key, 10000);
	EXPECT_EQ(1, fixture->interval.stacks_lost, "counted");

	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_STR("a_leaf", stack_text(profile, 0), "leaf only");
	EXPECT_EQ(STACK_END_LOST, profile->stacks[0].end, "said");
	profile_free(profile);
}

TEST(a_lost_kernel_part_ends_a_whole_root)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	key.kernel = (struct stack_hash){ 78, 78 };
	key.kernel_leaf = KERNEL_LEAF;
	add(fixture, &key, 10000);

	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_STR("vfs_read_[k]", stack_text(profile, 0), "leaf only");
	EXPECT_EQ(STACK_END_LOST, profile->stacks[0].end, "said");
	profile_free(profile);
}

TEST(series_differ_by_process_and_thread_name)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	set_user_stack(fixture, &key);
	add(fixture, &key, 1000);
	key.slot++;
	add(fixture, &key, 1000);
	memcpy(key.thread_name, "other\xff\n", 8);
	add(fixture, &key, 1000);

	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_EQ(2, profile->series_count, "two names");
	EXPECT_EQ(3, profile->sample_count, "three samples");
	EXPECT_STR("worker", labels_get(&profile->series[0].labels, LABEL_THREAD), "first");
	EXPECT_STR("other??", labels_get(&profile->series[1].labels, LABEL_THREAD), "made UTF-8");
	EXPECT_STR("test_export_int", labels_get(&profile->series[0].labels, LABEL_PROCESS),
		   "process");
	profile_free(profile);
}

/* The sum of all samples, and of those of the thread @name. */
static int64_t sum_of_thread(const struct profile *profile, const char *name, int64_t *ret_all)
{
	int64_t sum = 0;

	*ret_all = 0;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct series *series = &profile->series[profile->samples[i].series];

		*ret_all += profile->samples[i].value;
		if (strcmp(labels_get(&series->labels, LABEL_THREAD), name) == 0)
			sum += profile->samples[i].value;
	}
	return sum;
}

static void set_thread(struct count_key *key, const char *format, int number)
{
	memset(key->thread_name, 0, sizeof(key->thread_name));
	snprintf(key->thread_name, sizeof(key->thread_name), format, number);
}

TEST(numbered_threads_are_one_series)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;
	int64_t all;

	fixture->interval.sources.quota = series_quota_new();
	fixture->interval.sources.folds_thread_names = true;
	set_user_stack(fixture, &key);
	for (int i = 0; i < 100; i++) {
		set_thread(&key, "worker-%d", i);
		add(fixture, &key, 1000);
	}
	series_quota_free(fixture->interval.sources.quota);

	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_EQ(1, profile->series_count, "series");
	EXPECT_EQ(100000, sum_of_thread(profile, "worker-N", &all), "the sum");
	profile_free(profile);
}

TEST(too_many_thread_names_become_other)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;
	struct series_quota *quota = series_quota_new();
	int64_t all;

	fixture->interval.sources.quota = quota;
	set_user_stack(fixture, &key);
	for (int i = 0; i < 100; i++) {
		set_thread(&key, "w%dw", i);
		add(fixture, &key, 1000);
	}
	EXPECT_EQ(100 - PROCESS_THREAD_NAMES_MAX, fixture->interval.threads_other, "counted");

	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_EQ(PROCESS_THREAD_NAMES_MAX + 1, profile->series_count, "series");
	EXPECT_EQ(1000 * (100 - PROCESS_THREAD_NAMES_MAX), sum_of_thread(profile, "other", &all),
		  "the rest");
	EXPECT_EQ(100000, all, "nothing is lost");
	profile_free(profile);

	// The next interval has the same names, not others.
	export_interval_deinit(&fixture->interval);
	fixture->sources.quota = quota;
	assert_int_equal(0,
			 export_interval_init(&fixture->interval, &fixture->sources, SLOT_NS, 1));
	set_thread(&key, "w%dw", 99);
	add(fixture, &key, 1000);
	profile = export_interval_finish(&fixture->interval, 2);
	EXPECT_EQ(1000, sum_of_thread(profile, "other", &all), "still the rest");
	profile_free(profile);
	series_quota_free(quota);
}

TEST(too_many_series_become_other)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;
	int64_t all;

	fixture->interval.sources.quota = series_quota_new();
	fixture->interval.sources.folds_thread_names = true;
	key.kind = SAMPLE_KIND_GPU_LAUNCH;
	set_user_stack(fixture, &key);
	for (int i = 0; i < 30 * 40; i++) { // by thread and size of the grid
		set_thread(&key, "w%dw", i % 30);
		key.kernel_leaf = 1 + (uint64_t)i / 30;
		add(fixture, &key, 1000);
	}
	if (!fixture->interval.series_other)
		fail_msg("nothing was counted");
	series_quota_free(fixture->interval.sources.quota);

	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	if (profile->series_count > PROCESS_SERIES_MAX + 8)
		fail_msg("%u series", profile->series_count);
	EXPECT_EQ(true, sum_of_thread(profile, "other", &all) > 0, "the rest");
	EXPECT_EQ(30 * 40 * 1000, all, "nothing is lost");
	profile_free(profile);
}

TEST(jit_code_without_a_name_is_anonymous)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	set_user_stack(fixture, &key);
	key.user_leaf.address = 0x123456;
	add(fixture, &key, 1000);

	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_STR("[anon]+0x123000 a_caller", stack_text(profile, 0), "by page");
	profile_free(profile);
}

TEST(an_exited_process_has_one_location)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	set_user_stack(fixture, &key);
	key.process = (struct process_key){ .pid = 0x3fffff, .start_ns = 1 };
	add(fixture, &key, 1000);
	key.user_leaf.address += 0x10000;
	add(fixture, &key, 1000);

	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_STR("[exited] a_caller", stack_text(profile, 0), "any address");
	EXPECT_EQ(1, profile->stack_count, "all addresses");
	profile_free(profile);
}

/* The values of the samples of @type, in order; their sum is returned. */
static int64_t sum_of(const struct profile *profile, const char *type, const char *label,
		      const char *value)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct series *series = &profile->series[profile->samples[i].series];
		const char *has = label ? labels_get(&series->labels, label) : NULL;

		if (!strcmp(type, profile_string(profile, series->type)) &&
		    (!label || (has && !strcmp(has, value))))
			sum += profile->samples[i].value;
	}
	return sum;
}

TEST(each_kind_has_its_profile_type)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	set_user_stack(fixture, &key);
	set_kernel_stack(fixture, &key);
	for (uint32_t kind = SAMPLE_KIND_ON_CPU; kind <= SAMPLE_KIND_PAGE_FAULT; kind++) {
		key.kind = kind;
		add(fixture, &key, 100 + kind);
	}
	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_EQ(7, profile->series_count, "series");
	EXPECT_EQ(101, sum_of(profile, PROFILE_TYPE_CPU, NULL, NULL), "cpu");
	EXPECT_EQ(106, sum_of(profile, PROFILE_TYPE_OFF_CPU, "wait", "other"), "as blocked");
	EXPECT_EQ(105, sum_of(profile, PROFILE_TYPE_SCHED_DELAY, NULL, NULL), "as run queue");
	EXPECT_EQ(104, sum_of(profile, PROFILE_TYPE_WALL, "state", "running"), "running");
	EXPECT_EQ(105, sum_of(profile, PROFILE_TYPE_WALL, "state", "run_queue"), "run queue");
	EXPECT_EQ(106, sum_of(profile, PROFILE_TYPE_WALL, "state", "blocked"), "blocked");
	EXPECT_EQ(107, sum_of(profile, PROFILE_TYPE_PAGE_FAULT, NULL, NULL), "page faults");
	EXPECT_EQ(0, sum_of(profile, PROFILE_TYPE_CPU, "wait", "other"), "only waits have a class");
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];
		const char *type = profile_string(profile, profile->series[sample->series].type);

		EXPECT_EQ(strcmp(type, PROFILE_TYPE_WALL) ? 4 : 0,
			  profile->stacks[sample->stack].location_count, type);
	}
	profile_free(profile);
}

TEST(refuses_unknown_kinds)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;
	struct count count = { .value = 1, .samples = 1 };

	key.kind = SAMPLE_KIND_LIMIT;
	EXPECT_EQ(-EINVAL, export_interval_add(&fixture->interval, &key, &count, 1), "beyond");
	key.kind = 0;
	EXPECT_EQ(-EINVAL, export_interval_add(&fixture->interval, &key, &count, 1), "none");
}

TEST(blocked_time_has_its_wait_class)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	key.kind = SAMPLE_KIND_OFF_CPU;
	set_user_stack(fixture, &key);
	add(fixture, &key, 1);
	key.kernel = (struct stack_hash){ 3, 3 };
	key.kernel_leaf = PIPE_READ;
	assert_int_equal(0, stack_table_add(fixture->sources.stacks, &key.kernel, NULL, 0,
					    STACK_END_COMPLETE, 1));
	add(fixture, &key, 10);
	key.slot++;
	add(fixture, &key, 10);
	key.kind = SAMPLE_KIND_BLOCKED;
	add(fixture, &key, 21);
	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_EQ(3, profile->series_count, "classes, and the total");
	EXPECT_EQ(20, sum_of(profile, PROFILE_TYPE_OFF_CPU, "wait", "pipe"), "pipe");
	EXPECT_EQ(1, sum_of(profile, PROFILE_TYPE_OFF_CPU, "wait", "other"), "other");
	profile_free(profile);
}

TEST(sampled_stacks_add_up_to_the_total)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	set_kernel_stack(fixture, &key);
	key.kind = SAMPLE_KIND_OFF_CPU;
	add(fixture, &key, 100);
	key.kind = SAMPLE_KIND_OFF_CPU_SAMPLED;
	for (int i = 0; i < 3; i++, key.slot++)
		add(fixture, &key, 640);
	key.kind = SAMPLE_KIND_BLOCKED;
	add(fixture, &key, 1100);
	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_EQ(1100, sum_of(profile, PROFILE_TYPE_OFF_CPU, NULL, NULL), "exact");
	EXPECT_EQ(2, profile->series_count, "one of blocked stacks");
	EXPECT_EQ(0, sum_of(profile, PROFILE_TYPE_SCHED_DELAY, NULL, NULL), "nothing else");
	profile_free(profile);
}

TEST(sampled_interval_is_one_thread)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	set_kernel_stack(fixture, &key);
	key.kind = SAMPLE_KIND_BLOCKED;
	key.more_slots = 99;
	add(fixture, &key, 90 * SLOT_NS);
	key.kind = SAMPLE_KIND_OFF_CPU_SAMPLED;
	key.more_slots = 0;
	add(fixture, &key, 10 * SLOT_NS); // no room before it
	key.slot += 49;
	add(fixture, &key, 30 * SLOT_NS);
	key.slot += 50;
	add(fixture, &key, 50 * SLOT_NS);
	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];
		int64_t of_one = (int64_t)((sample->more_slots + 1) * SLOT_NS);

		EXPECT_EQ(1, sample->value <= of_one, "one at most");
		EXPECT_EQ(1, sample->slot >= fixture->key.slot, "within what is accounted for");
		EXPECT_EQ(1, sample->slot + sample->more_slots < fixture->key.slot + 100,
			  "within it, at its end");
	}
	EXPECT_EQ(90 * SLOT_NS, sum_of(profile, PROFILE_TYPE_OFF_CPU, NULL, NULL), "exact");
	profile_free(profile);
}

TEST(counts_sampled_intervals_without_room)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	// Longer than the export interval's slots, as of a thread that was first seen asleep.
	set_kernel_stack(fixture, &key);
	key.kind = SAMPLE_KIND_BLOCKED;
	key.more_slots = 9999;
	add(fixture, &key, 9000 * SLOT_NS);
	key.kind = SAMPLE_KIND_OFF_CPU_SAMPLED;
	key.more_slots = 0;
	add(fixture, &key, 9000 * SLOT_NS);
	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_EQ(1, fixture->interval.unspread, "counted");
	EXPECT_EQ(9000 * SLOT_NS, sum_of(profile, PROFILE_TYPE_OFF_CPU, NULL, NULL), "exact");
	profile_free(profile);
}

TEST(a_sampled_wait_has_room_beside_exact_ones)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;
	int64_t by_slot[100] = { 0 };

	// A thread that sleeps for most of each slot, and of whose other waits one in eight was captured.
	set_kernel_stack(fixture, &key);
	key.kind = SAMPLE_KIND_BLOCKED;
	key.more_slots = 99;
	add(fixture, &key, 100 * SLOT_NS);
	key.kind = SAMPLE_KIND_OFF_CPU;
	add(fixture, &key, 84 * SLOT_NS);
	key.kind = SAMPLE_KIND_OFF_CPU_SAMPLED;
	key.more_slots = 0;
	for (int i = 0; i < 2; i++) {
		key.slot = fixture->key.slot + 60;
		add(fixture, &key, 8 * SLOT_NS);
	}
	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];
		const char *type = profile_string(profile, profile->series[sample->series].type);

		for (uint32_t k = 0; k <= sample->more_slots && !strcmp(type, PROFILE_TYPE_OFF_CPU);
		     k++)
			by_slot[sample->slot - fixture->key.slot + k] +=
				sample->value / (sample->more_slots + 1);
	}
	for (uint32_t i = 0; i < 100; i++)
		if (by_slot[i] > (int64_t)(SLOT_NS + SLOT_NS / 50))
			fail_msg("slot %u has %.2f threads", i, (double)by_slot[i] / SLOT_NS);
	EXPECT_EQ(100 * SLOT_NS, sum_of(profile, PROFILE_TYPE_OFF_CPU, NULL, NULL), "exact");
	profile_free(profile);
}

/* The end of the first stack of @type. */
static enum stack_end end_of(const struct profile *profile, const char *type)
{
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];

		if (!strcmp(type, profile_string(profile, profile->series[sample->series].type)))
			return profile->stacks[sample->stack].end;
	}
	return STACK_END_COUNT;
}

TEST(names_time_without_a_stack)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	key.kind = SAMPLE_KIND_BLOCKED;
	key.more_slots = 9;
	add(fixture, &key, 1000);
	key.kind = SAMPLE_KIND_RUN_QUEUE; // the BPF programs know of no stack
	add(fixture, &key, 50);
	key.kind = SAMPLE_KIND_SCHED_DELAY;
	add(fixture, &key, 50);
	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_EQ(1000, sum_of(profile, PROFILE_TYPE_OFF_CPU, "wait", "other"), "blocked");
	EXPECT_EQ(50, sum_of(profile, PROFILE_TYPE_SCHED_DELAY, NULL, NULL), "run queue");
	EXPECT_EQ(STACK_END_NOT_SAMPLED, end_of(profile, PROFILE_TYPE_OFF_CPU), "blocked");
	EXPECT_EQ(STACK_END_NOT_SAMPLED, end_of(profile, PROFILE_TYPE_SCHED_DELAY), "run queue");
	profile_free(profile);
}

TEST(kernel_threads_have_no_stacks)
{
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	key.kind = SAMPLE_KIND_BLOCKED;
	key.kernel_leaf = TOTALS_WITHOUT_STACKS;
	add(fixture, &key, 1000);
	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_EQ(1000, sum_of(profile, PROFILE_TYPE_WALL, "state", "blocked"), "total");
	EXPECT_EQ(1, profile->series_count, "only that");
	profile_free(profile);
}

TEST(wakers_do_not_change_the_wait_class)
{
	struct location_table *locations;
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;

	locations = fixture->sources.frames.locations;
	const uint32_t joined[] = {
		location_table_add_kernel(locations, KERNEL_LEAF, false), // the waker's
		location_table_add_marker(locations, "[waker: writer]"),
		location_table_add_kernel(locations, PIPE_READ, true),
	};

	key.kind = SAMPLE_KIND_OFF_WAKE;
	key.user = (struct stack_hash){ 4, 4 };
	assert_int_equal(0, stack_table_add(fixture->sources.stacks, &key.user, joined, 3,
					    STACK_END_COMPLETE, 1));
	add(fixture, &key, 30);
	struct profile *profile = export_interval_finish(&fixture->interval, 2);

	EXPECT_EQ(30, sum_of(profile, PROFILE_TYPE_OFF_WAKE, "wait", "pipe"), "pipe");
	profile_free(profile);
}

#define MINUTE_SLOTS (60 * NS_PER_SECOND / SLOT_NS)

static const struct {
	const char *what;
	uint64_t slot;
	uint32_t more_slots;
	uint64_t value;
	uint32_t pieces;
	int64_t first, last; // values of these pieces
} intervals[] = {
	{ "one slot", 100, 0, 7, 1, 7, 7 },
	{ "up to the minute's end", MINUTE_SLOTS - 5, 4, 1000, 1, 1000, 1000 },
	{ "one slot into the next", MINUTE_SLOTS - 5, 5, 1000, 2, 834, 166 },
	{ "from a minute's begin", MINUTE_SLOTS, 99, 1000, 1, 1000, 1000 },
	{ "over three minutes", MINUTE_SLOTS - 1, MINUTE_SLOTS + 1, 1000, 3, 1, 0 },
	{ "less than it has slots", MINUTE_SLOTS - 10, 19, 1, 2, 1, 0 },
	{ "a large value", MINUTE_SLOTS - 10, 19, INT64_MAX, 2, INT64_MAX / 2 + 1, INT64_MAX / 2 },
};

TEST(splits_at_minutes_and_keeps_the_sum)
{
	for EACH (row, intervals) {
		struct fixture *fixture;

		set_up((void **)&fixture);
		struct count_key key = fixture->key;
		key.kind = SAMPLE_KIND_OFF_WAKE;
		key.slot = row->slot;
		key.more_slots = row->more_slots;
		add(fixture, &key, row->value);
		struct profile *profile = export_interval_finish(&fixture->interval, 2);
		uint64_t next = row->slot;

		EXPECT_EQ(row->pieces, profile->sample_count, row->what);
		for (uint32_t i = 0; i < profile->sample_count; i++) {
			const struct sample *sample = &profile->samples[i];

			EXPECT_EQ(next, sample->slot, row->what);
			next = sample->slot + sample->more_slots + 1;
			EXPECT_EQ(sample->slot / MINUTE_SLOTS, (next - 1) / MINUTE_SLOTS,
				  row->what);
		}
		EXPECT_EQ(row->slot + row->more_slots + 1, next, row->what);
		EXPECT_EQ(row->value, sum_of(profile, PROFILE_TYPE_OFF_WAKE, NULL, NULL),
			  row->what);
		EXPECT_EQ(row->first, profile->samples[0].value, row->what);
		EXPECT_EQ(row->last, profile->samples[row->pieces - 1].value, row->what);
		profile_free(profile);
		tear_down((void **)&fixture);
	}
}

TEST(a_profile_begins_with_its_first_wait)
{
	const uint64_t hour_ns = 3600 * NS_PER_SECOND, from_ns = 100 * hour_ns;
	struct fixture *fixture = *state;
	struct count_key key = fixture->key;
	struct profile *profile;

	export_interval_deinit(&fixture->interval);
	export_interval_init(&fixture->interval, &fixture->sources, SLOT_NS, from_ns + 1);
	key.kind = SAMPLE_KIND_OFF_WAKE;
	key.slot = from_ns / SLOT_NS;
	add(fixture, &key, 1);
	profile = export_interval_finish(&fixture->interval, from_ns + NS_PER_SECOND);
	EXPECT_EQ(from_ns + 1, profile->from_ns, "the slot that it begins in is its own");
	profile_free(profile);

	export_interval_deinit(&fixture->interval);
	export_interval_init(&fixture->interval, &fixture->sources, SLOT_NS, from_ns);
	key.slot -= 10;
	key.more_slots = 20;
	add(fixture, &key, 1);
	profile = export_interval_finish(&fixture->interval, from_ns + NS_PER_SECOND);
	EXPECT_EQ(from_ns - 10 * SLOT_NS, profile->from_ns, "ten slots earlier");
	profile_free(profile);

	export_interval_deinit(&fixture->interval);
	export_interval_init(&fixture->interval, &fixture->sources, SLOT_NS, from_ns);
	key.slot = (from_ns - 2 * hour_ns) / SLOT_NS;
	key.more_slots = 2 * hour_ns / SLOT_NS;
	add(fixture, &key, 12345);
	key.more_slots = UINT32_MAX;
	add(fixture, &key, 1);
	key.more_slots = 0;
	add(fixture, &key, 1);
	profile = export_interval_finish(&fixture->interval, from_ns + NS_PER_SECOND);
	EXPECT_EQ(from_ns - hour_ns / 2, profile->from_ns, "not longer than a message may be");
	EXPECT_EQ(12347, sum_of(profile, PROFILE_TYPE_OFF_WAKE, NULL, NULL), "nothing is lost");
	profile_free(profile);
}

TEST(spreads_values_without_a_thread_over_time)
{
	struct fixture *fixture = *state;
	struct labels labels = { 0 };

	labels_set(&labels, LABEL_SERVICE, "cairn-agent");
	for (int i = 0; i < 2; i++)
		assert_int_equal(0, export_interval_add_value(
					    &fixture->interval, &labels, PROFILE_TYPE_OVERHEAD,
					    MINUTE_SLOTS - 10, MINUTE_SLOTS + 9, 500));
	labels_deinit(&labels);

	struct profile *profile = export_interval_finish(&fixture->interval, 1);
	EXPECT_EQ(2, profile->sample_count, "joined, and cut at the minute");
	for (int i = 0; i < 2; i++) {
		const struct sample *sample = &profile->samples[i];

		EXPECT_EQ(MINUTE_SLOTS - 10 + 10 * i, sample->slot, "slot");
		EXPECT_EQ(9, sample->more_slots, "more slots");
		EXPECT_EQ(500, sample->value, "half of both");
		EXPECT_EQ(0, profile->stacks[sample->stack].location_count, "no stack");
	}
	EXPECT_STR("cairn-agent", labels_get(&profile->series[0].labels, LABEL_SERVICE), "label");
	profile_free(profile);
}

static struct process *own_process(struct fixture *fixture)
{
	return process_table_get(fixture->sources.frames.processes, &fixture->key.process, "test");
}

TEST(an_excluded_process_leaves_only_a_count)
{
	struct fixture *fixture = *state;
	struct count count = { .value = 1, .samples = 3 };

	own_process(fixture)->is_excluded = true;
	assert_int_equal(0, export_interval_add(&fixture->interval, &fixture->key, &count, 1));
	assert_int_equal(3, fixture->interval.excluded);
	struct profile *profile = export_interval_finish(&fixture->interval, 1);
	assert_int_equal(0, profile->sample_count);
	assert_int_equal(0, profile->series_count);
	profile_free(profile);
}

static int add_held(void *context, const struct count_key *key, const struct count *count)
{
	struct fixture *fixture = context;

	return export_interval_add(&fixture->interval, key, count, 300);
}

TEST(counts_wait_bounded_for_pod)
{
	struct fixture *fixture = *state;
	struct held_counts *held = held_counts_new();

	fixture->interval.sources.held = held;
	own_process(fixture)->pod_wait_ns = 200;
	add(fixture, &fixture->key, 5); // at 1 ns
	assert_int_equal(0, fixture->interval.series_count);
	assert_int_equal(0, held_counts_release(held, add_held, fixture)); // at 300 ns
	struct profile *profile = export_interval_finish(&fixture->interval, 1);
	assert_int_equal(1, profile->sample_count);
	assert_int_equal(5, profile->samples[0].value);
	profile_free(profile);
	held_counts_free(held);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FIXTURE(kernel_frames_lie_on_top_of_user_frames),
		WITH_FIXTURE(pcs_of_one_function_become_one_stack),
		WITH_FIXTURE(a_lost_stack_trace_leaves_its_leaf),
		WITH_FIXTURE(a_lost_kernel_part_ends_a_whole_root),
		WITH_FIXTURE(series_differ_by_process_and_thread_name),
		WITH_FIXTURE(numbered_threads_are_one_series),
		WITH_FIXTURE(too_many_thread_names_become_other),
		WITH_FIXTURE(too_many_series_become_other),
		WITH_FIXTURE(jit_code_without_a_name_is_anonymous),
		WITH_FIXTURE(an_exited_process_has_one_location),
		WITH_FIXTURE(each_kind_has_its_profile_type),
		WITH_FIXTURE(refuses_unknown_kinds),
		WITH_FIXTURE(blocked_time_has_its_wait_class),
		WITH_FIXTURE(sampled_stacks_add_up_to_the_total),
		WITH_FIXTURE(sampled_interval_is_one_thread),
		WITH_FIXTURE(a_sampled_wait_has_room_beside_exact_ones),
		WITH_FIXTURE(counts_sampled_intervals_without_room),
		WITH_FIXTURE(names_time_without_a_stack),
		WITH_FIXTURE(kernel_threads_have_no_stacks),
		WITH_FIXTURE(wakers_do_not_change_the_wait_class),
		cmocka_unit_test(splits_at_minutes_and_keeps_the_sum),
		WITH_FIXTURE(a_profile_begins_with_its_first_wait),
		WITH_FIXTURE(spreads_values_without_a_thread_over_time),
		WITH_FIXTURE(an_excluded_process_leaves_only_a_count),
		WITH_FIXTURE(counts_wait_bounded_for_pod),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	return failed || a_caller(a_leaf(0)) != 3;
}
