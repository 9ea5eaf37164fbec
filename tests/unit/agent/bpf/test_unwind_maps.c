// SPDX-License-Identifier: Apache-2.0
// The unwinder's maps in the running kernel: what is put is there, what is removed is gone, and a
// published process is unwound to its end without frame pointers. Needs root and BTF.

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "tests/test.h"

#include "agent/bpf/loader.h"
#include "agent/bpf/machine.h"
#include "agent/bpf/perf_events.h"
#include "agent/publish/process_unwind.h"
#include "base/clock.h"
#include "tests/unit/agent/process/new_process_table.h"

static bool machine_is_fit(void)
{
	struct error err;

	return machine_check(&err) == 0;
}

static struct loader *open_loader(void)
{
	struct loader_options options = { .slot_ns = 20 * NS_PER_MS, .counts_max = 4096 };
	struct loader *loader = NULL;
	struct error err = { 0 };

	if (loader_open(&options, &loader, &err))
		fail_msg("loader_open: %s", err.text);
	return loader;
}

/* A table of @page_count pages whose words are @first and so on. */
static int make_table(uint32_t page_count, uint32_t first)
{
	struct table_page *pages = NULL;
	int fd = unwind_maps_create_table(page_count, &pages);

	assert_true(fd >= 0);
	for (uint32_t i = 0; i < page_count * TABLE_PAGE_WORDS; i++)
		pages->words[i] = first + i;
	unwind_maps_unmap_table(pages, page_count);
	return fd;
}

/* Is there a table under this number? */
static bool has_table(const struct unwind_maps *maps, uint32_t number)
{
	uint32_t id;

	return bpf_map_lookup_elem(maps->tables_fd, &number, &id) == 0;
}

TEST(installs_tables_in_batches_and_removes_them)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	struct loader *loader = open_loader();
	const struct unwind_maps *maps = loader_unwind_maps(loader);
	uint32_t numbers[] = { 7, 0, UNWIND_TABLES_MAX - 1 };
	int fds[] = { make_table(1, 10), make_table(5, 20), make_table(300, 30) };
	struct table_page page;
	uint32_t last = 299;

	assert_int_equal(0, bpf_map_lookup_elem(fds[2], &last, &page));
	EXPECT_EQ(30 + 300 * TABLE_PAGE_WORDS - 1, page.words[TABLE_PAGE_WORDS - 1],
		  "what was written into the mapping");
	assert_int_equal(0, unwind_maps_install_tables(maps, numbers, fds, 3));
	for (int i = 0; i < 3; i++) {
		close(fds[i]); // the map of tables holds it
		assert_true(has_table(maps, numbers[i]));
	}
	assert_true(!has_table(maps, 1));
	assert_int_equal(0, unwind_maps_install_tables(maps, NULL, NULL, 0));
	assert_int_equal(0, unwind_maps_remove_table(maps, 7));
	assert_true(!has_table(maps, 7) && has_table(maps, 0));
	EXPECT_EQ(0, unwind_maps_remove_table(maps, 7), "what is not there");
	assert_true(unwind_maps_remove_table(maps, UNWIND_TABLES_MAX) < 0);
	loader_close(loader);
}

TEST(writes_rules_through_a_mapping)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	struct loader *loader = open_loader();
	const struct unwind_maps *maps = loader_unwind_maps(loader);
	struct unwind_rule *rules = unwind_maps_map_rules(maps);
	struct unwind_rule wanted = { .cfa = CFA_REGISTER, .cfa_offset = 4711 }, found;
	uint32_t last = UNWIND_RULES_MAX - 1, zero = 0;

	assert_non_null(rules);
	rules[last] = wanted;
	assert_int_equal(0, bpf_map_lookup_elem(maps->rules_fd, &last, &found));
	assert_memory_equal(&wanted, &found, sizeof(found));
	assert_int_equal(0, bpf_map_lookup_elem(maps->rules_fd, &zero, &found));
	EXPECT_EQ(CFA_NO_TABLE, found.cfa, "rule 0");
	unwind_maps_unmap_rules(rules);
	loader_close(loader);
}

/* ---- a process of the real kernel ------------------------------------------------------------------ */

static uint32_t count_keys(int fd, size_t key_size)
{
	uint8_t key[64], *before = NULL;
	uint32_t count = 0;

	assert_true(key_size <= sizeof(key));
	while (bpf_map_get_next_key(fd, before, key) == 0) {
		before = key;
		count++;
	}
	return count;
}

/* What one test needs of the agent. */
struct agent {
	struct loader *loader;
	const struct unwind_maps *maps;
	struct executable_table *executables;
	struct process_table *processes;
	struct process_unwinds *unwinds;
	struct process_key key; // of this process, by the kernel
	uint32_t complete, others;
	uint32_t depth_max;
};

static void open_agent(struct agent *agent)
{
	struct process_unwind_options options = { 0 };
	struct error err = { 0 };

	*agent = (struct agent){ .loader = open_loader() };
	agent->maps = loader_unwind_maps(agent->loader);
	agent->executables = executable_table_new();
	agent->processes = new_process_table(agent->executables, NULL);
	if (process_unwind_open(agent->maps, agent->processes, &options, &agent->unwinds, &err))
		fail_msg("process_unwind_open: %s", err.text);
}

static void close_agent(struct agent *agent)
{
	process_unwind_close(agent->unwinds);
	process_table_free(agent->processes);
	executable_table_free(agent->executables);
	loader_close(agent->loader);
}

static void ignore_process(void *context, const struct process_record *record)
{
	(void)context;
	(void)record;
}

static void see_stack(void *context, const struct stack_record *record)
{
	struct agent *agent = context;

	if (record->trace.process.pid != (uint32_t)getpid())
		return;
	agent->key = record->trace.process;
	if (record->trace.end == STACK_END_COMPLETE)
		agent->complete++;
	else
		agent->others++;
	if (record->trace.frame_count > agent->depth_max)
		agent->depth_max = record->trace.frame_count;
}

static void read_records(struct agent *agent)
{
	struct record_handlers handlers = {
		.stack = see_stack,
		.process = ignore_process,
		.context = agent,
	};
	struct error err = { 0 };

	if (loader_read_records(agent->loader, &handlers, &err))
		fail_msg("loader_read_records: %s", err.text);
}

static volatile uint64_t burnt;

#if defined(__clang__)
#define WITHOUT_FRAME_POINTER __attribute__((noinline))
#else
#define WITHOUT_FRAME_POINTER __attribute__((noinline, optimize("omit-frame-pointer")))
#endif

/* Of the wanted depth, with frames of different sizes and the frame pointer register used for data. */
WITHOUT_FRAME_POINTER static uint64_t burn(uint32_t depth, uint64_t cpu_ns)
{
	volatile uint64_t room[3 + 1] = { depth };

	if (depth)
		return burn(depth - 1, cpu_ns) + room[0];
	for (uint64_t end_ns = clock_process_cpu_ns() + cpu_ns; clock_process_cpu_ns() < end_ns;)
		for (int i = 0; i < 1000000; i++)
			burnt++;
	return room[0];
}

static void settle(struct agent *agent)
{
	struct process_unwind_stats stats;

	for (int i = 0; i < 1000; i++) {
		process_unwind_read_stats(agent->unwinds, &stats);
		if (!stats.tables_pending)
			return;
		struct pollfd fd = { .fd = process_unwind_fd(agent->unwinds), .events = POLLIN };
		poll(&fd, 1, 1000);
		process_unwind_read(agent->unwinds);
	}
	fail_msg("%s", "tables do not get ready");
}

TEST(unwinds_a_published_process_completely)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	struct agent agent;
	open_agent(&agent);
	struct period_listener listener = { loader_set_period, agent.loader };
	struct perf_events *events = NULL;
	struct error err = { 0 };
	if (perf_events_open(499, 0, loader_sampler_fd(agent.loader), &listener, &events, &err))
		fail_msg("perf_events_open: %s", err.text);

	burn(40, 100 * NS_PER_MS);
	read_records(&agent);
	EXPECT_EQ(0, agent.complete, "it is not published yet");
	assert_true(agent.others > 0);

	struct process *self = process_table_get(agent.processes, &agent.key, "");
	process_unwind_touch(agent.unwinds, self, 0);
	settle(&agent);
	EXPECT_EQ(1, count_keys(agent.maps->processes_fd, sizeof(uint32_t)), "processes");
	agent.others = 0;
	read_records(&agent); // what was sampled meanwhile
	agent.others = agent.depth_max = 0;
	burn(40, 300 * NS_PER_MS);
	read_records(&agent);
	EXPECT_EQ(0, agent.others, "incomplete stacks");
	assert_true(agent.complete > 0);
	assert_true(agent.depth_max >= 40 + 3); // and main, and what called it

	struct process_record exit = { .event = PROCESS_EXIT, .process = agent.key };
	process_unwind_apply(agent.unwinds, &exit);
	poll(NULL, 0, 220);
	process_unwind_read(agent.unwinds);
	EXPECT_EQ(0, count_keys(agent.maps->processes_fd, sizeof(uint32_t)), "withdrawn");
	EXPECT_EQ(0, count_keys(agent.maps->pages_fd, sizeof(struct mapping_page_key)),
		  "with its pages");
	perf_events_close(events);
	close_agent(&agent);
}

RUN_TESTS(cmocka_unit_test(installs_tables_in_batches_and_removes_them),
	  cmocka_unit_test(writes_rules_through_a_mapping),
	  cmocka_unit_test(unwinds_a_published_process_completely))
