// SPDX-License-Identifier: Apache-2.0
// The log of samples as the sampler leaves it, in a file instead of the kernel's map.
#include "agent/bpf/sample_log.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/test.h"

enum { CPUS = 3, SAMPLES_MAX = 16 };

struct seen {
	uint64_t values[SAMPLES_MAX];
	uint32_t count;
	uint32_t stop_after;
};

static int take_sample(void *context, const struct count_key *key, const struct count *count)
{
	struct seen *seen = context;

	assert_int_equal(key->slot, count->value + 1);
	assert_int_equal(count->samples, 1);
	assert_true(seen->count < SAMPLES_MAX);
	seen->values[seen->count++] = count->value;
	return seen->count == seen->stop_after ? -7 : 0;
}

static void write_samples(int fd, uint32_t cpu, uint32_t generation, uint32_t number,
			  uint64_t first_value)
{
	for (uint32_t i = 0; i < number; i++) {
		struct logged_sample sample = {
			.key.slot = first_value + i + 1,
			.count = { .value = first_value + i, .samples = 1 },
			.generation = generation + 1ULL,
		};
		off_t at =
			(off_t)(sample_log_place(cpu, generation, sample_log_entries(CPUS)) + i) *
			sizeof(sample);

		assert_int_equal(pwrite(fd, &sample, sizeof(sample), at), sizeof(sample));
	}
}

static int new_log(struct sample_log *log)
{
	int fd = memfd_create("sample_log", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)sample_log_size(CPUS) * sizeof(struct logged_sample)),
			 0);
	assert_int_equal(sample_log_open(log, fd, CPUS), 0);
	return fd;
}

TEST(reads_one_generation_of_all_cpus)
{
	struct sample_log log;
	struct seen seen = { 0 };
	_cleanup_close_ int fd = new_log(&log);

	EXPECT_EQ(0, sample_log_read(&log, 0, take_sample, &seen), "an empty log");
	EXPECT_EQ(0, seen.count, "of an empty log");
	write_samples(fd, 0, 4, 2, 10);
	write_samples(fd, 2, 4, 1, 20);
	write_samples(fd, 1, 5, 3, 30); // the other half
	EXPECT_EQ(0, sample_log_read(&log, 4, take_sample, &seen), "fn's result");
	EXPECT_EQ(3, seen.count, "generation 4");
	EXPECT_EQ(10, seen.values[0], "first of CPU 0");
	EXPECT_EQ(11, seen.values[1], "second of CPU 0");
	EXPECT_EQ(20, seen.values[2], "of CPU 2");
	sample_log_close(&log);
}

TEST(ignores_entries_of_an_older_generation)
{
	struct sample_log log;
	struct seen seen = { 0 };
	_cleanup_close_ int fd = new_log(&log);

	write_samples(fd, 0, 7, 5, 10);
	write_samples(fd, 0, 9, 2, 50); // over the first of them
	EXPECT_EQ(0, sample_log_read(&log, 9, take_sample, &seen), "fn's result");
	EXPECT_EQ(2, seen.count, "generation 9");
	EXPECT_EQ(51, seen.values[1], "the last of it");
	sample_log_close(&log);
}

TEST(reads_a_full_log_until_an_error)
{
	struct sample_log log;
	struct seen seen = { .stop_after = 2 };
	_cleanup_close_ int fd = new_log(&log);
	uint32_t last = SAMPLE_LOG_ENTRIES_MAX - 1;

	write_samples(fd, 0, 2, SAMPLE_LOG_ENTRIES_MAX, 100);
	EXPECT_EQ(-7, sample_log_read(&log, 2, take_sample, &seen), "fn's result");
	EXPECT_EQ(2, seen.count, "until then");
	EXPECT_EQ(100 + last,
		  log.samples[sample_log_place(0, 2, SAMPLE_LOG_ENTRIES_MAX) + last].count.value,
		  "the last of its half");
	EXPECT_EQ(0, log.samples[sample_log_place(0, 3, SAMPLE_LOG_ENTRIES_MAX)].generation,
		  "the other half");
	sample_log_close(&log);
}

TEST(bounds_the_log_for_many_possible_cpus)
{
	static const uint32_t cpu_counts[] = { 1, 2, 51, 52, 64, 512, 8192 };

	for EACH (count, cpu_counts) {
		uint64_t bytes = (uint64_t)sample_log_size(*count) * sizeof(struct logged_sample);

		assert_true(sample_log_size(*count) > 0);
		assert_true(bytes <= SAMPLE_LOG_BYTES_MAX);
	}
	EXPECT_EQ(2 * 51 * SAMPLE_LOG_ENTRIES_MAX, sample_log_size(51), "whole halves");
	EXPECT_EQ(2 * 512 * 64, sample_log_size(512), "of 512 CPUs");
}

RUN_TESTS(cmocka_unit_test(reads_one_generation_of_all_cpus),
	  cmocka_unit_test(ignores_entries_of_an_older_generation),
	  cmocka_unit_test(reads_a_full_log_until_an_error),
	  cmocka_unit_test(bounds_the_log_for_many_possible_cpus))
