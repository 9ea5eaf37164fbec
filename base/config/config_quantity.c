// SPDX-License-Identifier: Apache-2.0
#include "base/config/config_quantity.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { DECIMALS_MAX = 9 }; // more digits than that are below a nanosecond of a second

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit duration_units[] = {
	{ "ns", 1 },
	{ "us", NS_PER_US },
	{ "ms", NS_PER_MS },
	{ "s", NS_PER_SECOND },
	{ "m", 60 * NS_PER_SECOND },
	{ "h", 3600 * NS_PER_SECOND },
	{ "d", 86400 * NS_PER_SECOND },
	{ "w", 7 * 86400 * NS_PER_SECOND },
};

// "Mi" without the B is what Kubernetes writes.
static const struct unit size_units[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "kB", 1000 },
	{ "KB", 1000 },
	{ "MB", 1000000 },
	{ "GB", 1000000000 },
	{ "TB", 1000000000000 },
	{ "KiB", 1ULL << 10 },
	{ "MiB", 1ULL << 20 },
	{ "GiB", 1ULL << 30 },
	{ "TiB", 1ULL << 40 },
	{ "Ki", 1ULL << 10 },
	{ "Mi", 1ULL << 20 },
	{ "Gi", 1ULL << 30 },
	{ "Ti", 1ULL << 40 },
};

// A decimal number: "12" or "1.5".
struct decimal {
	uint64_t whole;
	uint64_t fraction; // of `denominator`
	uint64_t denominator;
};

static int parse_whole(const char **text, uint64_t *ret_whole)
{
	uint64_t whole = 0;

	if (!isdigit((unsigned char)**text))
		return -EINVAL;
	for (; isdigit((unsigned char)**text); (*text)++) {
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(**text - '0'), &whole))
			return -ERANGE;
	}
	*ret_whole = whole;
	return 0;
}

// The digits after a '.', if there is one. More than DECIMALS_MAX are refused.
static int parse_fraction(const char **text, struct decimal *number)
{
	number->fraction = 0;
	number->denominator = 1;
	if (**text != '.')
		return 0;

	(*text)++;
	const char *first = *text;
	for (; isdigit((unsigned char)**text); (*text)++) {
		if (*text - first == DECIMALS_MAX)
			return -EINVAL;
		number->fraction = number->fraction * 10 + (uint64_t)(**text - '0');
		number->denominator *= 10;
	}
	return *text == first ? -EINVAL : 0;
}

static int parse_decimal(const char **text, struct decimal *ret_number)
{
	int rc = parse_whole(text, &ret_number->whole);

	return rc < 0 ? rc : parse_fraction(text, ret_number);
}

static int scale(const struct decimal *number, uint64_t factor, uint64_t *ret_value)
{
	// 128 bits, so that neither product can wrap.
	unsigned __int128 value = (unsigned __int128)number->whole * factor;

	value += (unsigned __int128)number->fraction * factor / number->denominator;
	if (value > UINT64_MAX)
		return -ERANGE;
	*ret_value = (uint64_t)value;
	return 0;
}

static int find_unit(const struct unit *units, size_t count, const char *name, size_t size,
		     uint64_t *ret_factor)
{
	for (size_t i = 0; i < count; i++) {
		if (strlen(units[i].name) == size && memcmp(units[i].name, name, size) == 0) {
			*ret_factor = units[i].factor;
			return 0;
		}
	}
	return -EINVAL;
}

int duration_parse(const char *text, uint64_t *ret_ns)
{
	uint64_t sum = 0;

	do {
		struct decimal number;
		uint64_t factor, part;

		if (parse_decimal(&text, &number) < 0)
			return -EINVAL;
		size_t size = strspn(text, "numshdw");
		if (find_unit(duration_units, ARRAY_SIZE(duration_units), text, size, &factor) < 0)
			return -EINVAL;
		if (scale(&number, factor, &part) < 0 || __builtin_add_overflow(sum, part, &sum))
			return -EINVAL;
		text += size;
	} while (*text);
	*ret_ns = sum;
	return 0;
}

int size_parse(const char *text, uint64_t *ret_bytes)
{
	struct decimal number;
	uint64_t factor;
	int rc = parse_decimal(&text, &number);

	if (rc < 0)
		return rc;
	rc = find_unit(size_units, ARRAY_SIZE(size_units), text, strlen(text), &factor);
	if (rc < 0)
		return rc;
	if (factor == 1 && number.fraction) // there is no half byte
		return -EINVAL;
	return scale(&number, factor, ret_bytes);
}

// ---- moments --------------------------------------------------------------------------------

// @count digits exactly.
static int parse_digits(const char **text, int count, int *ret_value)
{
	int value = 0;

	for (int i = 0; i < count; i++, (*text)++) {
		if (!isdigit((unsigned char)**text))
			return -EINVAL;
		value = value * 10 + (**text - '0');
	}
	*ret_value = value;
	return 0;
}

static bool skip(const char **text, const char *accepted)
{
	if (!**text || !strchr(accepted, **text))
		return false;
	(*text)++;
	return true;
}

static int parse_date(const char **text, struct tm *date)
{
	if (parse_digits(text, 4, &date->tm_year) < 0 || !skip(text, "-") ||
	    parse_digits(text, 2, &date->tm_mon) < 0 || !skip(text, "-") ||
	    parse_digits(text, 2, &date->tm_mday) < 0 || !skip(text, "Tt "))
		return -EINVAL;
	if (date->tm_mon < 1 || date->tm_mon > 12 || date->tm_mday < 1)
		return -EINVAL;
	date->tm_year -= 1900;
	date->tm_mon -= 1;
	return 0;
}

static int parse_clock(const char **text, struct tm *date)
{
	if (parse_digits(text, 2, &date->tm_hour) < 0 || !skip(text, ":") ||
	    parse_digits(text, 2, &date->tm_min) < 0 || !skip(text, ":") ||
	    parse_digits(text, 2, &date->tm_sec) < 0)
		return -EINVAL;
	// 60 is a leap second, which Unix time folds into the next one.
	return date->tm_hour > 23 || date->tm_min > 59 || date->tm_sec > 60 ? -EINVAL : 0;
}

static int parse_zone(const char **text, int64_t *ret_seconds)
{
	int sign = **text == '-' ? -1 : 1;
	int hours, minutes;

	*ret_seconds = 0;
	if (skip(text, "Zz"))
		return 0;
	if (!skip(text, "+-") || parse_digits(text, 2, &hours) < 0 || !skip(text, ":") ||
	    parse_digits(text, 2, &minutes) < 0 || hours > 23 || minutes > 59)
		return -EINVAL;
	*ret_seconds = sign * (hours * 3600 + minutes * 60);
	return 0;
}

// Seconds since 1970 of midnight. timegm() makes the 29th of February the 1st of March where there is
// none, which shows that there is none.
static int midnight_of(const struct tm *date, int64_t *ret_seconds)
{
	struct tm midnight = { .tm_year = date->tm_year,
			       .tm_mon = date->tm_mon,
			       .tm_mday = date->tm_mday };
	int64_t seconds = (int64_t)timegm(&midnight);

	if (midnight.tm_mday != date->tm_mday)
		return -EINVAL;
	*ret_seconds = seconds;
	return 0;
}

static int parse_rfc3339(const char *text, uint64_t *ret_ns)
{
	struct tm date = { 0 };
	struct decimal number;
	int64_t seconds, zone_seconds;

	if (parse_date(&text, &date) < 0 || parse_clock(&text, &date) < 0 ||
	    parse_fraction(&text, &number) < 0 || parse_zone(&text, &zone_seconds) < 0 || *text ||
	    midnight_of(&date, &seconds) < 0)
		return -EINVAL;

	seconds += date.tm_hour * 3600 + date.tm_min * 60 + date.tm_sec - zone_seconds;
	if (seconds < 0)
		return -EINVAL;
	number.whole = (uint64_t)seconds;
	return scale(&number, NS_PER_SECOND, ret_ns);
}

// Seconds, milliseconds, microseconds and nanoseconds since 1970 do not meet before the year 5138.
static int parse_unix(const char *text, uint64_t *ret_ns)
{
	struct decimal number;
	uint64_t factor = 1;

	if (parse_decimal(&text, &number) < 0 || *text)
		return -EINVAL;
	if (number.whole < 100000000000ULL)
		factor = NS_PER_SECOND;
	else if (number.whole < 100000000000000ULL)
		factor = NS_PER_MS;
	else if (number.whole < 100000000000000000ULL)
		factor = NS_PER_US;
	return scale(&number, factor, ret_ns);
}

static int parse_relative(const char *text, uint64_t now_ns, uint64_t *ret_ns)
{
	uint64_t ago_ns = 0;

	if (*text && (*text != '-' || duration_parse(text + 1, &ago_ns) < 0))
		return -EINVAL;
	if (ago_ns > now_ns)
		return -EINVAL;
	*ret_ns = now_ns - ago_ns;
	return 0;
}

int time_parse(const char *text, uint64_t now_ns, uint64_t *ret_ns, struct error *err)
{
	int rc;

	if (strncmp(text, "now", 3) == 0)
		rc = parse_relative(text + 3, now_ns, ret_ns);
	else if (strspn(text, "0123456789.") == strlen(text))
		rc = parse_unix(text, ret_ns);
	else
		rc = parse_rfc3339(text, ret_ns);
	if (rc < 0)
		return error_set(
			err, -EINVAL,
			"\"%.40s\" is not a time; write it as 2026-11-21T10:00:00Z, as Unix "
			"seconds, milliseconds or nanoseconds, or as now or now-5m",
			text);
	return 0;
}
