// SPDX-License-Identifier: Apache-2.0
// Interpreters of real processes: found, absent, starting, and unsupported.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process/mapped_file.h"
#include "agent/python/python_runtime.h"
#include "base/cleanup.h"
#include "tests/test.h"
#include "tests/unit/agent/python/pythons.h"

static struct executable_table *executables;
static struct python_runtimes *runtimes;

/* A program that runs until it is ended, and its mappings. */
struct program {
	pid_t pid;
	struct mapping_list *mappings;
};

static void read_mappings(struct program *program)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", program->pid);
	_cleanup_close_ int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int maps = openat(folder, "maps", O_RDONLY | O_CLOEXEC);
	mapping_list_release(program->mappings);
	program->mappings = NULL;
	assert_int_equal(0, mapping_list_read(maps, &program->mappings));
	for (uint32_t i = 0; i < program->mappings->count; i++) {
		struct mapping *mapping = &program->mappings->mappings[i];
		_cleanup_close_ int fd = mapped_file_open(folder, program->mappings, mapping);
		struct error err;

		if (fd < 0 ||
		    executable_table_open(executables, fd, mapping_path(program->mappings, mapping),
					  &mapping->executable, &err))
			continue;
		executable_hold(mapping->executable);
		mapping->file = MAPPING_FILE_OPENED;
	}
}

/* @preload: a library to load into it, or NULL. Returns once it has written a line. */
static struct program start(const char *preload, const char *const argv[])
{
	struct program program = { 0 };
	int ends[2];
	char line[16];

	assert_int_equal(0, pipe2(ends, O_CLOEXEC));
	program.pid = fork();
	if (!program.pid) {
		dup2(ends[1], STDOUT_FILENO);
		if (preload)
			setenv("LD_PRELOAD", preload, 1);
		alarm(60);
		execv(argv[0], (char *const *)argv);
		_exit(127);
	}
	close(ends[1]);
	assert_true(read(ends[0], line, sizeof(line)) > 0);
	close(ends[0]);
	read_mappings(&program);
	return program;
}

static struct program start_python(const char *path)
{
	const char *const argv[] = { path, "-c",
				     "import os, time; os.write(1, b'1'); time.sleep(60)", NULL };

	return start(NULL, argv);
}

static struct program start_shell(const char *preload)
{
	// The shell itself has the library, whatever it starts.
	const char *const argv[] = { "/bin/sh", "-c", "echo 1; kill -STOP $$", NULL };

	return start(preload, argv);
}

static void stop(struct program *program)
{
	kill(program->pid, SIGKILL);
	waitpid(program->pid, NULL, 0);
	mapping_list_release(program->mappings);
}

static int find(const struct program *program, struct python_process *process, struct error *notice)
{
	*notice = (struct error){ 0 };
	return python_runtimes_find(runtimes, program->pid, program->mappings, process, notice);
}

static int set_up(void **state)
{
	(void)state;
	executables = executable_table_new();
	runtimes = python_runtimes_new();
	return executables && runtimes ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	python_runtimes_free(runtimes);
	executable_table_free(executables);
	return 0;
}

TEST(finds_interpreters_and_recognizes_builds)
{
	find_pythons();
	if (!python_program_count)
		SKIP("no CPython here");
	for (uint32_t i = 0; i < python_program_count; i++) {
		const char *path = python_programs[i].path;
		struct program first = start_python(path), second = start_python(path);
		struct python_process process, other;
		struct error notice;

		EXPECT_EQ(0, find(&first, &process, &notice), path);
		EXPECT_EQ(0, find(&second, &other, &notice), path);
		EXPECT_EQ(process.runtime, other.runtime, path);
		EXPECT_EQ(process.ways, other.ways, path);
		EXPECT_EQ(process.key_at, other.key_at, path);
		assert_non_null(python_runtimes_offsets(runtimes, process.runtime));
		EXPECT_EQ(python_programs[i].minor,
			  python_runtimes_offsets(runtimes, process.runtime)->minor, path);
		assert_true(process.ways & (PYTHON_WAY_KEY | PYTHON_WAY_TLS));
		stop(&first);
		stop(&second);
	}
	assert_null(python_runtimes_offsets(runtimes, 0));
	assert_null(python_runtimes_offsets(runtimes, PYTHON_RUNTIMES_MAX));
}

TEST(other_programs_have_no_interpreter)
{
	struct program shell = start_shell(NULL);
	struct python_process process;
	struct error notice;

	assert_int_equal(-ENOENT, find(&shell, &process, &notice));
	assert_int_equal(0, notice.code);
	stop(&shell);
}

/* A library, compiled from @source. Returns false without a compiler. */
static bool compile(const char *folder, const char *name, const char *source, char *path,
		    size_t size)
{
	char command[4096];

	snprintf(path, size, "%s/%s", folder, name);
	snprintf(command, sizeof(command),
		 "printf '%%s' '%s' | cc -shared -fPIC -x c -o '%s' - 2>/dev/null", source, path);
	return system(command) == 0;
}

#define LOOP "void *_PyEval_EvalFrameDefault(void *a) { return a; }"

static const struct {
	const char *what, *name, *source, *notice;
	int rc;
} strangers[] = {
	{ "an interpreter that is only mapped", "libpython3.11.so.1.0",
	  LOOP "char _PyRuntime[200000]; unsigned Py_Version = 0x030b0000;"
	       "unsigned long PyCode_Type[64] = { [4] = 184 };",
	  NULL, -EAGAIN },
	{ "code objects of another size", "libpython3.11.so.1.0",
	  LOOP "char _PyRuntime[200000]; unsigned Py_Version = 0x030b0000;"
	       "unsigned long PyCode_Type[64] = { [4] = 200 };",
	  "3.11", -ENOTSUP },
	{ "a version too old", "libpython3.5m.so.1.0",
	  LOOP "char _PyRuntime[200000]; unsigned long PyCode_Type[64];", "3.5", -ENOTSUP },
	{ "a new version without debug offsets", "libpython3.19.so.1.0",
	  LOOP "char _PyRuntime[200000]; unsigned Py_Version = 0x03130000;"
	       "unsigned long PyCode_Type[64];",
	  "3.19", -ENOTSUP },
	{ "debug offsets that are broken", "libpython3.20.so.1.0",
	  LOOP "struct { char cookie[8]; unsigned long version, rest[200]; } _PyRuntime ="
	       "{ \"xdebugpy\", 0x03140000 }; unsigned Py_Version = 0x03140000;"
	       "unsigned long PyCode_Type[64];",
	  "3.20", -ENOTSUP },
	{ "no runtime", "libpython3.9.so.1.0", LOOP, "3.9", -ENOTSUP },
	{ "3.6 without a way to its interpreters", "libpython3.6m.so.1.0", LOOP "int other;", "3.6",
	  -ENOTSUP },
	{ "interpreters that lead nowhere", "libpython3.11.so.1.0",
	  LOOP "unsigned long _PyRuntime[20000] = { [5] = 0x1234567890 };"
	       "unsigned Py_Version = 0x030b0000; unsigned long PyCode_Type[64] = { [4] = 184 };",
	  NULL, -EAGAIN },
};

TEST(reports_an_unsupported_build_once)
{
	for EACH (row, strangers) {
		char folder[] = "/tmp/cairn-runtime-XXXXXX", path[128];
		struct python_process process = { .runtime = 77 };
		struct error notice;
		struct program shell;

		assert_non_null(mkdtemp(folder));
		if (!compile(folder, row->name, row->source, path, sizeof(path))) {
			rmdir(folder);
			SKIP("no C compiler here");
		}
		shell = start_shell(path);
		EXPECT_EQ(row->rc, find(&shell, &process, &notice), row->what);
		EXPECT_EQ(row->notice ? -ENOTSUP : 0, notice.code, row->what);
		if (row->notice && !strstr(notice.text, row->notice))
			fail_msg("%s: \"%s\" does not name %s", row->what, notice.text,
				 row->notice);
		EXPECT_EQ(row->rc, find(&shell, &process, &notice), row->what);
		EXPECT_EQ(0, notice.code, row->what);
		EXPECT_EQ(77, process.runtime, row->what);
		stop(&shell);
		unlink(path);
		rmdir(folder);
	}
}

/* Its interpreters cannot be read, as those of a process that is stopped while it starts. */
#define HIDDEN_INTERPRETERS                                                                     \
	LOOP "unsigned Py_Version = 0x030b0000; unsigned long PyCode_Type[64] = { [4] = 184 };" \
	     "asm(\".bss; .balign 4096; .skip 4096 - 16; .globl _PyRuntime; .type "             \
	     "_PyRuntime,@object;"                                                              \
	     ".size _PyRuntime, 16; _PyRuntime: .skip 16 + 4096; .text\");"                     \
	     "extern char _PyRuntime[]; int mprotect(void *, unsigned long, int);"              \
	     "__attribute__((constructor)) void hide(void) { mprotect(_PyRuntime + 16, 4096, "  \
	     "0); }"

TEST(one_failed_process_does_not_refuse_its_build)
{
	char folder[] = "/tmp/cairn-runtime-XXXXXX", path[128];
	struct python_process process;
	struct error notice;
	struct program shell;

	assert_non_null(mkdtemp(folder));
	if (!compile(folder, "libpython3.11.so.1.0", HIDDEN_INTERPRETERS, path, sizeof(path))) {
		rmdir(folder);
		SKIP("no C compiler here");
	}
	shell = start_shell(path);
	for (int i = 0; i < 100; i++)
		EXPECT_EQ(-EAGAIN, find(&shell, &process, &notice), "asked again");
	stop(&shell);
	unlink(path);
	rmdir(folder);
}

/* tp_basicsize of PyCode_Type, and the version in _Py_DebugOffsets, are what a build was judged by. */
TEST(an_altered_process_does_not_refuse_its_build)
{
	static const char source[] = "import ctypes, os, time\n"
				     "code = type((lambda: 0).__code__)\n"
				     "ctypes.c_ssize_t.from_address(id(code) + 32).value = 7\n"
				     "os.write(1, b'1')\n"
				     "time.sleep(60)\n";

	find_pythons();
	if (!python_program_count)
		SKIP("no CPython here");
	for (uint32_t i = 0; i < python_program_count; i++) {
		const char *path = python_programs[i].path;
		const char *const altered_argv[] = { path, "-c", source, NULL };
		struct program altered = start(NULL, altered_argv), plain = start_python(path);
		struct python_process process;
		struct error notice;

		find(&altered, &process, &notice);
		int code = notice.code, rc = find(&plain, &process, &notice);
		stop(&altered); // before a failure: they would hold the test's output
		stop(&plain);
		EXPECT_EQ(0, code, path);
		EXPECT_EQ(0, rc, path);
	}
}

/* Twenty of one user. */
TEST(many_failed_processes_do_not_refuse_their_build)
{
	char folder[] = "/tmp/cairn-runtime-XXXXXX", path[128];
	int reported = 0;

	assert_non_null(mkdtemp(folder));
	if (!compile(folder, "libpython3.11.so.1.0", HIDDEN_INTERPRETERS, path, sizeof(path))) {
		rmdir(folder);
		SKIP("no C compiler here");
	}
	for (int i = 0; i < 20; i++) {
		struct program shell = start_shell(path);
		struct python_process process;
		struct error notice;

		int rc = find(&shell, &process, &notice);
		reported += notice.code != 0;
		stop(&shell);
		EXPECT_EQ(-EAGAIN, rc, "asked again later");
	}
	EXPECT_EQ(1, reported, "said once");
	unlink(path);
	rmdir(folder);
}

TEST(reports_an_exited_process)
{
	struct program python;
	struct python_process process;
	struct error notice;

	find_pythons();
	if (!python_program_count)
		SKIP("no CPython here");
	python = start_python(python_programs[0].path);
	kill(python.pid, SIGKILL);
	waitpid(python.pid, NULL, 0);
	assert_int_equal(-ESRCH, find(&python, &process, &notice));
	mapping_list_release(python.mappings);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

RUN_TESTS(CASE(finds_interpreters_and_recognizes_builds), CASE(other_programs_have_no_interpreter),
	  CASE(reports_an_unsupported_build_once),
	  CASE(one_failed_process_does_not_refuse_its_build),
	  CASE(an_altered_process_does_not_refuse_its_build),
	  CASE(many_failed_processes_do_not_refuse_their_build), CASE(reports_an_exited_process))
