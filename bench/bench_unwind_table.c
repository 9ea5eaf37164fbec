// SPDX-License-Identifier: Apache-2.0
// bench_unwind_table FILE...: how fast each file's unwind table is compiled, and how large it is.

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/unwind/unwind_table_build.h"
#include "base/cleanup.h"

enum { ROUNDS = 5 }; // the fastest counts: the others waited for the disk

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time); // whatever else runs
	return (uint64_t)time.tv_sec * 1000000000ULL + (uint64_t)time.tv_nsec;
}

static int build(const struct elf *elf, struct unwind_table **ret_table, uint64_t *ret_ns,
		 struct error *err)
{
	uint64_t least = UINT64_MAX;

	*ret_table = NULL;
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t start = now_ns();

		unwind_table_free(*ret_table);
		*ret_table = NULL;
		int rc = unwind_table_build(elf, NULL, 0, UNWIND_TABLE_ROWS_MAX, ret_table, err);
		if (rc)
			return rc;
		uint64_t taken = now_ns() - start;
		least = taken < least ? taken : least;
	}
	*ret_ns = least;
	return 0;
}

static void print_table(const char *path, const struct unwind_table *table, uint64_t ns)
{
	double bytes = table->word_count * 4.0 + table->rule_count * sizeof(*table->rules);
	const char *name = strrchr(path, '/');
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	printf("%-36s %8u %9.1f %11.1f %9.2f %6u %12u %9ld\n", name ? name + 1 : path,
	       table->row_count, (double)ns / 1e6, table->row_count * 1e3 / (double)ns,
	       table->row_count ? bytes / table->row_count : 0, table->rule_count,
	       table->unsupported_count, usage.ru_maxrss / 1024);
}

int main(int count, char **paths)
{
	int failed = count < 2;

	printf("%-36s %8s %9s %11s %9s %6s %12s %9s\n", "file", "rows", "CPU ms", "Mrows/s",
	       "bytes/row", "rules", "unsupported", "peak MiB");
	for (int i = 1; i < count; i++) {
		struct unwind_table *table = NULL;
		struct stat status;
		struct error err;
		struct elf elf;
		uint64_t ns;
		_cleanup_close_ int fd = open(paths[i], O_RDONLY | O_CLOEXEC);

		if (fd < 0 || fstat(fd, &status)) {
			fprintf(stderr, "%s: %s\n", paths[i], strerror(errno));
			failed = 1;
		} else if (elf_read_headers(fd, &status, &elf, &err) ||
			   build(&elf, &table, &ns, &err)) {
			fprintf(stderr, "%s: %s\n", paths[i], err.text);
			failed = 1;
		} else {
			print_table(paths[i], table, ns);
		}
		unwind_table_free(table);
	}
	return failed;
}
