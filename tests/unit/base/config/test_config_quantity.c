// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/config/config_quantity.h"

static const struct {
	const char *text;
	int rc;
	uint64_t ns;
} durations[] = {
	{ "20ms", 0, 20 * NS_PER_MS },
	{ "5s", 0, 5 * NS_PER_SECOND },
	{ "1h30m", 0, 5400 * NS_PER_SECOND },
	{ "7d", 0, 7 * 86400 * NS_PER_SECOND },
	{ "2w", 0, 14 * 86400 * NS_PER_SECOND },
	{ "0s", 0, 0 },
	{ "1.5s", 0, 1500 * NS_PER_MS },
	{ "0.000000001s", 0, 1 },
	{ "3us4ns", 0, 3004 },
	{ "18446744073709551615ns", 0, UINT64_MAX },
	{ "18446744073709551616ns", -EINVAL, 0 },
	{ "99999999999999999999w", -EINVAL, 0 },
	{ "20000w20000w20000w", -EINVAL, 0 },
	{ "0.0000000001s", -EINVAL, 0 }, // ten decimals
	{ "", -EINVAL, 0 },
	{ "5", -EINVAL, 0 },
	{ "s", -EINVAL, 0 },
	{ "-5s", -EINVAL, 0 },
	{ "+5s", -EINVAL, 0 },
	{ "5 s", -EINVAL, 0 },
	{ " 5s", -EINVAL, 0 },
	{ "5s ", -EINVAL, 0 },
	{ "5S", -EINVAL, 0 },
	{ "5x", -EINVAL, 0 },
	{ "5sm", -EINVAL, 0 },
	{ "1.s", -EINVAL, 0 },
	{ ".5s", -EINVAL, 0 },
	{ "1.5.5s", -EINVAL, 0 },
	{ "1h30", -EINVAL, 0 },
	{ "0x10s", -EINVAL, 0 },
};

TEST(durations_are_read_or_refused)
{
	for EACH (row, durations) {
		uint64_t ns = 77;

		EXPECT_EQ(row->rc, duration_parse(row->text, &ns), row->text);
		EXPECT_EQ(row->rc ? 77 : row->ns, ns, row->text);
	}
}

static const struct {
	const char *text;
	int rc;
	uint64_t bytes;
} sizes[] = {
	{ "512", 0, 512 },
	{ "0", 0, 0 },
	{ "1B", 0, 1 },
	{ "64MiB", 0, 64 << 20 },
	{ "64Mi", 0, 64 << 20 },
	{ "1GB", 0, 1000000000 },
	{ "1.5KiB", 0, 1536 },
	{ "18446744073709551615", 0, UINT64_MAX },
	{ "18446744073709551616", -ERANGE, 0 },
	{ "16777216TiB", -ERANGE, 0 },
	{ "1.5", -EINVAL, 0 },
	{ "", -EINVAL, 0 },
	{ "MiB", -EINVAL, 0 },
	{ "1 MiB", -EINVAL, 0 },
	{ "1mib", -EINVAL, 0 },
	{ "-1", -EINVAL, 0 },
	{ "1M", -EINVAL, 0 },
	{ "1MiBB", -EINVAL, 0 },
};

TEST(sizes_are_read_or_refused)
{
	for EACH (row, sizes) {
		uint64_t bytes = 77;

		EXPECT_EQ(row->rc, size_parse(row->text, &bytes), row->text);
		EXPECT_EQ(row->rc ? 77 : row->bytes, bytes, row->text);
	}
}

#define NOW_NS (1795255200 * NS_PER_SECOND) // 2026-11-21T10:00:00Z

static const struct {
	const char *text;
	int rc;
	uint64_t ns;
} times[] = {
	{ "now", 0, NOW_NS },
	{ "now-5m", 0, NOW_NS - 300 * NS_PER_SECOND },
	{ "now-1h30m", 0, NOW_NS - 5400 * NS_PER_SECOND },
	{ "2026-11-21T10:00:00Z", 0, NOW_NS },
	{ "2026-11-21t10:00:00z", 0, NOW_NS },
	{ "2026-11-21 10:00:00Z", 0, NOW_NS },
	{ "2026-11-21T12:30:00+02:30", 0, NOW_NS },
	{ "2026-11-21T05:00:00-05:00", 0, NOW_NS },
	{ "2026-11-21T10:00:00.020Z", 0, NOW_NS + 20 * NS_PER_MS },
	{ "2026-11-21T10:00:00.000000001Z", 0, NOW_NS + 1 },
	{ "1970-01-01T00:00:00Z", 0, 0 },
	{ "2024-02-29T00:00:00Z", 0, 1709164800 * NS_PER_SECOND },
	{ "2016-12-31T23:59:60Z", 0, 1483228800 * NS_PER_SECOND },
	{ "1795255200", 0, NOW_NS },
	{ "1795255200.5", 0, NOW_NS + 500 * NS_PER_MS },
	{ "1795255200000", 0, NOW_NS },
	{ "1795255200000000", 0, NOW_NS },
	{ "1795255200000000000", 0, NOW_NS },
	{ "0", 0, 0 },
	{ "", -EINVAL, 0 },
	{ "now-", -EINVAL, 0 },
	{ "now+5m", -EINVAL, 0 },
	{ "now-5", -EINVAL, 0 },
	{ "now-3000w", -EINVAL, 0 }, // before 1970
	{ "nowhere", -EINVAL, 0 },
	{ "yesterday", -EINVAL, 0 },
	{ "-5", -EINVAL, 0 },
	{ "99999999999999999999", -EINVAL, 0 },
	{ "1.2.3", -EINVAL, 0 },
	{ ".", -EINVAL, 0 },
	{ "2026-11-21", -EINVAL, 0 },
	{ "2026-11-21T10:00:00", -EINVAL, 0 }, // no zone: whose?
	{ "2026-11-21T10:00Z", -EINVAL, 0 },
	{ "2026-02-29T00:00:00Z", -EINVAL, 0 },
	{ "2026-02-29T23:59:60Z", -EINVAL, 0 },
	{ "2026-04-31T00:00:00Z", -EINVAL, 0 },
	{ "2026-13-01T00:00:00Z", -EINVAL, 0 },
	{ "2026-00-01T00:00:00Z", -EINVAL, 0 },
	{ "2026-01-00T00:00:00Z", -EINVAL, 0 },
	{ "2026-01-01T24:00:00Z", -EINVAL, 0 },
	{ "2026-01-01T00:60:00Z", -EINVAL, 0 },
	{ "2026-01-01T00:00:61Z", -EINVAL, 0 },
	{ "2026-01-01T00:00:00+24:00", -EINVAL, 0 },
	{ "2026-01-01T00:00:00.Z", -EINVAL, 0 },
	{ "2026-01-01T00:00:00.0000000001Z", -EINVAL, 0 },
	{ "2026-01-01T00:00:00Zulu", -EINVAL, 0 },
	{ "1969-12-31T23:59:59Z", -EINVAL, 0 },
	{ "9999-12-31T23:59:59Z", -EINVAL, 0 }, // beyond 64 bits of nanoseconds
	{ "1970-01-01T00:00:00+00:01", -EINVAL, 0 },
};

TEST(moments_are_read_or_refused)
{
	for EACH (row, times) {
		struct error err = { 0 };
		uint64_t ns = 77;

		EXPECT_EQ(row->rc, time_parse(row->text, NOW_NS, &ns, &err), row->text);
		EXPECT_EQ(row->rc ? 77 : row->ns, ns, row->text);
		EXPECT_EQ(row->rc != 0, strstr(err.text, "write it as") != NULL, row->text);
	}
}

TEST(survives_random_text)
{
	static const char letters[] = "0123456789.-+:TZnumshdwKMGiB e\xff";
	uint64_t value;

	srandom(5);
	for (int round = 0; round < 100000; round++) {
		char text[40];
		size_t size = (size_t)random() % sizeof(text);

		for (size_t i = 0; i < size; i++)
			text[i] = letters[(size_t)random() % (sizeof(letters) - 1)];
		text[size ? size - 1 : 0] = 0;
		int rc = duration_parse(text, &value);
		assert_true(rc == 0 || rc == -EINVAL);
		rc = size_parse(text, &value);
		assert_true(rc == 0 || rc == -EINVAL || rc == -ERANGE);
		rc = time_parse(text, NOW_NS, &value, NULL);
		assert_true(rc == 0 || rc == -EINVAL);
	}
}

RUN_TESTS(cmocka_unit_test(durations_are_read_or_refused),
	  cmocka_unit_test(sizes_are_read_or_refused),
	  cmocka_unit_test(moments_are_read_or_refused), cmocka_unit_test(survives_random_text))
