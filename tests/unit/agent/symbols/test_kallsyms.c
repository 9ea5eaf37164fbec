// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/kallsyms.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/symbols/kallsyms_reading.h"
#include "base/cleanup.h"
#include "tests/test.h"

static char path[] = "/tmp/cairn-kallsyms-XXXXXX";

static int open_text(const char *text, struct kallsyms **ret_kallsyms, struct error *err)
{
	strcpy(strrchr(path, '-') + 1, "XXXXXX");
	_cleanup_close_ int fd = mkstemp(path);
	assert_int_equal(strlen(text), write(fd, text, strlen(text)));
	int rc = kallsyms_open(path, ret_kallsyms, err);
	unlink(path);
	return rc;
}

static const char SYMBOLS[] = "ffffffff81000000 T _text\n"
			      "ffffffff81000000 T startup_64\n"
			      "ffffffff81002000 t do_work\n"
			      "ffffffff81003000 D some_data\n"
			      "ffffffff81001000 W weak_one\n"
			      "ffffffff81004000 T _etext\n"
			      "this is no symbol\n"
			      "ffffffffc0000000 t helper\t[a_module]\n"
			      "ffffffffc0001000 t bpf_prog_abc\t[bpf]\n";

static const struct {
	const char *what;
	uint64_t address;
	int rc;
	const char *name;
	const char *module;
} finds[] = {
	{ "first of two names at the start", 0xffffffff81000000, 0, "_text", "[kernel]" },
	{ "within", 0xffffffff81001fff, 0, "weak_one", "[kernel]" },
	{ "just before the end", 0xffffffff81003fff, 0, "do_work", "[kernel]" },
	{ "data is skipped", 0xffffffff81003004, 0, "do_work", "[kernel]" },
	{ "a module", 0xffffffffc0000010, 0, "helper", "a_module" },
	{ "a BPF program", 0xffffffffc0001010, 0, "bpf_prog_abc", "bpf" },
	{ "after the last function of the kernel", 0xffffffff81004010, -ENOENT, NULL, NULL },
	{ "before all", 0xffffffff80000000, -ENOENT, NULL, NULL },
	{ "in the gap before the modules", 0xffffffffb0000000, -ENOENT, NULL, NULL },
	{ "zero", 0, -ENOENT, NULL, NULL },
};

TEST(names_an_address_by_the_function_before)
{
	struct kallsyms *kallsyms;
	struct kernel_symbol symbol;

	assert_int_equal(0, open_text(SYMBOLS, &kallsyms, NULL));
	for EACH (row, finds) {
		EXPECT_EQ(row->rc, kallsyms_find(kallsyms, row->address, &symbol), row->what);
		if (row->rc)
			continue;
		EXPECT_STR(row->name, symbol.name, row->what);
		EXPECT_STR(row->module, symbol.module, row->what);
		EXPECT_EQ(true, symbol.start <= row->address, row->what);
	}
	kallsyms_close(kallsyms);
}

static const struct {
	const char *what;
	const char *text;
	int rc;
} refusals[] = {
	{ "hidden addresses", "0000000000000000 T _text\n0000000000000000 t f\n", -EPERM },
	{ "empty", "", -ENOENT },
	{ "no line ends", "ffffffff81000000 T _text", -ENOENT },
	{ "cut lines", "ffffffff81000000\nffffffff81000000 T\nffffffff81000000 T \n", -ENOENT },
	{ "only data", "ffffffff81000000 D d\n", -ENOENT },
};

TEST(refuses_hidden_addresses_with_a_remedy)
{
	for EACH (row, refusals) {
		struct kallsyms *kallsyms = NULL;
		struct error err = { 0 };

		EXPECT_EQ(row->rc, open_text(row->text, &kallsyms, &err), row->what);
		EXPECT_EQ(true, err.text[0] != '\0', row->what);
		if (row->rc == -EPERM)
			assert_non_null(strstr(err.text, "CAP_SYSLOG (or set kernel.kptr_restrict "
							 "to 0 and kernel.perf_event_paranoid to "
							 "1)"));
		kallsyms_close(kallsyms);
	}
}

TEST(reads_on_after_an_endless_line)
{
	size_t size = 200000;
	_cleanup_free_ char *text = malloc(size + 100);
	struct kallsyms *kallsyms;
	struct kernel_symbol symbol;

	memset(text, 'x', size);
	strcpy(text + size, "\nffffffff81000000 T after\n");
	assert_int_equal(0, open_text(text, &kallsyms, NULL));
	assert_int_equal(0, kallsyms_find(kallsyms, 0xffffffff81000001, &symbol));
	assert_string_equal("after", symbol.name);
	kallsyms_close(kallsyms);
}

TEST(a_failed_reload_keeps_the_symbols)
{
	struct kallsyms *kallsyms;
	struct kernel_symbol symbol;

	assert_int_equal(0, open_text(SYMBOLS, &kallsyms, NULL)); // the file is gone by now
	kallsyms_reload_at_next_miss(kallsyms);
	assert_int_equal(-ENOENT, kallsyms_find(kallsyms, 1, &symbol));
	assert_int_equal(0, kallsyms_find(kallsyms, 0xffffffff81002010, &symbol));
	assert_string_equal("do_work", symbol.name);
	kallsyms_close(kallsyms);
}

TEST(an_unknown_address_reloads_symbols)
{
	char file[] = "/tmp/cairn-kallsyms-later-XXXXXX";
	_cleanup_close_ int fd = mkstemp(file);
	static const char later[] = "ffffffffc0100000 t bpf_prog_new\t[bpf]\n";
	struct kallsyms *kallsyms;
	struct kernel_symbol symbol;

	assert_int_equal(strlen(SYMBOLS), write(fd, SYMBOLS, strlen(SYMBOLS)));
	assert_int_equal(0, kallsyms_open(file, &kallsyms, NULL));
	assert_int_equal(strlen(later), write(fd, later, strlen(later)));
	assert_int_equal(0, kallsyms_find(kallsyms, 0xffffffffc0100010, &symbol));
	assert_string_equal("bpf_prog_abc", symbol.name); // near the last known one
	assert_int_equal(-ENOENT, kallsyms_find(kallsyms, 0xfffffffff0000000, &symbol));
	kallsyms_reload_at_next_miss(kallsyms);
	assert_int_equal(-ENOENT, kallsyms_find(kallsyms, 0xfffffffff0000000, &symbol));
	assert_int_equal(0, kallsyms_find(kallsyms, 0xffffffffc0100010, &symbol));
	assert_string_equal("bpf_prog_new", symbol.name);
	unlink(file);
	kallsyms_close(kallsyms);
}

TEST(reads_the_running_kernel)
{
	struct kallsyms *kallsyms;
	struct error err;

	if (kallsyms_open(NULL, &kallsyms, &err) == -EPERM)
		SKIP(err.text);
	assert_true(kallsyms_bytes(kallsyms) < 16 << 20);
	kallsyms_close(kallsyms);
}

/* Also where the kernel hides the addresses. */
TEST(a_thread_reads_what_opening_reads)
{
	struct kallsyms *here = NULL, *there = NULL;
	struct error err = { 0 }, thread_err = { 0 };
	struct kallsyms_reading *reading = kallsyms_reading_begin();
	uint64_t start = 0, size = 0, thread_start = 1, thread_size = 1;

	assert_non_null(reading);
	int rc = kallsyms_open(NULL, &here, &err);
	assert_int_equal(rc, kallsyms_reading_end(reading, &there, &thread_err));
	assert_string_equal(err.text, thread_err.text);
	if (rc)
		return;
	assert_int_equal(0, kallsyms_find_name(here, "schedule", &start, &size));
	assert_int_equal(0, kallsyms_find_name(there, "schedule", &thread_start, &thread_size));
	assert_int_equal(start, thread_start);
	assert_int_equal(size, thread_size);
	kallsyms_close(here);
	kallsyms_close(there);
}

RUN_TESTS(cmocka_unit_test(a_thread_reads_what_opening_reads),
	  cmocka_unit_test(names_an_address_by_the_function_before),
	  cmocka_unit_test(refuses_hidden_addresses_with_a_remedy),
	  cmocka_unit_test(reads_on_after_an_endless_line),
	  cmocka_unit_test(a_failed_reload_keeps_the_symbols),
	  cmocka_unit_test(an_unknown_address_reloads_symbols),
	  cmocka_unit_test(reads_the_running_kernel))
