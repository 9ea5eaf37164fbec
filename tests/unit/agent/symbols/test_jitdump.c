// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/jitdump.h"

#include <byteswap.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/symbols/jit_symbols.h"
#include "base/clock.h"
#include "tests/test.h"

enum { LOAD = 0, MOVE = 1, DEBUG = 2, CLOSE = 3 };

/* A file being written. */
struct dump {
	int fd;
	bool swapped;
};

static void put_u32(struct dump *dump, uint32_t number)
{
	number = dump->swapped ? bswap_32(number) : number;
	assert_int_equal(sizeof(number), write(dump->fd, &number, sizeof(number)));
}

static void put_u64(struct dump *dump, uint64_t number)
{
	number = dump->swapped ? bswap_64(number) : number;
	assert_int_equal(sizeof(number), write(dump->fd, &number, sizeof(number)));
}

static struct dump new_dump(bool swapped)
{
	struct dump dump = { .fd = memfd_create("jitdump", MFD_CLOEXEC), .swapped = swapped };
	const uint32_t words[] = { 0x4a695444, 1, 40, 62, 0, 4711 };

	for EACH (word, words)
		put_u32(&dump, *word);
	put_u64(&dump, 0);
	put_u64(&dump, 0);
	return dump;
}

static void put_header(struct dump *dump, uint32_t id, uint32_t size)
{
	put_u32(dump, id);
	put_u32(dump, size);
	put_u64(dump, 1);
}

static void put_load(struct dump *dump, uint64_t address, uint64_t code_size, const char *name)
{
	static const char code[4096];

	put_header(dump, LOAD, (uint32_t)(56 + strlen(name) + 1 + code_size));
	put_u64(dump, 0); // pid, tid
	put_u64(dump, address);
	put_u64(dump, address);
	put_u64(dump, code_size);
	put_u64(dump, 1);
	assert_int_equal(strlen(name) + 1, write(dump->fd, name, strlen(name) + 1));
	assert_int_equal(code_size, write(dump->fd, code, code_size));
}

static void put_move(struct dump *dump, uint64_t from, uint64_t to, uint64_t code_size)
{
	put_header(dump, MOVE, 64);
	put_u64(dump, 0);
	put_u64(dump, to);
	put_u64(dump, from);
	put_u64(dump, to);
	put_u64(dump, code_size);
	put_u64(dump, 1);
}

static const char *find(struct jitdump *jitdump, uint64_t address)
{
	const char *name = jitdump_find(jitdump, address);

	return name ? name : "";
}

static void check_loads_and_moves(bool swapped)
{
	struct dump dump = new_dump(swapped);
	struct jitdump *jitdump = jitdump_new();

	assert_int_equal(0, jitdump_read(jitdump, dump.fd));
	put_load(&dump, 0x1000, 100, "JS:*f /a.js:1");
	put_header(&dump, DEBUG, 24);
	put_u64(&dump, 5);
	put_load(&dump, 0x2000, 3000, "second");
	put_header(&dump, CLOSE, 16);
	assert_int_equal(1, jitdump_read(jitdump, dump.fd));
	assert_int_equal(0, jitdump_read(jitdump, dump.fd));
	assert_string_equal("JS:f /a.js:1", find(jitdump, 0x1063));
	assert_string_equal("", find(jitdump, 0x1064));
	assert_string_equal("second", find(jitdump, 0x2000 + 2999));
	put_move(&dump, 0x1000, 0x2100, 100);
	put_move(&dump, 0x9000, 0x2200, 100); // from nowhere
	assert_int_equal(1, jitdump_read(jitdump, dump.fd));
	assert_string_equal("second", find(jitdump, 0x20ff));
	assert_string_equal("JS:f /a.js:1", find(jitdump, 0x2100));
	assert_string_equal("second", find(jitdump, 0x2200));
	close(dump.fd);
	jitdump_free(jitdump);
}

TEST(finds_code_after_its_load_record)
{
	check_loads_and_moves(false);
}

TEST(reads_the_other_byte_order)
{
	check_loads_and_moves(true);
}

TEST(reads_a_record_once_complete)
{
	struct dump dump = new_dump(false);
	struct jitdump *jitdump = jitdump_new();
	char bytes[400];

	put_load(&dump, 0x1000, 100, "first");
	put_load(&dump, 0x2000, 100, "second");
	ssize_t size = pread(dump.fd, bytes, sizeof(bytes), 0);
	int news = 0;
	assert_int_equal(0, ftruncate(dump.fd, 0));
	for (ssize_t at = 0; at < size; at++) { // a byte at a time
		assert_int_equal(1, pwrite(dump.fd, bytes + at, 1, at));
		int rc = jitdump_read(jitdump, dump.fd);
		assert_true(rc >= 0);
		news += rc;
	}
	assert_int_equal(2, news);
	assert_string_equal("first", find(jitdump, 0x1000));
	assert_string_equal("second", find(jitdump, 0x2000));
	assert_int_equal(0, ftruncate(dump.fd, 0)); // written anew
	assert_int_equal(0, jitdump_read(jitdump, dump.fd));
	assert_string_equal("", find(jitdump, 0x1000));
	close(dump.fd);
	jitdump_free(jitdump);
}

TEST(stops_at_bytes_that_are_no_jitdump)
{
	const struct {
		const char *what;
		uint32_t words[12];
	} rows[] = {
		{ "another magic", { 0x7f454c46, 1, 40, 62 } },
		{ "header too short", { 0x4a695444, 1, 39, 62 } },
		{ "header too long", { 0x4a695444, 1, 1U << 31, 62 } },
		{ "record of no bytes", { 0x4a695444, 1, 40, 62, 0, 0, 0, 0, 0, 0, LOAD, 0 } },
		{ "record of fewer", { 0x4a695444, 1, 40, 62, 0, 0, 0, 0, 0, 0, 77, 15 } },
	};

	for EACH (row, rows) {
		struct dump dump = { .fd = memfd_create("jitdump", MFD_CLOEXEC) };
		struct jitdump *jitdump = jitdump_new();

		for EACH (word, row->words)
			put_u32(&dump, *word);
		put_u64(&dump, 0);
		EXPECT_EQ(-EBADMSG, jitdump_read(jitdump, dump.fd), row->what);
		EXPECT_EQ(0, jitdump_read(jitdump, dump.fd), row->what);
		close(dump.fd);
		jitdump_free(jitdump);
	}
}

TEST(leaves_out_senseless_loads)
{
	struct dump dump = new_dump(false);
	struct jitdump *jitdump = jitdump_new();

	put_load(&dump, UINT64_MAX, 100, "around the end");
	put_load(&dump, 0x1000, 0, "empty");
	put_load(&dump, 0x1000, 100, "");
	put_header(&dump, LOAD, 56); // without a name
	for (int i = 0; i < 5; i++)
		put_u64(&dump, 0x1000);
	assert_int_equal(-EBADMSG, jitdump_read(jitdump, dump.fd));
	assert_string_equal("", find(jitdump, 0x1000));
	close(dump.fd);
	jitdump_free(jitdump);
}

TEST(bounds_an_endless_file)
{
	struct dump dump = new_dump(false);
	struct jitdump *jitdump = jitdump_new();

	put_load(&dump, 0x1000, 100, "first");
	assert_int_equal(0, ftruncate(dump.fd, 10LL << 30));
	uint64_t before = clock_process_cpu_ns();
	for (int i = 0; i < 100; i++)
		jitdump_read(jitdump, dump.fd);
	assert_true(clock_process_cpu_ns() - before < slower_ns(NS_PER_SECOND));
	assert_string_equal("first", find(jitdump, 0x1000));
	assert_true(jitdump_bytes(jitdump) < 1 << 20);
	close(dump.fd);
	jitdump_free(jitdump);
}

/* A move looks up what was loaded just before. */
TEST(bounds_moves_of_one_read)
{
	enum { MOVES = 500 };
	const uint64_t last = 0x10000000 + 16 * (MOVES - 1);
	struct dump dump = new_dump(false);
	struct jitdump *jitdump = jitdump_new();
	uint32_t reads = 0;

	for (uint64_t i = 0; i < MOVES; i++) {
		put_load(&dump, 0x1000 + 16 * i, 16, "f");
		put_move(&dump, 0x1000 + 16 * i, 0x10000000 + 16 * i, 16);
	}
	assert_int_equal(1, jitdump_read(jitdump, dump.fd));
	assert_string_equal("f", find(jitdump, 0x10000000));
	assert_string_equal("", find(jitdump, last));
	while (jitdump_read(jitdump, dump.fd) > 0 && ++reads < MOVES)
		;
	assert_string_equal("f", find(jitdump, last));
	close(dump.fd);
	jitdump_free(jitdump);
}

TEST(reports_that_names_are_full)
{
	struct dump dump = new_dump(false);
	struct jitdump *jitdump = jitdump_new();
	char name[JIT_NAME_BYTES_MAX];

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	for (uint32_t i = 0; i <= JIT_NAMES_BYTES_MAX / JIT_NAME_BYTES_MAX; i++)
		put_load(&dump, 0x1000 + 64 * i, 16, name);
	assert_int_equal(1, jitdump_read(jitdump, dump.fd));
	assert_false(jitdump_is_full(jitdump));
	while (jitdump_read(jitdump, dump.fd) > 0)
		;
	assert_true(jitdump_is_full(jitdump));
	close(dump.fd);
	dump = new_dump(false); // another file
	jitdump_read(jitdump, dump.fd);
	assert_false(jitdump_is_full(jitdump));
	close(dump.fd);
	jitdump_free(jitdump);
}

RUN_TESTS(cmocka_unit_test(finds_code_after_its_load_record),
	  cmocka_unit_test(reads_the_other_byte_order),
	  cmocka_unit_test(reads_a_record_once_complete),
	  cmocka_unit_test(stops_at_bytes_that_are_no_jitdump),
	  cmocka_unit_test(leaves_out_senseless_loads), cmocka_unit_test(bounds_an_endless_file),
	  cmocka_unit_test(bounds_moves_of_one_read), cmocka_unit_test(reports_that_names_are_full))
