// SPDX-License-Identifier: Apache-2.0
#include "agent/process/perf_map.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/symbols/jit_name.h"
#include "agent/symbols/jit_symbols.h"
#include "base/clock.h"
#include "tests/test.h"

static int file_of(const char *text)
{
	int fd = memfd_create("perf-map", MFD_CLOEXEC);

	assert_int_equal(strlen(text), write(fd, text, strlen(text)));
	return fd;
}

static void append(int fd, const char *text)
{
	assert_int_equal(strlen(text), write(fd, text, strlen(text)));
}

static const char *find(struct perf_map *map, uint64_t address)
{
	const char *name = perf_map_find(map, address);

	return name ? name : "";
}

static const struct {
	const char *what;
	const char *text;
	const char *name; // at 0x1005
} rows[] = {
	{ "a function", "1000 10 f\n", "f" },
	{ "with spaces", "1000 10 py::f:/a b/c.py\n", "py::f:/a b/c.py" },
	{ "as the JVM writes it", "0x0000000000001000 0x0000000000000010 int A.b(byte[])\n",
	  "int A.b(byte[])" },
	{ "capitals", "1000 1A f\n", "f" },
	{ "tier of V8", "1000 10 LazyCompile:*f /a.js:1:1\n", "LazyCompile:f /a.js:1:1" },
	{ "the last of two", "1000 10 old\n1000 10 new\n", "new" },
	{ "not sorted, overlapping", "2000 10 z\n1000 1000 a\n1004 4 b\n0 5 c\n", "b" },
	{ "after nonsense", "hello\n\n1000\n1000 10\n1000 10 \nx 10 f\n1000 x f\n1000 10 f\n",
	  "f" },
	{ "without an end", "1000 10 f", "" },
	{ "17 digits", "00000000000001000 10 f\n", "" },
	{ "no size", "1000  f\n", "" },
	{ "minus", "-1000 10 f\n", "" },
	{ "empty function", "1005 0 f\n", "" },
	{ "larger than memory", "1000 ffffffffffffffff f\n", "" },
	{ "in the kernel", "ffffffff81000000 10 f\n", "" },
	{ "nothing", "", "" },
};

TEST(reads_a_function_or_skips_the_line)
{
	for EACH (row, rows) {
		struct perf_map *map = perf_map_new();
		int fd = file_of(row->text);

		EXPECT_EQ(row->text[0] && strchr(row->text, '\n') ? 1 : 0, perf_map_read(map, fd),
			  row->what);
		EXPECT_STR(row->name, find(map, 0x1005), row->what);
		close(fd);
		perf_map_free(map);
	}
}

static const struct {
	const char *name;
	const char *cleaned;
} names[] = {
	{ "LazyCompile:*f /a.js:1:2", "LazyCompile:f /a.js:1:2" },
	{ "JS:^f file:///a.mjs:1:2", "JS:f file:///a.mjs:1:2" },
	{ "JS:*'f /a.js:1:2", "JS:f /a.js:1:2" },
	{ "Function:~f", "Function:f" },
	{ "Script:~", "Script:" },
	{ "JS:", "JS:" },
	{ "Builtin:ArrayMap", "Builtin:ArrayMap" },
	{ "RegExp:*", "RegExp:*" },
	{ "void [app] P::Main(string[])[OptimizedTier1]", "void [app] P::Main(string[])" },
	{ "void [app] P::Main(string[])", "void [app] P::Main(string[])" },
	{ "[Tier0]", "[Tier0]" },
	{ "Ljava/lang/String;::hashCode", "Ljava/lang/String;::hashCode" },
	{ "", "" },
};

TEST(removes_tier_marks_from_names)
{
	for EACH (row, names) {
		char name[64];

		memcpy(name, row->name, strlen(row->name));
		name[jit_name_clean(name, strlen(row->name))] = '\0';
		EXPECT_STR(row->cleaned, name, row->name);
	}
}

TEST(reads_on_in_a_growing_file)
{
	struct perf_map *map = perf_map_new();
	int fd = file_of("1000 10 first\n20");

	assert_int_equal(1, perf_map_read(map, fd));
	assert_int_equal(0, perf_map_read(map, fd));
	append(fd, "00 10 second");
	assert_int_equal(0, perf_map_read(map, fd));
	assert_string_equal("", find(map, 0x2000));
	append(fd, "\n1000 10 third\n");
	assert_int_equal(1, perf_map_read(map, fd));
	assert_string_equal("second", find(map, 0x2000));
	assert_string_equal("third", find(map, 0x1000));

	assert_int_equal(0, ftruncate(fd, 0)); // written anew
	lseek(fd, 0, SEEK_SET);
	append(fd, "3000 10 fourth\n");
	assert_int_equal(1, perf_map_read(map, fd));
	assert_string_equal("", find(map, 0x1000));
	assert_string_equal("fourth", find(map, 0x3000));

	for (int i = 0; i < 10; i++) // as the JVM does: in place, and longer than before
		append(fd, "3000 10 fourth\n");
	assert_int_equal(1, perf_map_read(map, fd));
	assert_int_equal(0, ftruncate(fd, 0));
	lseek(fd, 0, SEEK_SET);
	append(fd, "7000 10 seventh\n");
	for (int i = 0; i < 20; i++)
		append(fd, "5000 10 LazyCompile:*f /a.js:1:1\n");
	assert_int_equal(1, perf_map_read(map, fd));
	assert_int_equal(0, perf_map_read(map, fd));
	assert_string_equal("", find(map, 0x3000));
	assert_string_equal("seventh", find(map, 0x7000));
	append(fd, "8000 10 eighth\n");
	assert_int_equal(1, perf_map_read(map, fd));
	assert_string_equal("seventh", find(map, 0x7000)); // still known: reading went on

	int other = file_of("4000 10 fifth\n4010 10 fifth\n"); // in its place, and longer
	assert_int_equal(1, perf_map_read(map, other));
	assert_string_equal("", find(map, 0x3000));
	assert_string_equal("fifth", find(map, 0x4000));
	close(other);
	close(fd);
	perf_map_free(map);
}

TEST(bounds_endless_lines_and_files)
{
	struct perf_map *map = perf_map_new();
	char *line = malloc(200 << 10);
	int fd = memfd_create("perf-map", MFD_CLOEXEC);

	memset(line, 'x', 200 << 10);
	memcpy(line, "1000 10 ", 8);
	assert_int_equal(200 << 10, write(fd, line, 200 << 10));
	append(fd, "\n2000 10 after\n");
	perf_map_read(map, fd);
	assert_string_equal("", find(map, 0x1000));
	assert_string_equal("after", find(map, 0x2000));

	// 10 GB of zeros
	assert_int_equal(0, ftruncate(fd, 10LL << 30));
	uint64_t before = clock_process_cpu_ns();
	for (int i = 0; i < 10; i++)
		assert_true(perf_map_read(map, fd) >= 0);
	assert_true(clock_process_cpu_ns() - before < slower_ns(NS_PER_SECOND));
	assert_true(perf_map_bytes(map) < 1 << 20);
	assert_string_equal("after", find(map, 0x2000));
	free(line);
	close(fd);
	perf_map_free(map);
}

TEST(reports_that_names_are_full)
{
	struct perf_map *map = perf_map_new();
	int fd = file_of("1000 10 first\n");
	FILE *file = fdopen(dup(fd), "w");

	assert_int_equal(1, perf_map_read(map, fd));
	assert_false(perf_map_is_full(map));
	for (uint32_t i = 0; i <= JIT_SYMBOLS_MAX; i++)
		fprintf(file, "%x 10 f\n", 0x2000 + 16 * i);
	fclose(file);
	while (perf_map_read(map, fd) > 0)
		;
	assert_true(perf_map_is_full(map));
	assert_string_equal("first", find(map, 0x1000));
	close(fd);
	fd = file_of("1000 10 other\n"); // another file
	assert_int_equal(1, perf_map_read(map, fd));
	assert_false(perf_map_is_full(map));
	close(fd);
	perf_map_free(map);
}

TEST(survives_random_bytes)
{
	static const char letters[] = "01 afx\n\n:*[]\xff\x80";
	char text[4096];

	srand(3);
	for (int round = 0; round < 2000; round++) {
		struct perf_map *map = perf_map_new();

		for (size_t i = 0; i < sizeof(text) - 1; i++)
			text[i] = letters[(size_t)rand() % (sizeof(letters) - 1)];
		text[sizeof(text) - 1] = '\0';
		int fd = file_of(text);
		assert_true(perf_map_read(map, fd) >= 0);
		find(map, 0x1000);
		close(fd);
		perf_map_free(map);
	}
}

// ---- owners of the file ---------------------------------------------------------------------

/* The path of this process's perf map, where no file is. */
static const char *own_path(void)
{
	static char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	unlink(path);
	return path;
}

static int open_own(void)
{
	struct proc proc;

	assert_int_equal(0, proc_open(getpid(), &proc));
	int fd = perf_map_open(&proc);
	proc_close(&proc);
	return fd;
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	append(fd, text);
	close(fd);
}

TEST(opens_only_regular_files_of_the_user)
{
	const char *path = own_path();
	char other[80];

	snprintf(other, sizeof(other), "%s.other", path);
	assert_int_equal(-ENOENT, open_own());
	write_file(path, "1000 10 f\n");
	int fd = open_own();
	assert_true(fd >= 0);
	close(fd);

	assert_int_equal(0, link(path, other));
	assert_int_equal(-EPERM, open_own());
	unlink(path);
	assert_int_equal(0, symlink(other, path));
	assert_int_equal(-EPERM, open_own());
	unlink(path);
	unlink(other);
	assert_int_equal(0, mkfifo(path, 0600)); // without a writer
	assert_int_equal(-EPERM, open_own());
	unlink(path);
	assert_int_equal(0, mkdir(path, 0700));
	assert_int_equal(-EPERM, open_own());
	rmdir(path);
	if (mknod(path, S_IFCHR | 0600, makedev(1, 5)) == 0) // /dev/zero
		assert_int_equal(-EPERM, open_own());
	unlink(path);
	write_file(path, "1000 10 f\n");
	if (chown(path, 12345, 12345) == 0) {
		assert_int_equal(-EPERM, open_own());
		assert_int_equal(0, chown(path, 0, 0));
		fd = open_own();
		assert_true(fd >= 0);
		close(fd);
	}
	unlink(path);
}

/* In namespaces of its own: pid 1 there, with a /tmp of its own. */
static pid_t start_container(int *ret_fd)
{
	int ready[2];

	assert_int_equal(0, pipe(ready));
	pid_t outer = fork();
	if (outer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWPID | CLONE_NEWNS))
			_exit(1);
		pid_t inner = fork();
		if (inner)
			_exit(waitpid(inner, NULL, 0) < 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("none", "/tmp", "tmpfs", 0, NULL))
			_exit(1);
		write_file("/tmp/perf-1.map", "1000 10 inside\n");
		assert_int_equal(1, write(ready[1], "x", 1));
		for (;;)
			pause();
	}
	close(ready[1]);
	*ret_fd = ready[0];
	return outer;
}

static pid_t only_child_of(pid_t pid)
{
	char path[64], text[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	int fd = open(path, O_RDONLY);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return atoi(text);
}

TEST(opens_a_containers_map_by_inner_pid)
{
	int ready;
	pid_t outer = start_container(&ready);
	char byte;

	if (read(ready, &byte, 1) != 1) {
		waitpid(outer, NULL, 0);
		SKIP("namespaces cannot be made here");
	}
	pid_t inner = only_child_of(outer);
	struct perf_map *map = perf_map_new();
	struct proc proc;

	assert_true(inner > 1);
	assert_int_equal(0, proc_open(inner, &proc));
	int fd;
	do
		fd = perf_map_open(&proc);
	while (fd == -ETIMEDOUT); // others have the CPUs
	proc_close(&proc);
	assert_true(fd >= 0);
	assert_int_equal(1, perf_map_read(map, fd));
	assert_string_equal("inside", find(map, 0x1000));
	close(fd);
	close(ready);
	perf_map_free(map);
	kill(inner, SIGKILL);
	waitpid(outer, NULL, 0);
}

RUN_TESTS(cmocka_unit_test(reads_a_function_or_skips_the_line),
	  cmocka_unit_test(removes_tier_marks_from_names),
	  cmocka_unit_test(reads_on_in_a_growing_file),
	  cmocka_unit_test(bounds_endless_lines_and_files),
	  cmocka_unit_test(reports_that_names_are_full), cmocka_unit_test(survives_random_bytes),
	  cmocka_unit_test(opens_only_regular_files_of_the_user),
	  cmocka_unit_test(opens_a_containers_map_by_inner_pid))
