// SPDX-License-Identifier: Apache-2.0
#include "collector/check_command.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/utc_text.h"
#include "collector/store/rocksdb/rocksdb.h"

enum { DAMAGE_LINES_MAX = 100 }; // a store that is damaged all over needs no line for each chunk

struct report {
	uint32_t done, lines;
};

static void print_time(FILE *stream, uint64_t start_ns)
{
	char text[UTC_TEXT_BYTES];

	fputs(utc_text(start_ns / NS_PER_SECOND, text), stream);
}

static void print_damage(void *context, uint64_t start_ns, const char *text)
{
	struct report *report = context;

	if (++report->lines > DAMAGE_LINES_MAX)
		return;
	if (start_ns)
		print_time(stdout, start_ns);
	else
		fputs("store", stdout);
	printf(": damaged: %s\n", text);
}

static void print_progress(void *context, uint64_t start_ns, uint32_t count,
			   const struct store_check *found)
{
	struct report *report = context;

	report->done++;
	fprintf(stderr, "checked %u of %u partitions, up to ", report->done, count);
	print_time(stderr, start_ns);
	fprintf(stderr, ": %llu chunks, %llu damaged\n", (unsigned long long)found->chunks,
		(unsigned long long)found->damaged);
}

int check_command(const char *path)
{
	struct report report = { 0 };
	const struct store_checker checker = { &report, print_damage, print_progress };
	struct store_check found = { 0 };
	struct error err = { 0 };
	int rc = rocksdb_store_check(path, &checker, &found, &err);

	if (rc) {
		fprintf(stderr, "cairn-collector: %s\n", err.text);
		return rc == -EUCLEAN ? 1 : 2;
	}
	if (report.lines > DAMAGE_LINES_MAX)
		printf("... and %u more\n", report.lines - DAMAGE_LINES_MAX);
	printf("%s: %llu partitions, %llu dictionary records, %llu chunks, %llu open runs, %llu "
	       "rows: ",
	       path, (unsigned long long)found.partitions, (unsigned long long)found.records,
	       (unsigned long long)found.chunks, (unsigned long long)found.runs,
	       (unsigned long long)found.rows);
	if (found.damaged)
		printf("%llu DAMAGED\n", (unsigned long long)found.damaged);
	else
		printf("good\n");
	return found.damaged ? 1 : 0;
}
