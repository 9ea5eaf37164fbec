// SPDX-License-Identifier: Apache-2.0
// Code objects read from outside: of every interpreter of this machine, compared with its own
// introspection, and made-up hostile ones in this process's memory.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/process/process_memory.h"
#include "agent/python/python_code.h"
#include "agent/python/python_layout.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "tests/test.h"
#include "tests/unit/agent/python/python_heap.h"
#include "tests/unit/agent/python/pythons.h"

// ---- made-up objects ------------------------------------------------------------------------

static int read_made_up(const struct heap *heap, struct python_code *code)
{
	return python_code_read(getpid(), &heap->offsets, CODE_TYPE, address_of(heap, CODE_AT),
				code, NULL);
}

static const struct {
	const char *what;
	uint32_t minor;
	bool free_threaded;
} builds[] = {
	{ "3.6", 6, false },   { "3.7", 7, false },   { "3.8", 8, false },   { "3.9", 9, false },
	{ "3.10", 10, false }, { "3.11", 11, false }, { "3.12", 12, false }, { "3.13", 13, false },
	{ "3.14", 14, false }, { "3.13t", 13, true }, { "3.14t", 14, true },
};

static const struct {
	const char *what;
	uint32_t state;
	const void *characters;
	uint32_t count;
	const char *text;
} texts[] = {
	{ "ASCII", ASCII, "run", 3, "run" },
	{ "empty", ASCII, "", 0, "" },
	{ "Latin-1", LATIN, "caf\xe9", 4, "caf\u00e9" },
	{ "two bytes", WIDE, u"\u540d\u524d", 2, "\u540d\u524d" },
	{ "four bytes", WIDEST, U"\U0001f40d.py", 4, "\U0001f40d.py" },
	{ "a byte that was not UTF-8", WIDE, (const uint16_t[]){ 'a', 0xdcff }, 2, "a?" },
	{ "NUL", ASCII, "a\0b", 3, "a?b" },
	{ "beyond Unicode", WIDEST, (const uint32_t[]){ 'a', 0x110000, 0xffffffff }, 3, "a??" },
};

TEST(decodes_strings_of_all_kinds_and_versions)
{
	for EACH (build, builds) {
		struct heap heap;

		open_heap(&heap, build->minor, build->free_threaded);
		for EACH (text, texts) {
			struct python_code code;

			put_text(&heap, NAME_AT, text->state, text->characters, text->count);
			EXPECT_EQ(0, read_made_up(&heap, &code), build->what);
			EXPECT_STR(text->text, code.name, text->what);
			EXPECT_STR("f.py", code.file, build->what);
			EXPECT_EQ(checksum_of(10), code.checksum, build->what);
			EXPECT_EQ(10, code.lines.first_line, build->what);
			python_code_deinit(&code);
		}
		close_heap(&heap);
	}
}

/* A name whose characters are not behind its head. */
static void check_elsewhere(struct heap *heap, uint32_t name_at, const char *what)
{
	struct python_code code;
	uint32_t pointer_at = put_text(heap, name_at, NOT_COMPACT, "", 0);

	put_u64(heap, pointer_at, address_of(heap, ELSEWHERE_AT));
	put_u64(heap, name_at + heap->head, 9);
	memcpy(heap->bytes + ELSEWHERE_AT, "elsewhere", 9);
	put_u64(heap, CODE_AT + heap->offsets.code_name, address_of(heap, name_at));
	EXPECT_EQ(0, read_made_up(heap, &code), what);
	EXPECT_STR("elsewhere", code.name, what);
	python_code_deinit(&code);
}

TEST(follows_the_pointer_to_characters)
{
	for EACH (build, builds) {
		struct heap heap;

		open_heap(&heap, build->minor, build->free_threaded);
		check_elsewhere(&heap, NAME_AT, build->what);
		// The head ends just where a page does, the pointer is on the next one.
		check_elsewhere(&heap, 10 * PAGE - heap.head - (build->minor < 12 ? 32 : 24),
				build->what);
		close_heap(&heap);
	}
}

TEST(reads_objects_at_the_end_of_mappings)
{
	for EACH (build, builds) {
		struct python_code code;
		struct heap heap;
		uint32_t end = PAGES * PAGE;

		open_heap(&heap, build->minor, build->free_threaded);
		uint32_t head = heap.head + (build->minor < 12 ? 32 : 24);

		put_text(&heap, end - head - 1, ASCII, "g", 1);
		put_u64(&heap, CODE_AT + heap.offsets.code_name, address_of(&heap, end - head - 1));
		EXPECT_EQ(0, read_made_up(&heap, &code), build->what);
		EXPECT_STR("g", code.name, build->what);
		python_code_deinit(&code);

		// An empty line table.
		memset(heap.bytes + end - heap.head - 16, 0, heap.head + 16);
		put_u64(&heap, CODE_AT + heap.offsets.code_name, address_of(&heap, NAME_AT));
		put_u64(&heap, CODE_AT + heap.offsets.code_lines,
			address_of(&heap, end - heap.head - 16));
		EXPECT_EQ(0, read_made_up(&heap, &code), build->what);
		EXPECT_EQ(0, code.lines.rows[0].start, build->what);
		python_code_deinit(&code);
		close_heap(&heap);
	}
}

/* One word of the made-up objects, replaced. Places are of 3.12: heads of 16 bytes. */
enum place {
	PLACE_TYPE,
	PLACE_NAME,
	PLACE_FILE,
	PLACE_LINES,
	PLACE_NAME_LENGTH,
	PLACE_FILE_LENGTH,
	PLACE_NAME_STATE,
	PLACE_LINES_SIZE,
};

static const uint64_t NOWHERE = 0x10;

static const struct {
	const char *what;
	enum place place;
	uint64_t word;
	int rc;
} lies[] = {
	{ "no code object", PLACE_TYPE, 0x4560, -EBADMSG },
	{ "name: NULL", PLACE_NAME, 0, -EFAULT },
	{ "name: nowhere", PLACE_NAME, NOWHERE, -EFAULT },
	{ "name: kernel memory", PLACE_NAME, 0xffffffff81000000, -EFAULT },
	{ "name: the last byte of all", PLACE_NAME, UINT64_MAX, -EFAULT },
	{ "file: nowhere", PLACE_FILE, NOWHERE, -EFAULT },
	{ "lines: nowhere", PLACE_LINES, NOWHERE, -EFAULT },
	{ "lines: the last byte of all", PLACE_LINES, UINT64_MAX, -EFAULT },
	{ "name of 2^62 characters is cut", PLACE_NAME_LENGTH, 1ULL << 62, 0 },
	{ "name of -1 characters is cut", PLACE_NAME_LENGTH, UINT64_MAX, 0 },
	{ "file of 2^62 characters is cut", PLACE_FILE_LENGTH, 1ULL << 62, 0 },
	{ "table of 2^62 bytes is not read", PLACE_LINES_SIZE, 1ULL << 62, 0 },
	{ "table of -1 bytes is not read", PLACE_LINES_SIZE, UINT64_MAX, 0 },
	{ "table that is longer than what is mapped", PLACE_LINES_SIZE, PAGES *PAGE, -EFAULT },
	{ "characters of 3 bytes", PLACE_NAME_STATE, (0x08 | 3) << 2, -EBADMSG },
	{ "characters of 0 bytes", PLACE_NAME_STATE, 0, -EBADMSG },
	{ "ASCII of 4 bytes", PLACE_NAME_STATE, (0x18 | 4) << 2, -EBADMSG },
};

static uint32_t place_at(const struct heap *heap, enum place place)
{
	const struct python_offsets *offsets = &heap->offsets;

	switch (place) {
	case PLACE_TYPE:
		return CODE_AT + offsets->code_start + offsets->code_type;
	case PLACE_NAME:
		return CODE_AT + offsets->code_name;
	case PLACE_FILE:
		return CODE_AT + offsets->code_file;
	case PLACE_LINES:
		return CODE_AT + offsets->code_lines;
	case PLACE_NAME_LENGTH:
		return NAME_AT + heap->head;
	case PLACE_FILE_LENGTH:
		return FILE_AT + heap->head;
	case PLACE_NAME_STATE:
		return NAME_AT + heap->head + 16;
	case PLACE_LINES_SIZE:
		return LINES_AT + heap->head;
	}
	return 0;
}

TEST(refuses_or_cuts_lying_memory)
{
	for EACH (lie, lies) {
		struct python_code code = { 0 };
		struct heap heap;

		open_heap(&heap, 12, false);
		put_u64(&heap, place_at(&heap, lie->place), lie->word);
		EXPECT_EQ(lie->rc, read_made_up(&heap, &code), lie->what);
		if (lie->rc) {
			assert_null(code.name);
		} else {
			assert_true(strlen(code.name) <= PYTHON_NAME_BYTES_MAX);
			assert_true(strlen(code.file) <= PYTHON_FILE_BYTES_MAX);
		}
		python_code_deinit(&code);
		close_heap(&heap);
	}
}

TEST(reports_bytes_read_on_failure)
{
	struct python_code code;
	struct heap heap;
	uint32_t bytes = 0;

	open_heap_of(&heap, 12, false, 64 * PAGE);
	// A table whose end is not mapped: all but that is read in vain.
	put_u64(&heap, place_at(&heap, PLACE_LINES_SIZE), 60 * PAGE);
	EXPECT_EQ(-EFAULT,
		  python_code_read(getpid(), &heap.offsets, CODE_TYPE, address_of(&heap, CODE_AT),
				   &code, &bytes),
		  "cut off");
	assert_in_range(bytes, 60 * PAGE, 64 * PAGE);
	EXPECT_EQ(-EFAULT,
		  python_code_read(getpid(), &heap.offsets, CODE_TYPE, NOWHERE, &code, &bytes),
		  "nowhere");
	assert_in_range(bytes, 1, PAGE);
	close_heap(&heap);
}

TEST(survives_objects_that_are_the_same)
{
	struct python_code code = { 0 };
	struct heap heap;

	open_heap(&heap, 12, false);
	for (enum place place = PLACE_NAME; place <= PLACE_LINES; place++)
		put_u64(&heap, place_at(&heap, place), address_of(&heap, CODE_AT));
	// The result is senseless, but within bounds.
	int rc = read_made_up(&heap, &code);
	assert_true(rc == 0 || rc == -EBADMSG || rc == -EFAULT);
	python_code_deinit(&code);
	close_heap(&heap);
}

TEST(refuses_code_at_unmapped_addresses)
{
	struct python_code code = { 0 };
	struct heap heap;

	open_heap(&heap, 12, false);
	const uint64_t addresses[] = {
		0,          NOWHERE,
		UINT64_MAX, 0xffffffff81000000,
		1ULL << 63, address_of(&heap, PAGES * PAGE - 8),
	};

	for EACH (address, addresses)
		EXPECT_EQ(
			-EFAULT,
			python_code_read(getpid(), &heap.offsets, CODE_TYPE, *address, &code, NULL),
			"address");
	EXPECT_EQ(-ESRCH,
		  python_code_read(0x3fffff, &heap.offsets, CODE_TYPE, NOWHERE, &code, NULL),
		  "no such process");
	close_heap(&heap);
}

TEST(refuses_offsets_beyond_a_code_object)
{
	struct python_code code = { 0 };
	struct heap heap;

	open_heap(&heap, 12, false);
	heap.offsets.code_name = PYTHON_NO_FIELD;
	EXPECT_EQ(-EBADMSG, read_made_up(&heap, &code), "name");
	heap.offsets.code_name = heap.offsets.code_file;
	heap.offsets.code_start = 1000;
	EXPECT_EQ(-EBADMSG, read_made_up(&heap, &code), "counts");
	set_offsets(&heap, 12, false);
	heap.offsets.code_firstlineno = PYTHON_CODE_BYTES - 3;
	EXPECT_EQ(-EBADMSG, read_made_up(&heap, &code), "one count");
	set_offsets(&heap, 12, false);
	heap.offsets.code_marks[1] = PYTHON_NO_FIELD;
	EXPECT_EQ(-EBADMSG, read_made_up(&heap, &code), "a mark");
	set_offsets(&heap, 12, false);
	EXPECT_EQ(0, read_made_up(&heap, &code), "none");
	python_code_deinit(&code);
	close_heap(&heap);
}

TEST(an_unknown_type_is_not_checked)
{
	struct python_code code;
	struct heap heap;

	open_heap(&heap, 12, false);
	EXPECT_EQ(0,
		  python_code_read(getpid(), &heap.offsets, 0, address_of(&heap, CODE_AT), &code,
				   NULL),
		  "code type 0");
	EXPECT_STR("f", code.name, "name");
	python_code_deinit(&code);
	close_heap(&heap);
}

// ---- memory that changes --------------------------------------------------------------------

struct flipper {
	struct heap heap;
	volatile bool stop;
};

/* Lengths and kinds change all the time, long and short, wide and narrow. */
static void *flip(void *argument)
{
	struct flipper *flipper = argument;
	const uint32_t states[] = { ASCII, WIDE, WIDEST, LATIN, 0 };

	for (uint32_t i = 0; !flipper->stop; i++) {
		put_u32(&flipper->heap, place_at(&flipper->heap, PLACE_NAME_STATE),
			states[i % 5] << 2);
		put_u64(&flipper->heap, place_at(&flipper->heap, PLACE_NAME_LENGTH), i % 3000);
		put_u64(&flipper->heap, place_at(&flipper->heap, PLACE_LINES_SIZE),
			i * 7919 % (2 * PAGE));
	}
	return NULL;
}

TEST(changing_strings_stay_within_bounds)
{
	struct flipper flipper = { 0 };
	pthread_t thread;
	uint32_t good = 0;

	open_heap(&flipper.heap, 12, false);
	memset(flipper.heap.bytes + NAME_AT + 100, 0xff, PAGE - 100);
	assert_int_equal(0, pthread_create(&thread, NULL, flip, &flipper));
	for (uint32_t i = 0; i < 20000; i++) {
		struct python_code code;

		if (read_made_up(&flipper.heap, &code) != 0)
			continue;
		good++;
		assert_true(strlen(code.name) <= PYTHON_NAME_BYTES_MAX);
		assert_true(utf8_is_valid(code.name, strlen(code.name)));
		python_code_deinit(&code);
	}
	flipper.stop = true;
	pthread_join(thread, NULL);
	assert_true(good > 100);
	close_heap(&flipper.heap);
}

// ---- the real thing -------------------------------------------------------------------------

struct live {
	FILE *output;
	int pid;
	unsigned minor;
	uint64_t code_type;
	struct python_offsets offsets;
};

static void read_offsets(struct live *live, uint64_t runtime)
{
	uint8_t bytes[PYTHON_DEBUG_OFFSETS_BYTES];
	struct python_layout layout;
	struct error err = { 0 };

	if (live->minor < PYTHON_MINOR_DEBUG_OFFSETS) {
		assert_int_equal(0, python_layout_of_version(live->minor, &layout));
	} else {
		assert_int_equal(0, process_memory_read(live->pid, runtime, bytes, sizeof(bytes)));
		EXPECT_EQ(0, python_layout_of_debug_offsets(bytes, sizeof(bytes), &layout, &err),
			  err.text);
	}
	live->offsets = layout.offsets;
}

static void start(struct live *live, const struct python_program *python)
{
	char command[PYTHON_PATH_BYTES + 128];
	unsigned long long runtime, code_type;

	snprintf(command, sizeof(command), "exec '%.511s' tests/python/show_code.py", python->path);
	live->output = popen(command, "re");
	assert_non_null(live->output);
	assert_int_equal(4, fscanf(live->output, "process %d %u %llx %llx\n", &live->pid,
				   &live->minor, &runtime, &code_type));
	live->code_type = code_type;
	read_offsets(live, runtime);
}

static void stop(struct live *live)
{
	kill(live->pid, SIGKILL);
	pclose(live->output);
}

/* Every instruction of "units:line,units:line". Returns how many. */
static uint32_t check_lines(const struct python_line_table *lines, const char *runs,
			    const char *what)
{
	uint32_t at = 0, units, line;
	int used;

	for (; sscanf(runs, "%u:%u%n", &units, &line, &used) == 2; runs += used) {
		for (uint32_t limit = at + units; at < limit; at++)
			EXPECT_EQ(line, python_line_table_find(lines, at), what);
		if (runs[used] == ',')
			used++;
	}
	EXPECT_EQ(0, *runs, what);
	return at;
}

/* The interpreter's own numbers of a code object. */
struct shown_code {
	unsigned long long address, code, consts, names;
	uint32_t argcount, kwonlyargcount, flags, first_line;
};

static uint32_t checksum_shown(const struct live *live, const struct shown_code *shown)
{
	uint64_t mark = live->minor <= 10 ? shown->code : shown->consts;
	uint64_t other = live->minor <= 10 ? shown->consts : shown->names;
	uint32_t version;

	// co_version cannot be asked for in Python.
	if (live->minor >= 12) {
		assert_int_equal(0,
				 process_memory_read(live->pid,
						     shown->address + live->offsets.code_start + 84,
						     &version, sizeof(version)));
		other = version;
	}
	return python_checksum(shown->argcount, shown->kwonlyargcount, shown->flags,
			       shown->first_line, (uint32_t)mark, (uint32_t)other);
}

static uint32_t check_code(const struct live *live, char *text)
{
	char *name = strchr(text, '\t'), *file = name ? strchr(name + 1, '\t') : NULL;
	char *runs = file ? strchr(file + 1, '\t') : NULL;
	struct shown_code shown;
	struct python_code code;

	assert_non_null(runs);
	*name++ = *file++ = *runs++ = 0;
	assert_int_equal(8, sscanf(text, "%llx %u %u %u %u %llx %llx %llx", &shown.address,
				   &shown.argcount, &shown.kwonlyargcount, &shown.flags,
				   &shown.first_line, &shown.code, &shown.consts, &shown.names));
	EXPECT_EQ(0,
		  python_code_read(live->pid, &live->offsets, live->code_type, shown.address, &code,
				   NULL),
		  name);
	EXPECT_STR(name, code.name, "name");
	EXPECT_STR(file, code.file, "file");
	EXPECT_EQ(shown.first_line, code.lines.first_line, name);
	EXPECT_EQ(checksum_shown(live, &shown), code.checksum, name);
	uint32_t units = check_lines(&code.lines, runs, name);

	python_code_deinit(&code);
	return units;
}

static void check_python(const struct python_program *python)
{
	_cleanup_free_ char *text = NULL;
	struct live live;
	uint32_t codes = 0, units = 0;
	size_t size = 0;
	ssize_t length;

	start(&live, python);
	while ((length = getline(&text, &size, live.output)) > 0) {
		text[length - 1] = 0;
		if (!strcmp(text, "end"))
			break;
		units += check_code(&live, text);
		codes++;
	}
	EXPECT_STR("end", text ? text : "", python->path);
	stop(&live);
	printf("3.%u: %u code objects, %u instructions\n", python->minor, codes, units);
	assert_true(codes > 500);
}

TEST(reads_code_objects_of_each_interpreter)
{
	find_pythons();
	if (!python_program_count)
		SKIP("no CPython 3.6 or newer here");
	for (unsigned i = 0; i < python_program_count; i++)
		check_python(&python_programs[i]);
}

RUN_TESTS(cmocka_unit_test(decodes_strings_of_all_kinds_and_versions),
	  cmocka_unit_test(follows_the_pointer_to_characters),
	  cmocka_unit_test(reads_objects_at_the_end_of_mappings),
	  cmocka_unit_test(refuses_or_cuts_lying_memory),
	  cmocka_unit_test(reports_bytes_read_on_failure),
	  cmocka_unit_test(survives_objects_that_are_the_same),
	  cmocka_unit_test(refuses_code_at_unmapped_addresses),
	  cmocka_unit_test(refuses_offsets_beyond_a_code_object),
	  cmocka_unit_test(an_unknown_type_is_not_checked),
	  cmocka_unit_test(changing_strings_stay_within_bounds),
	  cmocka_unit_test(reads_code_objects_of_each_interpreter))
