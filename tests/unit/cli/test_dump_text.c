// SPDX-License-Identifier: Apache-2.0
// The words and the JSON for a dump that is made up here, hostile names among them.
#include "cli/dump_text.h"

#include <jansson.h>
#include <stdlib.h>

#include "cli/dump_json.h"
#include "tests/test.h"

/* ---- a dump -------------------------------------------------------------------------------- */

static struct dump_summary summary;
static struct dump_thread threads[16];
static struct thread people[16];
static uint32_t thread_count;

const struct dump_summary *process_dump_summary(const struct process_dump *dump)
{
	(void)dump;
	return &summary;
}

const struct dump_thread *process_dump_threads(const struct process_dump *dump, uint32_t *ret_count)
{
	(void)dump;
	*ret_count = thread_count;
	return threads;
}

const char *wait_kind_name(enum wait_kind kind)
{
	return kind == WAIT_GIL ? "gil" : "nothing";
}

static struct dump_frame python_frame = {
	.kind = FRAME_KIND_PYTHON,
	.name = "Worker.run",
	.file = "/usr/lib/python3.11/threading.py",
	.line = 12,
	.module = "",
	.build_id = "",
};
static struct dump_frame native_frame = {
	.kind = FRAME_KIND_NATIVE,
	.name = "read",
	.module = "/lib/x86_64-linux-gnu/libc.so.6",
	.build_id = "abcd",
	.address = 0x7f0000001234,
	.offset = 0x1234,
	.file = "",
};

static struct dump_thread *add_thread(pid_t tid, const char *name, struct dump_frame *frames,
				      uint32_t count)
{
	struct thread *person = &people[thread_count];
	struct dump_thread *thread = &threads[thread_count++];

	*person = (struct thread){ .tid = tid, .namespace_tid = tid, .state = 'S' };
	snprintf(person->name, sizeof(person->name), "%s", name);
	*thread = (struct dump_thread){
		.thread = person,
		.frames = frames,
		.frame_count = count,
		.has_stack = true,
		.consistent = true,
		.wait = { .kind = WAIT_FILE, .fd = -1, .syscall = SYSCALL_NONE },
	};
	strcpy(thread->wait.text, "waits");
	return thread;
}

static int begin(void **state)
{
	(void)state;
	summary = (struct dump_summary){
		.pid = 7, .namespace_pid = 7, .name = "server", .paused = true
	};
	thread_count = 0;
	return 0;
}

static void expect_text(const struct dump_text_options *options, const char *expected,
			const char *what)
{
	struct buffer text = { 0 };

	dump_text_write(NULL, options, &text);
	EXPECT_STR(expected, buffer_string(&text), what);
	buffer_deinit(&text);
}

static const struct dump_text_options plain;

/* ---- text ---------------------------------------------------------------------------------- */

static struct dump_frame changed(struct dump_frame frame, const char *name, const char *file,
				 uint32_t line)
{
	frame.name = name;
	frame.file = file;
	frame.line = line;
	return frame;
}

TEST(formats_each_frame_kind)
{
	struct dump_frame inlined = changed(native_frame, "inner", "/src/lib/inner.c", 7);
	struct dump_frame frames[] = {
		{ .kind = FRAME_KIND_KERNEL, .name = "vfs_read", .module = "[kernel]", .file = "" },
		inlined,
		changed(native_frame, "outer", "/src/lib/outer.c", 8),
		changed(native_frame, "plain", "", 0),
		changed(native_frame, "", "", 0),
		{ .kind = FRAME_KIND_JIT,
		  .name = "",
		  .module = "[anon]",
		  .address = 0x10,
		  .file = "" },
		{ .kind = FRAME_KIND_JIT, .name = "LazyCompile:~f", .module = "[jit]", .file = "" },
		python_frame,
		changed(python_frame, "f", "/srv/app.py", 0),
		changed(python_frame, "g", "", 0),
	};

	frames[1].inlined = true;
	add_thread(7, "server", frames, sizeof(frames) / sizeof(*frames));
	expect_text(&plain,
		    "Process 7 \"server\", 1 thread\n"
		    "\n"
		    "Thread 7 \"server\" S: waits\n"
		    "  vfs_read [kernel]\n"
		    "  inner (inlined) inner.c:7\n"
		    "  outer (libc.so.6) outer.c:8\n"
		    "  plain (libc.so.6)\n"
		    "  libc.so.6+0x1234\n"
		    "  0x10 ([anon])\n"
		    "  LazyCompile:~f ([jit])\n"
		    "  Worker.run (threading.py:12)\n"
		    "  f (/srv/app.py)\n"
		    "  g\n"
		    "\n"
		    "[anon] is JIT code without names: its process can list them (node "
		    "--perf-basic-prof, jcmd PID Compiler.perfmap; docs/interpret.md)\n",
		    "all kinds");
}

TEST(shows_stack_ends_and_states)
{
	struct dump_thread *thread = add_thread(7, "cut", &native_frame, 1);

	thread->end = STACK_END_NO_TABLE;
	thread = add_thread(8, "runs", NULL, 0);
	thread->has_stack = false;
	thread = add_thread(9, "torn", &native_frame, 1);
	thread->consistent = false;
	thread = add_thread(10, "gone", NULL, 0);
	thread->has_stack = false;
	people[3].state = 'Z';
	thread = add_thread(11, "gil", &python_frame, 1);
	thread->holds_gil = true;
	summary.threads_left_out = 3;
	expect_text(
		&plain,
		"Process 7 \"server\", 5 threads\n"
		"\nThread 7 \"cut\" S: waits\n  read (libc.so.6)\n  [truncated: no unwind table]\n"
		"\nThread 8 \"runs\" S: waits\n  [no stack: the thread ran and was not paused]\n"
		"\nThread 9 \"torn\" S: waits\n  read (libc.so.6)\n"
		"  [the thread ran meanwhile: the stack may be inconsistent]\n"
		"\nThread 10 \"gone\" Z: waits\n"
		"\nThread 11 \"gil\" S: waits; holds the GIL\n  Worker.run (threading.py:12)\n"
		"\n3 more threads omitted\n",
		"all ends");
}

TEST(shows_notices_first)
{
	add_thread(7, "x", &native_frame, 1);
	summary.paused = false;
	strcpy(summary.pause_error, "a debugger has it");
	strcpy(summary.python_error, "Python 3.99 is not known");
	strcpy(summary.executable, "/srv/x");
	summary.namespace_pid = 1;
	people[0].namespace_tid = 1;
	expect_text(&plain,
		    "Process 7 \"server\" (1 inside), /srv/x, 1 thread\n"
		    "not paused, running threads have no stack: a debugger has it\n"
		    "Python 3.99 is not known\n"
		    "\nThread 7 (1 inside) \"x\" S: waits\n  read (libc.so.6)\n",
		    "notices");
}

TEST(folds_only_equal_threads)
{
	struct dump_frame other = changed(native_frame, "write", "", 0);
	const struct dump_text_options all = { .all = true };

	add_thread(7, "a", &native_frame, 1);
	add_thread(8, "other", &other, 1);
	add_thread(9, "b", &native_frame, 1);
	add_thread(10, "c", &native_frame, 1)->wait.kind = WAIT_TIME;
	add_thread(11, "d", &native_frame, 1);
	expect_text(&plain,
		    "Process 7 \"server\", 5 threads\n"
		    "\nThread 7 \"a\" S: waits\n  read (libc.so.6)\n"
		    "  and so 9 \"b\", 11 \"d\": 3 threads with this stack; --all shows each\n"
		    "\nThread 8 \"other\" S: waits\n  write (libc.so.6)\n"
		    "\nThread 10 \"c\" S: waits\n  read (libc.so.6)\n",
		    "folded");
	thread_count = 3;
	expect_text(&all,
		    "Process 7 \"server\", 3 threads\n"
		    "\nThread 7 \"a\" S: waits\n  read (libc.so.6)\n"
		    "\nThread 8 \"other\" S: waits\n  write (libc.so.6)\n"
		    "\nThread 9 \"b\" S: waits\n  read (libc.so.6)\n",
		    "all");
}

TEST(counts_many_equal_threads)
{
	for (int i = 0; i < 12; i++)
		add_thread(i + 1, "x", &native_frame, 1);
	expect_text(&plain,
		    "Process 7 \"server\", 12 threads\n"
		    "\nThread 1 \"x\" S: waits\n  read (libc.so.6)\n"
		    "  and so 2 \"x\", 3 \"x\", 4 \"x\", 5 \"x\", 6 \"x\", 7 \"x\", 8 \"x\", 9 "
		    "\"x\" and 3 more: "
		    "12 threads with this stack; --all shows each\n",
		    "twelve");
}

TEST(shows_only_python_frames)
{
	const struct dump_text_options python = { .python_only = true };
	struct dump_frame frames[] = { native_frame, python_frame, native_frame };

	add_thread(7, "both", frames, 3);
	add_thread(8, "native", frames, 1);
	expect_text(&python,
		    "Process 7 \"server\", 2 threads\n"
		    "\nThread 7 \"both\" S: waits\n  Worker.run (threading.py:12)\n"
		    "\nThread 8 \"native\" S: waits\n  (no Python frames)\n",
		    "Python only");
}

TEST(escapes_terminal_sequences)
{
	struct dump_frame frames[] = {
		changed(python_frame, "\033[2J\nThread 1", "\a.py", 1),
		changed(native_frame, "a\xff\x80z", "", 0),
	};
	const struct dump_text_options colour = { .colour = true };

	frames[1].module = "/tmp/\033]0;x\007/lib\n.so";
	add_thread(7, "x", frames, 2);
	expect_text(&plain,
		    "Process 7 \"server\", 1 thread\n"
		    "\nThread 7 \"x\" S: waits\n"
		    "  ?[2J?Thread 1 (?.py:1)\n"
		    "  a??z (lib?.so)\n",
		    "cleaned");
	expect_text(&colour,
		    "Process 7 \"server\", 1 thread\n"
		    "\n\033[1mThread 7 \"x\"\033[0m S: waits\n"
		    "  \033[32m?[2J?Thread 1 (?.py:1)\033[0m\n"
		    "  a??z (lib?.so)\n",
		    "our own colours stay");
}

static const struct {
	const char *what;
	const char *path;
	const char *shown;
} paths[] = {
	{ "the standard library", "/usr/lib/python3.11/asyncio/events.py", "asyncio/events.py" },
	{ "pyenv's", "/opt/pyenv/versions/3.6.15/lib/python3.6/threading.py", "threading.py" },
	{ "a package", "/venv/lib/python3.11/site-packages/torch/nn/modules/module.py",
	  "torch/nn/modules/module.py" },
	{ "Debian's packages", "/usr/lib/python3/dist-packages/yaml/__init__.py",
	  "yaml/__init__.py" },
	{ "a program", "/srv/app/main.py", "/srv/app/main.py" },
	{ "frozen", "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap>" },
	{ "nothing behind it", "/lib/python3.11", "/lib/python3.11" },
	{ "empty", "", "" },
};

TEST(shortens_library_paths)
{
	for EACH (c, paths)
		EXPECT_STR(c->shown, dump_text_short_path(c->path), c->what);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static json_t *written(bool python_only)
{
	struct buffer text = { 0 };
	json_error_t error;

	EXPECT_EQ(0, dump_json_write(NULL, python_only, &text), "written");
	json_t *object = json_loads(buffer_string(&text), 0, &error);
	if (!object)
		fail_msg("%s: %s", error.text, buffer_string(&text));
	buffer_deinit(&text);
	return object;
}

static void expect_member(const json_t *object, const char *name, const char *expected)
{
	char *text = json_dumps(json_object_get(object, name), JSON_ENCODE_ANY | JSON_COMPACT);

	EXPECT_STR(expected, text ? text : "nothing", name);
	free(text);
}

TEST(json_has_documented_fields)
{
	struct dump_frame frames[] = { native_frame, python_frame };
	struct dump_thread *thread = add_thread(8, "x", frames, 2);

	frames[0].inlined = true;
	thread->wait = (struct thread_wait){ .kind = WAIT_GIL,
					     .fd = 3,
					     .syscall = 202,
					     .call = "futex",
					     .address = 0xff,
					     .owner = 9,
					     .text = "waits" };
	json_t *object = written(false);
	const json_t *first = json_array_get(json_object_get(object, "threads"), 0);
	const json_t *wait = json_object_get(first, "wait");
	const json_t *native = json_array_get(json_object_get(first, "frames"), 0);
	const json_t *python = json_array_get(json_object_get(first, "frames"), 1);

	expect_member(object, "version", "1");
	expect_member(object, "pid", "7");
	expect_member(object, "paused", "true");
	expect_member(object, "pause_error", "nothing");
	expect_member(first, "tid", "8");
	expect_member(first, "state", "\"S\"");
	expect_member(first, "end", "\"complete\"");
	expect_member(wait, "kind", "\"gil\"");
	expect_member(wait, "call", "\"futex\"");
	expect_member(wait, "address", "\"0xff\"");
	expect_member(wait, "owner", "9");
	expect_member(wait, "fd", "3");
	expect_member(native, "address", "\"0x7f0000001234\"");
	expect_member(native, "offset", "\"0x1234\"");
	expect_member(native, "inlined", "true");
	expect_member(python, "line", "12");
	expect_member(python, "offset", "nothing");
	expect_member(python, "inlined", "nothing");
	json_decref(object);
}

TEST(json_is_valid_for_hostile_names)
{
	struct dump_frame frames[] = { changed(native_frame, "a\xff\"\n\x01", "\xc0\xaf", 1) };

	add_thread(7, "x", frames, 1);
	json_t *object = written(false);
	const json_t *frame = json_array_get(
		json_object_get(json_array_get(json_object_get(object, "threads"), 0), "frames"),
		0);
	EXPECT_STR("a?\"\n\x01", json_string_value(json_object_get(frame, "name")), "a name");
	EXPECT_STR("??", json_string_value(json_object_get(frame, "file")), "a file");
	json_decref(object);
}

TEST(json_shows_only_python_frames)
{
	struct dump_frame frames[] = { native_frame, python_frame };

	add_thread(7, "x", frames, 2);
	json_t *object = written(true);
	const json_t *first = json_array_get(json_object_get(object, "threads"), 0);
	EXPECT_EQ(1, json_array_size(json_object_get(first, "frames")), "frames");
	json_decref(object);
}

#define CASE(test) cmocka_unit_test_setup(test, begin)

RUN_TESTS(CASE(formats_each_frame_kind), CASE(shows_stack_ends_and_states),
	  CASE(shows_notices_first), CASE(folds_only_equal_threads),
	  CASE(counts_many_equal_threads), CASE(shows_only_python_frames),
	  CASE(escapes_terminal_sequences), CASE(shortens_library_paths),
	  CASE(json_has_documented_fields), CASE(json_is_valid_for_hostile_names),
	  CASE(json_shows_only_python_frames))
