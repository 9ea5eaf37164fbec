// SPDX-License-Identifier: Apache-2.0
// Groups in a folder that looks like the kernel's, and with a quota on the running kernel, where it lets
// us make them.

#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/sources/cpu_throttling.h"
#include "agent/sources/cgroup_files.h"
#include "base/clock.h"
#include "tests/unit/agent/process/process_tables.h"

#define SLOT_NS (20 * NS_PER_MS)

#define V1_FOLDER "/sys/fs/cgroup/cpu"
#define V2_FOLDER "/sys/fs/cgroup"

/* ---- a folder that looks like a hierarchy ---------------------------------------------------- */

struct fixture {
	struct tables tables;
	struct location_table *locations;
	char folder[64], own_group[1200];
	char entered[80]; // a group of the kernel's, made for the test; "": none
	bool unified;
	char mountinfo[80];
	struct cpu_throttling *counter;
	uint64_t now_ns;
};

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* This process's group for CPU time. */
static bool find_own_group(struct fixture *fixture, char own[CGROUP_PATH_BYTES])
{
	char text[8192] = { 0 };
	int fd = open("/proc/self/cgroup", O_RDONLY);
	ssize_t size = read(fd, text, sizeof(text));

	close(fd);
	assert_true(size > 0);
	fixture->unified = cgroup_find_path(text, size, "cpu", own) != 0;
	return !fixture->unified || !cgroup_find_path(text, size, NULL, own);
}

static bool write_to(const char *folder, const char *name, const char *text)
{
	char path[200];
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = open(path, O_WRONLY);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* The root's has no limits, and counts nothing. */
static bool leave_the_root(struct fixture *fixture)
{
	char pid[20];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	snprintf(fixture->entered, sizeof(fixture->entered), "%s/cairn-test-%s",
		 fixture->unified ? V2_FOLDER : V1_FOLDER, pid);
	if (mkdir(fixture->entered, 0700) == 0 && write_to(fixture->entered, "cgroup.procs", pid))
		return true;
	rmdir(fixture->entered);
	fixture->entered[0] = '\0';
	return false;
}

static void return_to_the_root(struct fixture *fixture)
{
	char pid[20];

	if (!fixture->entered[0])
		return;
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	write_to(fixture->unified ? V2_FOLDER : V1_FOLDER, "cgroup.procs", pid);
	rmdir(fixture->entered);
}

/* This process's group, below the folder; false: there is none but the root's. */
static bool make_groups(struct fixture *fixture)
{
	char own[CGROUP_PATH_BYTES], path[sizeof(fixture->own_group)];

	if (!find_own_group(fixture, own))
		return false;
	if (!own[1] && (!leave_the_root(fixture) || !find_own_group(fixture, own)))
		return false;
	snprintf(fixture->own_group, sizeof(fixture->own_group), "%s%s", fixture->folder, own);
	snprintf(path, sizeof(path), "%s", fixture->own_group);
	for (char *at = path + strlen(fixture->folder) + 1; (at = strchr(at, '/')); *at++ = '/') {
		*at = '\0';
		mkdir(path, 0700);
	}
	mkdir(path, 0700);
	return true;
}

static void set_throttled(const struct fixture *fixture, unsigned int us)
{
	char path[1300], text[100];

	snprintf(path, sizeof(path), "%s/cpu.stat", fixture->own_group);
	snprintf(text, sizeof(text), "nr_periods 9\nnr_throttled 1\n%s %u\n",
		 fixture->unified ? "throttled_usec" : "throttled_time",
		 fixture->unified ? us : 1000 * us);
	write_file(path, text);
}

static void open_counter(struct fixture *fixture, const char *mountinfo)
{
	struct cpu_throttling_options options = {
		.processes = fixture->tables.processes,
		.mountinfo = mountinfo,
	};
	struct error err = { 0 };

	if (cpu_throttling_open(&options, &fixture->counter, &err))
		fail_msg("%s", err.text);
}

static void begin(struct fixture *fixture)
{
	*fixture = (struct fixture){ .tables = tables_new(NULL), .now_ns = clock_monotonic_ns() };
	fixture->locations = location_table_new(fixture->tables.executables, NULL);
}

static void finish(struct fixture *fixture)
{
	cpu_throttling_close(fixture->counter);
	location_table_free(fixture->locations);
	tables_free(&fixture->tables);
}

/* All passes of a second. */
static void tick_a_second(struct fixture *fixture)
{
	for (int i = 0; i < 6; i++) {
		fixture->now_ns += NS_PER_SECOND / 5;
		cpu_throttling_tick(fixture->counter, fixture->now_ns);
	}
}

/* The values of an export interval, of all services. */
static int64_t drain(struct fixture *fixture, uint32_t *ret_series)
{
	struct export_interval_sources sources = {
		.frames = { .processes = fixture->tables.processes,
			    .locations = fixture->locations },
	};
	struct export_interval interval;
	int64_t sum = 0;

	assert_int_equal(0,
			 export_interval_init(&interval, &sources, SLOT_NS, clock_realtime_ns()));
	cpu_throttling_before_drain(fixture->counter);
	assert_int_equal(0, cpu_throttling_after_drain(fixture->counter, &interval));
	struct profile *profile = export_interval_finish(&interval, clock_realtime_ns());
	for (uint32_t i = 0; i < profile->sample_count; i++)
		sum += profile->samples[i].value;
	if (ret_series)
		*ret_series = profile->series_count;
	profile_free(profile);
	export_interval_deinit(&interval);
	return sum;
}

static struct process_key see(struct fixture *fixture, pid_t pid)
{
	struct process_key key = key_of(pid, 0);

	assert_non_null(process_table_get(fixture->tables.processes, &key, "test"));
	return key;
}

static bool begin_in_a_folder(struct fixture *fixture)
{
	begin(fixture);
	snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/cairn-cgroup-XXXXXX");
	assert_non_null(mkdtemp(fixture->folder));
	snprintf(fixture->mountinfo, sizeof(fixture->mountinfo), "%s/mountinfo", fixture->folder);
	bool made = make_groups(fixture);
	char line[200];
	snprintf(line, sizeof(line), "1 1 0:1 / %s rw - %s rw,cpu\n", fixture->folder,
		 fixture->unified ? "cgroup2 cgroup2" : "cgroup cgroup");
	write_file(fixture->mountinfo, line);
	return made;
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	return remove(path);
}

static void remove_folder(struct fixture *fixture)
{
	return_to_the_root(fixture);
	assert_int_equal(0, nftw(fixture->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS));
}

TEST(new_cgroups_count_from_their_start)
{
	for (int is_new = 0; is_new < 2; is_new++) {
		struct fixture fixture;

		if (!begin_in_a_folder(&fixture)) {
			remove_folder(&fixture);
			finish(&fixture);
			SKIP("needs root and a cpu controller to make groups in");
		}
		if (is_new) // not there yet when the counter is opened
			rmdir(fixture.own_group);
		else
			set_throttled(&fixture, 5);
		open_counter(&fixture, fixture.mountinfo);
		mkdir(fixture.own_group, 0700);
		set_throttled(&fixture, 7);
		see(&fixture, getpid());
		tick_a_second(&fixture);
		EXPECT_EQ((is_new ? 7 : 2) * 1000, drain(&fixture, NULL), "at first");
		set_throttled(&fixture, 17);
		EXPECT_EQ(10000, drain(&fixture, NULL), "what came since");
		EXPECT_EQ(0, drain(&fixture, NULL), "only once");
		set_throttled(&fixture, 1);
		EXPECT_EQ(1000, drain(&fixture, NULL), "another group of that name");
		remove_folder(&fixture);
		finish(&fixture);
	}
}

/* As many groups as are remembered, beside this process's and those above it. */
static void fill_formers(const struct fixture *fixture, bool make)
{
	char path[100];
	uint32_t above = 0;

	for (const char *at = fixture->own_group + strlen(fixture->folder); *at; at++)
		above += *at == '/';
	for (uint32_t i = above - 1; i < CGROUP_BASELINES_MAX; i++) {
		snprintf(path, sizeof(path), "%s/former%u", fixture->folder, i);
		assert_int_equal(0, make ? mkdir(path, 0700) : rmdir(path));
	}
}

static void forget_own_process(struct fixture *fixture, struct process_key key)
{
	apply(&fixture->tables, PROCESS_EXIT, key, 0, "test");
	tick_a_second(fixture);
}

TEST(evicts_removed_cgroups_first)
{
	struct cpu_throttling_stats stats;
	struct fixture fixture;

	if (!begin_in_a_folder(&fixture)) {
		remove_folder(&fixture);
		finish(&fixture);
		SKIP("needs root and a cpu controller to make groups in");
	}
	rmdir(fixture.own_group);
	fill_formers(&fixture, true);
	open_counter(&fixture, fixture.mountinfo);
	fill_formers(&fixture, false);
	mkdir(fixture.own_group, 0700);
	set_throttled(&fixture, 7);
	struct process_key key = see(&fixture, getpid());
	tick_a_second(&fixture);
	EXPECT_EQ(7000, drain(&fixture, NULL), "a new group");
	forget_own_process(&fixture, key);
	set_throttled(&fixture, 9);
	key.exec_id++;
	assert_non_null(process_table_get(fixture.tables.processes, &key, "test"));
	tick_a_second(&fixture);
	EXPECT_EQ(2000, drain(&fixture, NULL), "what it did while nobody of it was known");
	cpu_throttling_read_stats(fixture.counter, &stats);
	EXPECT_EQ(0, stats.baselines_dropped, "there was room");
	EXPECT_EQ(1, stats.is_exposed, "a mount elsewhere that can be written to");
	remove_folder(&fixture);
	finish(&fixture);
}

/* ---- the kernel's ---------------------------------------------------------------------------- */

struct quota_group {
	char outer[80], inner[100];
};

/* Quota on the outer one, as of a pod; processes in the inner one. */
static bool make_quota(struct quota_group *group)
{
	const char *mount = access(V1_FOLDER "/cpu.cfs_quota_us", F_OK) == 0 ? V1_FOLDER : NULL;

	if (!mount && access(V1_FOLDER, F_OK) == 0 && access(V1_FOLDER "/tasks", F_OK) == 0)
		mount = V1_FOLDER;
	bool unified = !mount;
	snprintf(group->outer, sizeof(group->outer), "%s/cairn-test-%d", mount ? mount : V2_FOLDER,
		 (int)getpid());
	snprintf(group->inner, sizeof(group->inner), "%s/inner", group->outer);
	if (mkdir(group->outer, 0700))
		return false;
	if (unified && !write_to(group->outer, "cgroup.subtree_control", "+cpu"))
		return false;
	if (mkdir(group->inner, 0700))
		return false;
	return unified ? write_to(group->outer, "cpu.max", "1000 100000")
		       : write_to(group->outer, "cpu.cfs_period_us", "100000") &&
				 write_to(group->outer, "cpu.cfs_quota_us", "1000");
}

static void remove_quota(const struct quota_group *group)
{
	for (int i = 0; i < 100 && rmdir(group->inner) && access(group->inner, F_OK) == 0; i++)
		usleep(10000);
	rmdir(group->outer);
}

static pid_t burn_in(const struct quota_group *group)
{
	pid_t pid = fork();

	if (pid == 0) {
		char text[20];

		alarm(60);
		snprintf(text, sizeof(text), "%d", (int)getpid());
		if (!write_to(group->inner, "cgroup.procs", text))
			_exit(1);
		for (;;)
			;
	}
	return pid;
}

TEST(counts_throttling_until_the_cgroup_ends)
{
	struct quota_group group;
	struct fixture fixture;
	uint32_t series = 0;
	int64_t throttled = 0;

	begin(&fixture);
	open_counter(&fixture, NULL);
	if (!make_quota(&group)) {
		remove_quota(&group);
		finish(&fixture);
		SKIP("needs root and a cpu controller to make groups in");
	}
	pid_t first = burn_in(&group), second = burn_in(&group);
	uint64_t begin_ns = clock_monotonic_ns();
	struct process_key keys[] = { see(&fixture, first), see(&fixture, second) };

	// 1 % is less than they get on any loaded machine.
	while (throttled < 500 * (int64_t)NS_PER_MS &&
	       clock_monotonic_ns() - begin_ns < 30 * NS_PER_SECOND) {
		usleep(200000);
		fixture.now_ns = clock_monotonic_ns();
		cpu_throttling_tick(fixture.counter, fixture.now_ns);
		throttled += drain(&fixture, &series);
	}
	usleep(700000); // nobody reads meanwhile: that is for when they exit
	end(first);
	end(second);
	uint64_t elapsed_ns = clock_monotonic_ns() - begin_ns;
	for (int i = 0; i < 2; i++)
		apply(&fixture.tables, PROCESS_EXIT, keys[i], 0, "test");
	fixture.now_ns += NS_PER_SECOND;
	cpu_throttling_tick(fixture.counter, fixture.now_ns);
	throttled += drain(&fixture, NULL);

	char path[200], text[200] = { 0 };
	snprintf(path, sizeof(path), "%s/cpu.stat", group.outer);
	int fd = open(path, O_RDONLY);
	assert_true(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	remove_quota(&group);
	const char *at = strstr(text, "throttled_time ");
	int64_t kernel_ns = at ? atoll(at + strlen("throttled_time ")) : 0;
	at = strstr(text, "throttled_usec ");
	if (at)
		kernel_ns = atoll(at + strlen("throttled_usec ")) * 1000;

	struct cpu_throttling_stats stats;
	cpu_throttling_read_stats(fixture.counter, &stats);
	// What the last ones were held back when they were killed may come to the count later.
	assert_true(throttled <= kernel_ns);
	assert_true(kernel_ns - throttled <= 200 * (int64_t)NS_PER_MS);
	EXPECT_EQ(1, series, "one service, though they are two");
	EXPECT_EQ(0, stats.groups, "nobody is left");
	EXPECT_EQ(0, stats.values_dropped, "nothing is lost");
	// On all CPUs together.
	assert_true(throttled >= 500 * (int64_t)NS_PER_MS);
	assert_true((uint64_t)throttled < elapsed_ns * sysconf(_SC_NPROCESSORS_ONLN));
	finish(&fixture);
}

/* What a container sees: its own group is the root of its namespace. Returns the namespace before, or -1. */
static int enter_namespace(const struct quota_group *group, const char *own)
{
	char path[200], pid[20];
	int before = open("/proc/self/ns/cgroup", O_RDONLY | O_CLOEXEC);

	snprintf(path, sizeof(path), "%s/%s", group->outer, own);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	if (mkdir(path, 0700) || !write_to(path, "cgroup.procs", pid) || unshare(CLONE_NEWCGROUP)) {
		close(before);
		return -1;
	}
	return before;
}

static void leave_namespace(const struct quota_group *group, const char *own, int before)
{
	char path[200], *name, pid[20];

	setns(before, CLONE_NEWCGROUP);
	close(before);
	snprintf(path, sizeof(path), "%s", group->outer);
	name = strrchr(path, '/');
	*name = '\0';
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	write_to(path, "cgroup.procs", pid);
	snprintf(path, sizeof(path), "%s/%s", group->outer, own);
	rmdir(path);
}

/* The agent's pod, and others beside it and elsewhere. */
TEST(reads_host_cgroups_from_a_namespace)
{
	struct quota_group group;
	struct fixture fixture;
	int64_t throttled = 0;

	begin(&fixture);
	if (!make_quota(&group)) {
		remove_quota(&group);
		finish(&fixture);
		SKIP("needs root and a cpu controller to make groups in");
	}
	pid_t child = burn_in(&group);
	int before = enter_namespace(&group, "agent");
	if (before < 0) {
		end(child);
		remove_quota(&group);
		finish(&fixture);
		SKIP("needs a hierarchy to make a namespace in");
	}
	open_counter(&fixture, NULL);
	see(&fixture, child);
	uint64_t begin_ns = clock_monotonic_ns();
	while (throttled == 0 && clock_monotonic_ns() - begin_ns < 30 * NS_PER_SECOND) {
		usleep(200000);
		fixture.now_ns = clock_monotonic_ns();
		cpu_throttling_tick(fixture.counter, fixture.now_ns);
		throttled += drain(&fixture, NULL);
	}
	end(child);
	leave_namespace(&group, "agent", before);
	remove_quota(&group);
	struct cpu_throttling_stats stats;
	cpu_throttling_read_stats(fixture.counter, &stats);
	EXPECT_EQ(0, stats.unreachable, "out of reach");
	EXPECT_EQ(0, stats.is_exposed, "where the kernel has them");
	EXPECT_EQ(2, stats.groups, "the inner one and the outer one");
	assert_true(throttled > 0);
	finish(&fixture);
}

RUN_TESTS(cmocka_unit_test(new_cgroups_count_from_their_start),
	  cmocka_unit_test(evicts_removed_cgroups_first),
	  cmocka_unit_test(reads_host_cgroups_from_a_namespace),
	  cmocka_unit_test(counts_throttling_until_the_cgroup_ends))
