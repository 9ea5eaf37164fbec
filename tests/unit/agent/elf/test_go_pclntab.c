// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/go_pclntab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "tests/test.h"
#include "tests/unit/agent/elf/section_file.h"

#define MAGIC_1_2  0xfffffffbU
#define MAGIC_1_16 0xfffffffaU
#define MAGIC_1_18 0xfffffff0U
#define MAGIC_1_20 0xfffffff1U

enum { TABLE_BYTES = 4096, FUNCTIONS_MAX = 8, ROWS_MAX = 64 };

/* Where the parts of the tables that we write begin. */
enum { NAMES_AT = 0x100, FILES_AT = 0x300, CU_AT = 0x3c0, PC_AT = 0x400, FUNCTIONS_AT = 0x600 };

/* One function as the linker would write it. The value tables are in bytes as encoded. */
struct source {
	const char *name;
	uint32_t size;
	uint8_t flag;
	uint8_t pcsp[24]; // empty: it has none
};

struct table {
	uint8_t bytes[TABLE_BYTES];
	uint32_t magic;
	uint32_t names, pc; // used so far
};

static void put32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
}

static void put64(uint8_t *at, uint64_t value)
{
	memcpy(at, &value, sizeof(value));
}

static uint32_t add_pc(struct table *table, const uint8_t *values, size_t size)
{
	uint32_t at = table->pc;

	memcpy(table->bytes + PC_AT + at, values, size);
	table->pc += (uint32_t)size;
	return table->magic == MAGIC_1_2 ? at + PC_AT : at;
}

static uint32_t add_name(struct table *table, const char *name)
{
	uint32_t at = table->names;

	strcpy((char *)table->bytes + NAMES_AT + at, name);
	table->names += (uint32_t)strlen(name) + 1;
	return table->magic == MAGIC_1_2 ? at + NAMES_AT : at;
}

static bool is_relative(const struct table *table)
{
	return table->magic == MAGIC_1_18 || table->magic == MAGIC_1_20;
}

static void write_header(struct table *table, uint32_t count)
{
	const uint64_t places[] = { NAMES_AT, CU_AT, FILES_AT, PC_AT, FUNCTIONS_AT };
	uint8_t *at = table->bytes + 8;

	put32(table->bytes, table->magic);
	table->bytes[6] = 1;
	table->bytes[7] = 8;
	put64(at, count);
	if (table->magic == MAGIC_1_2)
		return;
	put64(at + 8, 1);
	at += 16;
	if (is_relative(table)) {
		put64(at, SECTION_FILE_ADDRESS);
		at += 8;
	}
	for (size_t i = 0; i < 5; i++)
		put64(at + 8 * i, places[i]);
}

static void write_functions(struct table *table, const struct source *sources, uint32_t count)
{
	static const uint8_t line_steps[] = { 2 * 11, 8, 2 * 5, 200, 1, 0 }; // 10, 15 from pc 8
	static const uint8_t file_steps[] = { 4, 200, 1, 0 };                // 1
	bool relative = is_relative(table);
	uint32_t field = relative ? 4 : 8;
	uint32_t functab = table->magic == MAGIC_1_2 ? 16 : FUNCTIONS_AT;
	uint32_t funcdata = table->magic == MAGIC_1_2 ? 0 : FUNCTIONS_AT;
	uint32_t record = 0x100 + (table->magic == MAGIC_1_2 ? FUNCTIONS_AT : 0);
	uint64_t address = relative ? 0 : SECTION_FILE_ADDRESS;

	add_pc(table, (const uint8_t *)"", 1); // place 0 means that there is none
	for (uint32_t i = 0; i < count; i++) {
		uint8_t *entry = table->bytes + functab + 2 * field * i;
		uint8_t *at = table->bytes + funcdata + record;

		put32(entry, (uint32_t)address);
		put32(entry + field, record);
		put32(at, (uint32_t)address);
		at += field;
		put32(at, add_name(table, sources[i].name));
		if (sources[i].pcsp[0])
			put32(at + 12, add_pc(table, sources[i].pcsp, sizeof(sources[i].pcsp)));
		put32(at + 16, add_pc(table, file_steps, sizeof(file_steps)));
		put32(at + 20, add_pc(table, line_steps, sizeof(line_steps)));
		if (table->magic != MAGIC_1_2)
			at[table->magic == MAGIC_1_20 ? 37 : 33] = sources[i].flag;
		address += sources[i].size;
		record += 64;
	}
	put32(table->bytes + functab + 2 * field * count, (uint32_t)address);
	if (table->magic == MAGIC_1_2)
		put32(table->bytes + functab + 2 * field * count + 8, FILES_AT);
}

static void write_files(struct table *table)
{
	strcpy((char *)table->bytes + FILES_AT + 0x20, "/src/a.go");
	if (table->magic == MAGIC_1_2)
		put32(table->bytes + FILES_AT + 4, FILES_AT + 0x20);
	else
		put32(table->bytes + CU_AT + 4, 0x20);
}

static void table_init(struct table *table, uint32_t magic, const struct source *sources,
		       uint32_t count)
{
	memset(table, 0, sizeof(*table));
	table->magic = magic;
	write_header(table, count);
	write_functions(table, sources, count);
	write_files(table);
}

static int table_open(const struct table *table, size_t size)
{
	struct section_file file;

	section_file_new(&file);
	section_file_add(&file, ".gopclntab", SHT_PROGBITS, table->bytes, size);
	return section_file_close(&file);
}

struct rows {
	struct go_row rows[ROWS_MAX];
	uint32_t count;
	uint32_t wanted; // stop after so many
};

static int keep_row(void *context, const struct go_row *row)
{
	struct rows *rows = context;

	assert_true(rows->count < ROWS_MAX);
	rows->rows[rows->count++] = *row;
	return rows->count == rows->wanted ? 77 : 0;
}

/* Delta 0; 8 from byte 1 on; 0x48 from byte 4 on; 0 from byte 28 on; to byte 32. */
#define PUSHES                                          \
	{                                               \
		2, 1, 16, 3, 0x80, 1, 24, 0x8f, 1, 4, 0 \
	}

static const struct source sources[] = {
	{ "main.(*T).Method", 32, 0, PUSHES },
	{ "main.leaf", 16, 0, { 2, 16, 0 } },
	{ "runtime.goexit.abi0", 16, 1, { 2, 16, 0 } },
	{ "runtime.systemstack.abi0", 32, 2, { 2, 1, 16, 31, 0 } },
	{ "runtime.sigreturn__sigaction", 16, 0, { 2, 16, 0 } },
	{ "main.nothing", 16, 0, { 0 } },
};
enum { SOURCES = sizeof(sources) / sizeof(sources[0]) };

static const struct {
	const char *what;
	uint32_t magic;
} versions[] = {
	{ "1.2", MAGIC_1_2 },
	{ "1.16", MAGIC_1_16 },
	{ "1.18", MAGIC_1_18 },
	{ "1.20", MAGIC_1_20 },
};

TEST(names_functions_of_each_go_version)
{
	for EACH (version, versions) {
		struct go_pclntab *go = NULL;
		struct table table;

		table_init(&table, version->magic, sources, SOURCES);
		int fd = table_open(&table, TABLE_BYTES);
		struct elf elf = section_file_read(fd);
		EXPECT_EQ(0, go_pclntab_open(&elf, &go), version->what);
		EXPECT_EQ(SOURCES, go_pclntab_count(go), version->what);
		uint64_t address = SECTION_FILE_ADDRESS;
		for (uint32_t i = 0; i < SOURCES; i++) {
			struct go_function function;
			char name[64];

			EXPECT_EQ(0, go_pclntab_function(go, i, &function), version->what);
			EXPECT_EQ(address, function.address, version->what);
			address += sources[i].size;
			EXPECT_EQ(address, function.limit, version->what);
			assert_true(pread(fd, name, sizeof(name), (off_t)function.name_offset) > 0);
			EXPECT_STR(sources[i].name, name, version->what);
		}
		go_pclntab_close(go);
		close(fd);
	}
}

TEST(finds_the_line_of_an_instruction)
{
	for EACH (version, versions) {
		struct go_pclntab *go = NULL;
		struct table table;
		char file[GO_FILE_BYTES];
		uint32_t line;

		table_init(&table, version->magic, sources, SOURCES);
		int fd = table_open(&table, TABLE_BYTES);
		struct elf elf = section_file_read(fd);
		EXPECT_EQ(0, go_pclntab_open(&elf, &go), version->what);
		for (uint64_t i = 0; i < 32; i++) {
			EXPECT_EQ(0,
				  go_pclntab_find_line(go, SECTION_FILE_ADDRESS + i, file, &line),
				  version->what);
			EXPECT_EQ(i < 8 ? 10 : 15, line, version->what);
			EXPECT_STR("/src/a.go", file, version->what);
		}
		EXPECT_EQ(-ENOENT, go_pclntab_find_line(go, SECTION_FILE_ADDRESS - 1, file, &line),
			  "before");
		EXPECT_EQ(-ENOENT, go_pclntab_find_line(go, UINT64_MAX, file, &line), "after");
		go_pclntab_close(go);
		close(fd);
	}
}

TEST(rows_hold_the_stack_pointer_delta)
{
	static const struct {
		uint32_t at;
		int32_t sp_delta;
		enum go_row_kind kind;
	} expected[] = {
		{ 0, 0, GO_ROW_SP },
		{ 1, 8, GO_ROW_SP },
		{ 4, 72, GO_ROW_SP },
		{ 28, 0, GO_ROW_SP },
		{ 32, 0, GO_ROW_SP }, // the same, but of another function
		{ 48, 0, GO_ROW_END },
#if defined(__x86_64__)
		{ 64, 0, GO_ROW_SP },
		{ 65, 0, GO_ROW_FP },
#else
		{ 64, 0, GO_ROW_NONE },
#endif
		{ 96, 0, GO_ROW_SIGNAL },
		{ 112, 0, GO_ROW_NONE },
	};

	for EACH (version, versions) {
		struct rows rows = { .count = 0 };
		struct table table;

		table_init(&table, version->magic, sources, SOURCES);
		int fd = table_open(&table, TABLE_BYTES);
		struct elf elf = section_file_read(fd);
		EXPECT_EQ(0, go_pclntab_rows(&elf, keep_row, &rows), version->what);
		EXPECT_EQ(sizeof(expected) / sizeof(expected[0]), rows.count, version->what);
		for (uint32_t i = 0; i < rows.count; i++) {
			EXPECT_EQ(SECTION_FILE_ADDRESS + expected[i].at, rows.rows[i].address,
				  version->what);
			EXPECT_EQ(expected[i].sp_delta, rows.rows[i].sp_delta, version->what);
			EXPECT_EQ(expected[i].kind, rows.rows[i].kind, version->what);
			EXPECT_EQ(true,
				  rows.rows[i].function <= rows.rows[i].address &&
					  rows.rows[i].address < rows.rows[i].function_limit,
				  version->what);
		}
		close(fd);
	}
}

TEST(stops_a_walk_on_request)
{
	struct rows rows = { .wanted = 2 };
	struct table table;

	table_init(&table, MAGIC_1_20, sources, SOURCES);
	int fd = table_open(&table, TABLE_BYTES);
	struct elf elf = section_file_read(fd);
	assert_int_equal(77, go_pclntab_rows(&elf, keep_row, &rows));
	assert_int_equal(2, rows.count);
	close(fd);
}

static void magic_of_tomorrow(struct table *table)
{
	put32(table->bytes, 0xffffffeeU);
}
static void pointers_of_four_bytes(struct table *table)
{
	table->bytes[7] = 4;
}
static void no_quantum(struct table *table)
{
	table->bytes[6] = 0;
}
static void names_far_away(struct table *table)
{
	put64(table->bytes + 32, UINT64_MAX - 8);
}
static void functions_far_away(struct table *table)
{
	put64(table->bytes + 64, 1ULL << 40);
}
static void more_functions_than_bytes(struct table *table)
{
	put64(table->bytes + 8, UINT64_MAX);
}
static void record_far_away(struct table *table)
{
	put32(table->bytes + FUNCTIONS_AT + 4, UINT32_MAX);
}
static void going_back(struct table *table)
{
	put32(table->bytes + FUNCTIONS_AT + 8, UINT32_MAX);
}
static void endless_number(struct table *table)
{
	memset(table->bytes + PC_AT, 0xff, FUNCTIONS_AT - PC_AT);
}
static void endless_steps(struct table *table)
{
	for (uint32_t i = PC_AT; i < FUNCTIONS_AT; i += 2) // up and down, and no byte further
		put32(table->bytes + i, i & 2 ? 2 : 1);
}
static void steps_past_the_end(struct table *table)
{
	put32(table->bytes + FUNCTIONS_AT + 0x100 + 16, UINT32_MAX);
}

TEST(refuses_or_truncates_broken_tables)
{
	static const struct {
		const char *what;
		void (*damage)(struct table *table);
		int rc;
	} rows_of_damage[] = {
		{ "magic of tomorrow", magic_of_tomorrow, -ENOENT },
		{ "pointers of four bytes", pointers_of_four_bytes, -ENOENT },
		{ "no quantum", no_quantum, -ENOENT },
		{ "names far away", names_far_away, -ENOEXEC },
		{ "functions far away", functions_far_away, -ENOEXEC },
		{ "more functions than bytes", more_functions_than_bytes, -ENOEXEC },
		{ "record far away", record_far_away, -ENOEXEC },
		{ "going back", going_back, -ENOEXEC },
		{ "endless number", endless_number, -ENOEXEC },
		{ "endless steps", endless_steps, -ENOEXEC },
		{ "steps past the end", steps_past_the_end, -ENOEXEC },
	};

	for EACH (row, rows_of_damage) {
		struct rows rows = { .count = 0 };
		struct table table;

		table_init(&table, MAGIC_1_20, sources, SOURCES);
		row->damage(&table);
		int fd = table_open(&table, TABLE_BYTES);
		struct elf elf = section_file_read(fd);
		int rc = go_pclntab_rows(&elf, keep_row, &rows);
		if (row->damage != endless_steps) // any answer will do, if it comes
			EXPECT_EQ(row->rc, rc, row->what);
		close(fd);
	}
}

TEST(survives_tables_truncated_anywhere)
{
	struct table table;

	table_init(&table, MAGIC_1_20, sources, SOURCES);
	for (size_t size = 0; size < TABLE_BYTES; size += 7) {
		struct rows rows = { .count = 0 };
		int fd = table_open(&table, size);
		struct elf elf = section_file_read(fd);
		int rc = go_pclntab_rows(&elf, keep_row, &rows);

		assert_true(rc == 0 || rc == -ENOENT || rc == -ENOEXEC);
		close(fd);
	}
}

TEST(survives_random_damage)
{
	srandom(5);
	for (int round = 0; round < 2000; round++) {
		struct rows rows = { .wanted = ROWS_MAX };
		struct go_pclntab *go = NULL;
		struct table table;
		char file[GO_FILE_BYTES];
		uint32_t line;

		table_init(&table, versions[round % 4].magic, sources, SOURCES);
		for (int i = 0; i < 4; i++)
			table.bytes[random() % TABLE_BYTES] = (uint8_t)random();
		for (int i = 0; i < 2; i++)
			table.bytes[4 + random() % 90] = (uint8_t)random();
		int fd = table_open(&table, TABLE_BYTES);
		struct elf elf = section_file_read(fd);
		go_pclntab_rows(&elf, keep_row, &rows);
		if (go_pclntab_open(&elf, &go) == 0)
			for (uint64_t at = 0; at < 256; at += 5)
				go_pclntab_find_line(go, SECTION_FILE_ADDRESS + at, file, &line);
		go_pclntab_close(go);
		close(fd);
	}
}

static bool have_go(void)
{
	return system("go version > /dev/null 2>&1") == 0;
}

static bool has_main_and_method(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct go_pclntab *go = NULL;
	uint32_t found = 0;

	assert_true(fd >= 0);
	struct elf elf = section_file_read(fd);
	assert_int_equal(0, go_pclntab_open(&elf, &go));
	for (uint32_t i = 0; i < go_pclntab_count(go); i++) {
		struct go_function function;
		char name[32] = "", file[GO_FILE_BYTES];
		uint32_t line;

		assert_int_equal(0, go_pclntab_function(go, i, &function));
		assert_true(pread(fd, name, sizeof(name) - 1, (off_t)function.name_offset) > 0);
		if (strcmp(name, "main.(*T).Method") && strcmp(name, "main.main"))
			continue;
		// It lies where Go's code is, and its line is in our source.
		assert_non_null(elf_find_code(&elf, function.address));
		if (go_pclntab_find_line(go, function.address, file, &line) == 0 &&
		    strstr(file, "main.go") && line >= 3 && line <= 5)
			found++;
	}
	go_pclntab_close(go);
	return found == 2;
}

TEST(reads_what_the_installed_go_builds)
{
	static const struct {
		const char *what;
		const char *flags;
	} builds[] = {
		{ "plain", "" },
		{ "stripped", "-ldflags='-s -w'" },
		{ "moved when loaded", "-buildmode=pie" },
		{ "moved, linked by gcc, stripped",
		  "-buildmode=pie -ldflags='-s -w -linkmode=external'" },
	};
	char folder[] = "/tmp/cairn-go-XXXXXX", command[512], path[64];

	if (!have_go())
		SKIP("go is not installed");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/main.go", folder);
	FILE *source = fopen(path, "we");
	assert_non_null(source);
	fputs("package main\ntype T struct{ n int }\n//go:noinline\nfunc (t *T) Method() int { "
	      "return t.n }\nfunc main() { println((&T{3}).Method()) }\n",
	      source);
	fclose(source);
	for EACH (build, builds) {
		snprintf(command, sizeof(command), "cd %s && go build %s -o out main.go", folder,
			 build->flags);
		EXPECT_EQ(0, system(command), build->what);
		snprintf(path, sizeof(path), "%s/out", folder);
		EXPECT_EQ(true, has_main_and_method(path), build->what);
	}
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(0, system(command));
}

RUN_TESTS(cmocka_unit_test(names_functions_of_each_go_version),
	  cmocka_unit_test(finds_the_line_of_an_instruction),
	  cmocka_unit_test(rows_hold_the_stack_pointer_delta),
	  cmocka_unit_test(stops_a_walk_on_request),
	  cmocka_unit_test(refuses_or_truncates_broken_tables),
	  cmocka_unit_test(survives_tables_truncated_anywhere),
	  cmocka_unit_test(survives_random_damage),
	  cmocka_unit_test(reads_what_the_installed_go_builds))
