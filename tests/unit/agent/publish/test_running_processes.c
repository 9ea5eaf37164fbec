// SPDX-License-Identifier: Apache-2.0
// The processes that run when measuring begins: their order, and that waiting for their tables ends. Into a double of
// the kernel's maps.

#include <stdlib.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/process/proc.h"
#include "agent/publish/running_processes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/unit/agent/publish/unwind_maps_double.h"
#include "tests/unit/agent/process/new_process_table.h"

static struct running_thread thread_of(uint32_t pid, uint32_t exec_id, uint64_t exec_ns)
{
	return (struct running_thread){ .process = { .pid = pid, .exec_id = exec_id },
					.exec_ns = exec_ns };
}

TEST(busiest_processes_come_first)
{
	struct running_thread before[] = { thread_of(7, 0, 900), thread_of(3, 0, 100),
					   thread_of(3, 0, 100), thread_of(5, 1, 50) };
	struct running_thread now[] = {
		thread_of(5, 2, 60),  thread_of(3, 0, 140), thread_of(7, 0, 910),
		thread_of(3, 0, 150), thread_of(9, 0, 30),
	};
	static const struct {
		uint32_t pid;
		uint64_t busy_ns;
	} expected[] = { { 3, 90 }, { 5, 60 }, { 9, 30 }, { 7, 10 } };
	uint32_t count;
	_cleanup_free_ struct running_process *list =
		running_processes_of(before, ARRAY_SIZE(before), now, ARRAY_SIZE(now), &count);

	EXPECT_EQ(ARRAY_SIZE(expected), count, "threads of one process are one");
	for (uint32_t i = 0; i < count; i++) {
		EXPECT_EQ(expected[i].pid, list[i].key.pid, "its place");
		EXPECT_EQ(expected[i].busy_ns, list[i].busy_ns,
			  "since the first list; another program's time does not count");
	}
}

TEST(nothing_runs)
{
	uint32_t count;
	_cleanup_free_ struct running_process *list =
		running_processes_of(NULL, 0, NULL, 0, &count);

	assert_non_null(list);
	EXPECT_EQ(0, count, "no process");
}

/* ---- publishing ----------------------------------------------------------------------------- */

static struct running_process self(void)
{
	struct running_process process = { .key = { .pid = (uint32_t)getpid() }, .name = "self" };
	struct proc proc;

	assert_int_equal(0, proc_open(getpid(), &proc));
	process.key.start_ns = proc.stat.start_ticks * (NS_PER_SECOND / PROC_TICKS_PER_SECOND);
	proc_close(&proc);
	return process;
}

/* This process, and one that is gone, within @ns_max. */
static struct running_ready publish_for(uint64_t ns_max)
{
	struct running_process list[] = { self(), { .key = { .pid = 0x7fffffff } } };
	struct running_publication publication = { .list = list, .count = 2, .ns_max = ns_max };
	struct executable_table *executables = executable_table_new();
	struct process_table *processes = new_process_table(executables, NULL);
	struct unwind_maps maps = { 0 };
	struct process_unwinds *unwinds;
	struct running_ready ready;
	struct error err = { 0 };

	maps_double_clear();
	assert_int_equal(0, process_unwind_open(&maps, processes,
						&(struct process_unwind_options){ 0 }, &unwinds,
						&err));
	running_processes_publish(&publication, unwinds, processes);
	running_processes_wait(&publication, unwinds, &ready);
	process_unwind_close(unwinds);
	process_table_free(processes);
	executable_table_free(executables);
	maps_double_clear();
	return ready;
}

TEST(waits_for_the_tables_of_what_runs)
{
	struct running_ready ready = publish_for(30 * NS_PER_SECOND);

	EXPECT_EQ(2, ready.processes, "listed");
	EXPECT_EQ(1, ready.waiting, "the one that is gone");
}

TEST(begins_anyway_when_time_is_over)
{
	struct running_ready ready = publish_for(1);

	EXPECT_EQ(2, ready.processes, "listed");
	EXPECT_EQ(2, ready.waiting, "not ready");
}

RUN_TESTS(cmocka_unit_test(busiest_processes_come_first), cmocka_unit_test(nothing_runs),
	  cmocka_unit_test(waits_for_the_tables_of_what_runs),
	  cmocka_unit_test(begins_anyway_when_time_is_over))
