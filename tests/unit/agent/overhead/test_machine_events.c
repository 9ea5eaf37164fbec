// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/overhead/machine_events.h"

static void write_file(const char *folder, const char *name, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

TEST(reads_sums_of_machine)
{
	static const struct {
		const char *what, *stat, *vmstat;
		uint64_t switches, faults;
	} cases[] = {
		{ "both", "cpu 1 2\nintr 9 8 7\nctxt 123456789012\nbtime 5\n",
		  "pgalloc 3\npgfault 77\npgmajfault 8\n", 123456789012, 77 },
		{ "neither line", "cpu 1 2\n", "pgfaulty 3\n", 0, 0 },
		{ "a key in the middle", "x ctxt 5\n", "a pgfault 7\n", 0, 0 },
		{ "no number", "ctxt \n", "pgfault x\n", 0, 0 },
		{ "cut short", "ctxt 12", "pgfault 3", 12, 3 },
	};
	char folder[] = "/tmp/test-machine-events-XXXXXX", path[64];

	assert_non_null(mkdtemp(folder));
	for EACH (c, cases) {
		struct machine_events events;

		write_file(folder, "stat", c->stat);
		write_file(folder, "vmstat", c->vmstat);
		machine_events_read(folder, &events);
		EXPECT_EQ(c->switches, events.switches, c->what);
		EXPECT_EQ(c->faults, events.faults, c->what);
	}
	snprintf(path, sizeof(path), "%s/stat", folder);
	unlink(path);
	snprintf(path, sizeof(path), "%s/vmstat", folder);
	unlink(path);
	rmdir(folder);
}

TEST(counts_nothing_without_files)
{
	struct machine_events events = { 1, 1 };

	machine_events_read("/nonexistent", &events);
	EXPECT_EQ(0, events.switches, "switches");
	EXPECT_EQ(0, events.faults, "faults");
}

TEST(reads_running_kernel)
{
	struct machine_events events;

	machine_events_read("/proc", &events);
	assert_true(events.switches > 0 && events.faults > 0);
}

RUN_TESTS(cmocka_unit_test(reads_sums_of_machine), cmocka_unit_test(counts_nothing_without_files),
	  cmocka_unit_test(reads_running_kernel))
