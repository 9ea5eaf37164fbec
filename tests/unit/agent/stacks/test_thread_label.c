// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/thread_label.h"

#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

static const struct {
	const char *what;
	const char *name;
	const char *process; // NULL: unknown
	const char *label;
} cases[] = {
	{ "no number", "worker", "app", "worker" },
	{ "after a hyphen", "worker-17", "app", "worker-N" },
	{ "at the end of a word", "cuda00001400006", "app", "cudaN" },
	{ "two numbers", "ThreadPool-0_12", "app", "ThreadPool-N_N" },
	{ "after a hash sign", "GC Thread#0", "java", "GC Thread#N" },
	{ "in the middle", "http-nio-8080-e", "java", "http-nio-N-e" },
	{ "part of a word", "C2 CompilerThre", "java", "C2 CompilerThre" },
	{ "digits only", "12345", "app", "N" },
	{ "a digit first", "3dsmax", "app", "Ndsmax" },
	{ "the process's own name", "python3.11", "python3.11", "python3.11" },
	{ "another process's name", "python3.11", "uwsgi", "python3.N" },
	{ "a kernel thread", "kworker/u8:2", "kworker", "kworker/u8:N" },
	{ "one per CPU", "ksoftirqd/3", "ksoftirqd", "ksoftirqd/N" },
	{ "no process", "worker-17", NULL, "worker-N" },
	{ "empty", "", "app", "" },
	{ "16 bytes, no NUL", "abcdefghijklmn-1", "app", "abcdefghijklmn-N" },
	{ "not UTF-8", "w\xff-1", "app", "w?-N" },
};

TEST(folds_numbers_of_thread_names)
{
	for EACH (row, cases) {
		char name[THREAD_NAME_BYTES] = { 0 }, label[THREAD_LABEL_BYTES];

		memcpy(name, row->name, strnlen(row->name, sizeof(name)));
		thread_label_of(name, row->process, label);
		EXPECT_STR(row->label, label, row->what);
	}
}

TEST(keeps_exact_names)
{
	char label[THREAD_LABEL_BYTES];

	thread_label_exact("worker-17\0\0\0\0\0\0", label);
	assert_string_equal("worker-17", label);
	thread_label_exact("abcdefghijklmno7", label);
	assert_string_equal("abcdefghijklmno7", label);
}

TEST(random_names_stay_within_bounds)
{
	srand(7);
	for (int round = 0; round < 100000; round++) {
		char name[THREAD_NAME_BYTES], label[THREAD_LABEL_BYTES];

		for (size_t i = 0; i < sizeof(name); i++)
			name[i] = "0123456789a-#\xc3\xa9\0"[rand() % 16];
		thread_label_of(name, NULL, label);
		assert_true(strlen(label) <= THREAD_NAME_BYTES);
	}
}

RUN_TESTS(cmocka_unit_test(folds_numbers_of_thread_names), cmocka_unit_test(keeps_exact_names),
	  cmocka_unit_test(random_names_stay_within_bounds))
