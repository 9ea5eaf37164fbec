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

#include "agent/sources/cgroup_counter.h"
#include "agent/sources/cgroup_files.h"
#include "base/clock.h"
#include "tests/unit/agent/process/process_tables.h"

#define SLOT_NS (20 * NS_PER_MS)

/* ---- a folder that looks like a hierarchy ---------------------------------------------------- */

struct fixture {
	struct tables tables;
	struct location_table *locations;
	char folder[64], own_group[1200];
	bool unified;
	char mountinfo[80];
	struct cgroup_counter *counter;
	uint64_t now_ns;
};

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* This process's group for memory, below the folder; false: it is in the root's. */
static bool make_groups(struct fixture *fixture)
{
	char text[8192] = { 0 }, own[CGROUP_PATH_BYTES], path[sizeof(fixture->own_group)];
	int fd = open("/proc/self/cgroup", O_RDONLY);
	ssize_t size = read(fd, text, sizeof(text));

	close(fd);
	assert_true(size > 0);
	fixture->unified = cgroup_find_path(text, size, "memory", own) != 0;
	if (fixture->unified && cgroup_find_path(text, size, NULL, own))
		return false;
	if (!own[1])
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

static void set_kills(const struct fixture *fixture, unsigned int kills)
{
	char path[1300], text[100];

	snprintf(path, sizeof(path), "%s/%s", fixture->own_group,
		 fixture->unified ? "memory.events.local" : "memory.oom_control");
	snprintf(text, sizeof(text), "oom 1\nunder_oom 0\noom_kill %u\n", kills);
	write_file(path, text);
}

static void open_counter(struct fixture *fixture, enum cgroup_counter_kind kind,
			 const char *mountinfo)
{
	struct cgroup_counter_options options = {
		.kind = kind,
		.processes = fixture->tables.processes,
		.mountinfo = mountinfo,
	};
	struct error err = { 0 };

	if (cgroup_counter_open(&options, &fixture->counter, &err))
		fail_msg("%s", err.text);
}

static void begin(struct fixture *fixture)
{
	*fixture = (struct fixture){ .tables = tables_new(NULL), .now_ns = clock_monotonic_ns() };
	fixture->locations = location_table_new(fixture->tables.executables, NULL);
}

static void finish(struct fixture *fixture)
{
	cgroup_counter_close(fixture->counter);
	location_table_free(fixture->locations);
	tables_free(&fixture->tables);
}

/* All passes of a second. */
static void tick_a_second(struct fixture *fixture)
{
	for (int i = 0; i < 6; i++) {
		fixture->now_ns += NS_PER_SECOND / 5;
		cgroup_counter_tick(fixture->counter, fixture->now_ns);
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
	cgroup_counter_before_drain(fixture->counter);
	assert_int_equal(0, cgroup_counter_after_drain(fixture->counter, &interval));
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
	snprintf(line, sizeof(line), "1 1 0:1 / %s rw - %s rw,memory\n", fixture->folder,
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

static void remove_folder(const struct fixture *fixture)
{
	assert_int_equal(0, nftw(fixture->folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS));
}

TEST(new_cgroups_count_from_their_start)
{
	for (int is_new = 0; is_new < 2; is_new++) {
		struct fixture fixture;

		if (!begin_in_a_folder(&fixture)) {
			remove_folder(&fixture);
			finish(&fixture);
			SKIP("this process is in the root group");
		}
		if (is_new) // not there yet when the counter is opened
			rmdir(fixture.own_group);
		else
			set_kills(&fixture, 5);
		open_counter(&fixture, CGROUP_COUNTER_OOM_KILLS, fixture.mountinfo);
		mkdir(fixture.own_group, 0700);
		set_kills(&fixture, 7);
		see(&fixture, getpid());
		tick_a_second(&fixture);
		EXPECT_EQ(is_new ? 7 : 2, drain(&fixture, NULL), "at first");
		set_kills(&fixture, 17);
		EXPECT_EQ(10, drain(&fixture, NULL), "what came since");
		EXPECT_EQ(0, drain(&fixture, NULL), "only once");
		set_kills(&fixture, 1);
		EXPECT_EQ(1, drain(&fixture, NULL), "another group of that name");
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
	struct cgroup_counter_stats stats;
	struct fixture fixture;

	if (!begin_in_a_folder(&fixture)) {
		remove_folder(&fixture);
		finish(&fixture);
		SKIP("this process is in the root group");
	}
	rmdir(fixture.own_group);
	fill_formers(&fixture, true);
	open_counter(&fixture, CGROUP_COUNTER_OOM_KILLS, fixture.mountinfo);
	fill_formers(&fixture, false);
	mkdir(fixture.own_group, 0700);
	set_kills(&fixture, 7);
	struct process_key key = see(&fixture, getpid());
	tick_a_second(&fixture);
	EXPECT_EQ(7, drain(&fixture, NULL), "a new group");
	forget_own_process(&fixture, key);
	set_kills(&fixture, 9);
	key.exec_id++;
	assert_non_null(process_table_get(fixture.tables.processes, &key, "test"));
	tick_a_second(&fixture);
	EXPECT_EQ(2, drain(&fixture, NULL), "what it did while nobody of it was known");
	cgroup_counter_read_stats(fixture.counter, &stats);
	EXPECT_EQ(0, stats.baselines_dropped, "there was room");
	remove_folder(&fixture);
	finish(&fixture);
}

/* ---- the kernel's ---------------------------------------------------------------------------- */

#define V1_FOLDER        "/sys/fs/cgroup/cpu"
#define V1_MEMORY_FOLDER "/sys/fs/cgroup/memory"
#define V2_FOLDER        "/sys/fs/cgroup"

struct quota_group {
	char outer[80], inner[100];
};

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
	open_counter(&fixture, CGROUP_COUNTER_THROTTLED, NULL);
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
		cgroup_counter_tick(fixture.counter, fixture.now_ns);
		throttled += drain(&fixture, &series);
	}
	usleep(700000); // nobody reads meanwhile: that is for when they exit
	end(first);
	end(second);
	uint64_t elapsed_ns = clock_monotonic_ns() - begin_ns;
	for (int i = 0; i < 2; i++)
		apply(&fixture.tables, PROCESS_EXIT, keys[i], 0, "test");
	fixture.now_ns += NS_PER_SECOND;
	cgroup_counter_tick(fixture.counter, fixture.now_ns);
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

	struct cgroup_counter_stats stats;
	cgroup_counter_read_stats(fixture.counter, &stats);
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

enum { LIMIT_BYTES = 16 << 20, TOUCHED_BYTES = 64 << 20 };

static bool make_limit(struct quota_group *group)
{
	bool unified = access(V1_MEMORY_FOLDER "/memory.oom_control", F_OK) != 0;
	char limit[20];

	snprintf(limit, sizeof(limit), "%d", LIMIT_BYTES);
	snprintf(group->outer, sizeof(group->outer), "%s/cairn-test-%d",
		 unified ? V2_FOLDER : V1_MEMORY_FOLDER, (int)getpid());
	snprintf(group->inner, sizeof(group->inner), "%s/inner", group->outer);
	if (mkdir(group->outer, 0700) ||
	    (unified && !write_to(group->outer, "cgroup.subtree_control", "+memory")) ||
	    mkdir(group->inner, 0700))
		return false;
	if (unified)
		write_to(group->outer, "memory.swap.max", "0");
	return write_to(group->outer, unified ? "memory.max" : "memory.limit_in_bytes", limit);
}

static bool is_in(const struct quota_group *group, pid_t pid)
{
	char path[200], text[20] = "";

	snprintf(path, sizeof(path), "%s/cgroup.procs", group->inner);
	int fd = open(path, O_RDONLY);
	bool is = fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && atoi(text) == pid;

	if (fd >= 0)
		close(fd);
	return is;
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
	open_counter(&fixture, CGROUP_COUNTER_THROTTLED, NULL);
	see(&fixture, child);
	uint64_t begin_ns = clock_monotonic_ns();
	while (throttled == 0 && clock_monotonic_ns() - begin_ns < 30 * NS_PER_SECOND) {
		usleep(200000);
		fixture.now_ns = clock_monotonic_ns();
		cgroup_counter_tick(fixture.counter, fixture.now_ns);
		throttled += drain(&fixture, NULL);
	}
	end(child);
	leave_namespace(&group, "agent", before);
	remove_quota(&group);
	struct cgroup_counter_stats stats;
	cgroup_counter_read_stats(fixture.counter, &stats);
	EXPECT_EQ(0, stats.unreachable, "out of reach");
	EXPECT_EQ(2, stats.groups, "the inner one and the outer one");
	assert_true(throttled > 0);
	finish(&fixture);
}

/* Touches more than it may have once the pipe is closed. */
static pid_t grow_in(const struct quota_group *group, int pipe_fds[2])
{
	pid_t pid = fork();
	char text[20];

	if (pid)
		return pid;
	alarm(60);
	close(pipe_fds[1]);
	snprintf(text, sizeof(text), "%d", (int)getpid());
	if (!write_to(group->inner, "cgroup.procs", text) || read(pipe_fds[0], text, 1) != 0)
		_exit(1);
	char *memory = mmap(NULL, TOUCHED_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		_exit(1);
	memset(memory, 1, TOUCHED_BYTES);
	_exit(0);
}

TEST(counts_an_oom_kill_once)
{
	struct quota_group group;
	struct fixture fixture;
	int pipe_fds[2], status;

	begin(&fixture);
	if (!make_limit(&group)) {
		remove_quota(&group);
		finish(&fixture);
		SKIP("needs root and a memory controller to make groups in");
	}
	open_counter(&fixture, CGROUP_COUNTER_OOM_KILLS, NULL);
	assert_int_equal(0, pipe(pipe_fds));
	pid_t child = grow_in(&group, pipe_fds);
	struct process_key key = see(&fixture, child);
	for (int i = 0; i < 100 && !is_in(&group, child); i++)
		usleep(10000);
	tick_a_second(&fixture);
	EXPECT_EQ(0, drain(&fixture, NULL), "nothing has happened");
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	assert_int_equal(child, waitpid(child, &status, 0));
	apply(&fixture.tables, PROCESS_EXIT, key, 0, "test");
	tick_a_second(&fixture);
	int64_t kills = drain(&fixture, NULL);
	remove_quota(&group);
	if (WIFEXITED(status)) {
		finish(&fixture);
		SKIP("the limit is not kept here");
	}
	EXPECT_EQ(SIGKILL, WTERMSIG(status), "how it ended");
	EXPECT_EQ(1, kills, "kills");
	EXPECT_EQ(0, drain(&fixture, NULL), "only once");
	finish(&fixture);
}

RUN_TESTS(cmocka_unit_test(counts_an_oom_kill_once),
	  cmocka_unit_test(new_cgroups_count_from_their_start),
	  cmocka_unit_test(evicts_removed_cgroups_first),
	  cmocka_unit_test(reads_host_cgroups_from_a_namespace),
	  cmocka_unit_test(counts_throttling_until_the_cgroup_ends))
