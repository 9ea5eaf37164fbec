// SPDX-License-Identifier: Apache-2.0
// Measures ingest and queries: a synthetic fleet (fleet.h) is stored with store_append() and
// queried. Prints rows per CPU second, bytes per sample, times and memory, each with its
// repetitions and their median. The time of generating the fleet is subtracted.
#include <dirent.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

#include "bench/arguments.h"
#include "bench/fleet_off_cpu.h"
#include "collector/query/query.h"
#include "collector/store/rows.h"
#include "collector/store/selector.h"
#include "collector/store/rocksdb/rocksdb.h"
#include "base/contract/label_names.h"

enum {
	STEP_SECONDS = 5,  // the export interval
	SEGMENTS_MAX = 64, // of ingest; each is a repetition
	REPETITIONS_MAX = 101,
};

struct bench {
	uint32_t hosts, minutes, repetitions;
	uint32_t off_cpu; // intervals a minute and host
	const char *type; // of the queries
	const char *only; // queries whose names have it; NULL: all
	uint64_t unit_ns, memory_bytes;
	const char *path;
	bool keep, reuse, no_merge;
	struct fleet fleet;
	struct store *store;
	uint64_t from_ns, to_ns;
	uint64_t generate_cpu_ns; // of this thread
	uint64_t samples, rows;
};

static uint64_t clock_of(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * NS_PER_SECOND + (uint64_t)time.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static double median_of(double *values, uint32_t count)
{
	qsort(values, count, sizeof(*values), compare_doubles);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void print_figure(const char *name, double *values, uint32_t count, const char *unit)
{
	double median = median_of(values, count);

	printf("  %-46s median %9.2f %-10s (%u repetitions, %.2f to %.2f)\n", name, median, unit,
	       count, values[0], values[count - 1]);
	fflush(stdout);
}

static uint64_t memory_kib(const char *field)
{
	char line[256];
	uint64_t kib = 0;
	FILE *file = fopen("/proc/self/status", "re");

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, field, strlen(field)))
			kib = strtoull(line + strlen(field) + 1, NULL, 10);
	if (file)
		fclose(file);
	return kib;
}

static void open_store(struct bench *bench)
{
	struct store_options options = { .path = bench->path,
					 .memory_bytes = bench->memory_bytes,
					 .upgrade = true };
	struct error err = { 0 };

	if (rocksdb_store_open(&options, &bench->store, &err) < 0)
		die("%s", err.text);
}

static void remove_store(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
	rmdir(path);
}

// ---- ingest ---------------------------------------------------------------------------------------

static void append_interval(struct bench *bench, struct fleet_host *host, uint64_t from_ns)
{
	struct store_batch_id batch = { .agent = { host->number, 1 }, .boot = { host->number, 2 } };
	struct store_append_result result;
	struct error err = { 0 };
	uint64_t cpu_ns = clock_of(CLOCK_THREAD_CPUTIME_ID), samples;
	struct profile *profile = fleet_profile(&bench->fleet, host, from_ns,
						from_ns + STEP_SECONDS * NS_PER_SECOND, &samples);
	uint32_t off_cpu = bench->off_cpu / (60 / STEP_SECONDS);

	fleet_add_off_cpu(&bench->fleet, host, profile, from_ns,
			  from_ns + STEP_SECONDS * NS_PER_SECOND, off_cpu);
	samples += off_cpu;
	batch.sequence = ++host->sequence;
	bench->samples += samples;
	bench->rows += profile->sample_count;
	bench->generate_cpu_ns += clock_of(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	if (store_append(bench->store, &batch, profile, &result, &err) < 0)
		die("append: %s", err.text);
	if (result.unknown_stack_count || result.duplicate)
		die("append: %u unknown stacks", result.unknown_stack_count);
	profile_free(profile);
}

static void run_step(struct bench *bench, uint64_t from_ns)
{
	struct error err = { 0 };

	for (uint32_t i = 0; i < bench->hosts; i++)
		append_interval(bench, &bench->fleet.hosts[i], from_ns);
	if (store_maintain(bench->store, from_ns + STEP_SECONDS * NS_PER_SECOND, &err) < 0)
		die("maintain: %s", err.text);
}

static void ingest(struct bench *bench)
{
	uint32_t segments = bench->minutes / 5 ? bench->minutes / 5 : 1;
	uint64_t step_ns = STEP_SECONDS * NS_PER_SECOND, at_ns = bench->from_ns;
	double rates[SEGMENTS_MAX];

	segments = segments < SEGMENTS_MAX ? segments : SEGMENTS_MAX;
	for (uint32_t i = 0; i < segments; i++) {
		uint64_t end_ns =
			bench->from_ns + (bench->to_ns - bench->from_ns) / segments * (i + 1);
		uint64_t cpu_ns = clock_process_cpu_ns() - bench->generate_cpu_ns;
		uint64_t rows = bench->rows;

		for (; at_ns < end_ns; at_ns += step_ns)
			run_step(bench, at_ns);
		cpu_ns = clock_process_cpu_ns() - bench->generate_cpu_ns - cpu_ns;
		rates[i] = (double)(bench->rows - rows) / (double)cpu_ns * 1e3;
	}
	print_figure("ingest, rows (all threads' CPU)", rates, segments, "M/CPU s");
}

static void print_sizes(struct bench *bench)
{
	struct store_stats stats;
	struct error err = { 0 };

	if (store_flush(bench->store, &err) < 0)
		die("flush: %s", err.text);
	store_close(bench->store);
	open_store(bench); // opening moves its write-ahead log to tables
	store_read_stats(bench->store, &stats);
	printf("  %-46s %llu samples, %llu rows, %llu series, %llu nodes\n", "stored",
	       (unsigned long long)bench->samples, (unsigned long long)bench->rows,
	       (unsigned long long)stats.series, (unsigned long long)stats.nodes);
	printf("  %-46s %.3f B/sample, %.3f B/row (%llu bytes)\n", "size on disk, everything",
	       (double)stats.stored_bytes / (double)bench->samples,
	       (double)stats.stored_bytes / (double)bench->rows,
	       (unsigned long long)stats.stored_bytes);
}

static void print_chunk_size(struct bench *bench)
{
	struct store_stats stats;

	store_read_stats(bench->store, &stats);
	if (stats.chunk_rows)
		printf("  %-46s %.3f B/row (%llu bytes, %llu rows)\n", "chunks with rollups",
		       (double)stats.chunk_bytes / (double)stats.chunk_rows,
		       (unsigned long long)stats.chunk_bytes, (unsigned long long)stats.chunk_rows);
}

/** As maintenance does an hour and more later. */
static void merge_hours(struct bench *bench)
{
	uint64_t cpu_ns = clock_process_cpu_ns();
	struct store_stats stats = { .partitions = 1 };
	struct error err = { 0 };

	while (stats.partitions_merged < stats.partitions) {
		if (store_maintain(bench->store, clock_realtime_ns(), &err) < 0)
			die("merge: %s", err.text);
		store_read_stats(bench->store, &stats);
	}
	if (store_flush(bench->store, &err) < 0) // what background compaction does in time
		die("flush: %s", err.text);
	printf("  %-46s %.2f M/CPU s\n", "rows merged",
	       (double)stats.rows_merged / (double)(clock_process_cpu_ns() - cpu_ns) * 1e3);
	printf("  %-46s %llu MB\n", "RSS after merging, peak",
	       (unsigned long long)memory_kib("VmHWM:") / 1024);
}

// ---- queries ----------------------------------------------------------------------------------------

static struct query query_of(struct bench *bench, const struct selector *selector,
			     uint64_t length_ns)
{
	uint64_t to_ns = bench->from_ns + length_ns;

	return (struct query){ .store = bench->store,
			       .selector = selector,
			       .type = bench->type,
			       .range = { bench->from_ns,
					  to_ns < bench->to_ns ? to_ns : bench->to_ns } };
}

static struct selector selector_or_die(const char *text)
{
	struct selector selector;
	struct error err = { 0 };

	if (selector_parse(text, SELECTOR_ALL_TENANTS, &selector, &err) < 0)
		die("%s", err.text);
	return selector;
}

struct sums {
	int64_t *values;
	uint32_t node_count;
	uint64_t rows;
};

static int begin_sums(void *context, const struct store_forest *forest)
{
	struct sums *sums = context;

	free(sums->values);
	sums->values = calloc(forest->node_count, sizeof(*sums->values));
	sums->node_count = forest->node_count;
	return 0;
}

static int add_sums(void *context, const struct store_rows *rows)
{
	struct sums *sums = context;

	for (uint32_t i = 0; i < rows->count; i++)
		sums->values[rows->nodes[i]] += rows->values[i];
	sums->rows += rows->count;
	return 0;
}

static bool is_left_out(const struct bench *bench, const char *query)
{
	return bench->only && !strstr(query, bench->only);
}

/** Scan and sum: a merge without names. */
static void bench_scan(struct bench *bench, const char *name, const char *selector_text,
		       uint64_t length_ns, enum scan_detail detail)
{
	if (is_left_out(bench, name))
		return;
	struct selector selector = selector_or_die(selector_text);
	struct query query = query_of(bench, &selector, length_ns);
	double times[REPETITIONS_MAX], cpu[REPETITIONS_MAX];
	struct error err = { 0 };
	uint64_t rows = 0;

	for (uint32_t i = 0; i < bench->repetitions; i++) {
		uint64_t start_ns = clock_monotonic_ns(), cpu_ns = clock_process_cpu_ns();
		struct sums sums = { 0 };
		struct store_scanner scanner = { .context = &sums,
						 .detail = detail,
						 .partition = begin_sums,
						 .rows = add_sums };
		struct store_selection *selection;

		if (store_select(bench->store, &selector, query.type, query.range, &selection,
				 &err) < 0 ||
		    store_scan(bench->store, selection, query.range, &scanner, &err) < 0)
			die("scan: %s", err.text);
		store_selection_free(selection);
		free(sums.values);
		rows = sums.rows;
		times[i] = (double)(clock_monotonic_ns() - start_ns) / 1e6;
		cpu[i] = (double)(clock_process_cpu_ns() - cpu_ns) / 1e6;
	}
	print_figure(name, times, bench->repetitions, "ms");
	print_figure("the same, CPU time", cpu, bench->repetitions, "ms");
	printf("  %-46s %llu rows\n", "", (unsigned long long)rows);
	selector_deinit(&selector);
}

static void bench_merge(struct bench *bench, const char *name, const char *selector_text,
			uint64_t length_ns, const char *group_by)
{
	if (is_left_out(bench, name))
		return;
	struct selector selector = selector_or_die(selector_text);
	struct query query = query_of(bench, &selector, length_ns);
	double times[REPETITIONS_MAX], cpu[REPETITIONS_MAX];
	struct error err = { 0 };

	query.group_by = group_by;
	for (uint32_t i = 0; i < bench->repetitions; i++) {
		uint64_t start_ns = clock_monotonic_ns(), cpu_ns = clock_process_cpu_ns();
		struct flame_tree tree;

		if (query_flame_tree(&query, &tree, &err) < 0)
			die("merge: %s", err.text);
		times[i] = (double)(clock_monotonic_ns() - start_ns) / 1e6;
		cpu[i] = (double)(clock_process_cpu_ns() - cpu_ns) / 1e6;
		flame_tree_deinit(&tree);
	}
	print_figure(name, times, bench->repetitions, "ms");
	print_figure("the same, CPU time", cpu, bench->repetitions, "ms");
	selector_deinit(&selector);
}

/** A heat map's selection: some regions, none of them a whole minute. CPU time, too: the machine may be busy. */
static void bench_regions(struct bench *bench, const char *name, const char *selector_text)
{
	if (is_left_out(bench, name))
		return;
	struct selector selector = selector_or_die(selector_text);
	struct query query = query_of(bench, &selector, 600 * NS_PER_SECOND);
	double times[REPETITIONS_MAX], cpu[REPETITIONS_MAX];
	struct error err = { 0 };
	uint64_t at_ns = query.range.from_ns + 10 * NS_PER_SECOND + 3 * FLEET_SLOT_NS;

	query.parts = (struct query_ranges){
		.at = { { at_ns, at_ns + FLEET_SLOT_NS },
			{ at_ns + NS_PER_SECOND, at_ns + 3 * NS_PER_SECOND },
			{ at_ns + 20 * NS_PER_SECOND, at_ns + 110 * NS_PER_SECOND } },
		.count = 3,
	};
	for (uint32_t i = 0; i < bench->repetitions; i++) {
		uint64_t start_ns = clock_monotonic_ns();
		uint64_t start_cpu_ns = clock_process_cpu_ns();
		struct flame_tree tree;

		if (query_flame_tree(&query, &tree, &err) < 0)
			die("regions: %s", err.text);
		times[i] = (double)(clock_monotonic_ns() - start_ns) / 1e6;
		cpu[i] = (double)(clock_process_cpu_ns() - start_cpu_ns) / 1e6;
		flame_tree_deinit(&tree);
	}
	print_figure(name, times, bench->repetitions, "ms");
	print_figure("the same, CPU time", cpu, bench->repetitions, "ms");
	selector_deinit(&selector);
}

static void bench_heat_map(struct bench *bench, const char *name, const char *selector_text)
{
	if (is_left_out(bench, name))
		return;
	struct selector selector = selector_or_die(selector_text);
	struct query query = query_of(bench, &selector, 3600 * NS_PER_SECOND);
	double times[REPETITIONS_MAX], cpu[REPETITIONS_MAX];
	struct error err = { 0 };

	for (uint32_t i = 0; i < bench->repetitions; i++) {
		uint64_t start_ns = clock_monotonic_ns(), cpu_ns = clock_process_cpu_ns();
		struct heat_map map;

		if (query_heat_map(&query, FLEET_SLOT_NS, 0, &map, &err) < 0)
			die("heat map: %s", err.text);
		times[i] = (double)(clock_monotonic_ns() - start_ns) / 1e6;
		cpu[i] = (double)(clock_process_cpu_ns() - cpu_ns) / 1e6;
		heat_map_deinit(&map);
	}
	print_figure(name, times, bench->repetitions, "ms");
	print_figure("the same, CPU time", cpu, bench->repetitions, "ms");
	selector_deinit(&selector);
}

static void query_cpu(struct bench *bench)
{
	static const char twenty[] = "{node=~\"node-0[01].\"}";
	uint64_t hour_ns = 3600 * NS_PER_SECOND, ten_ns = 600 * NS_PER_SECOND;

	bench_merge(bench, "merge, all hosts, 1 h", "{}", hour_ns, NULL);
	bench_merge(bench, "merge by service, all hosts, 1 h", "{}", hour_ns, LABEL_SERVICE);
	bench_merge(bench, "merge, one service, 1 h", "{service=\"svc0\"}", hour_ns, NULL);
	bench_merge(bench, "merge, 20 hosts, 10 min", twenty, ten_ns, NULL);
	bench_regions(bench, "merge, 20 hosts, regions of 20 ms, 2 s, 90 s", twenty);
	bench_merge(bench, "merge, one host, 1 h", "{node=\"node-007\"}", hour_ns, NULL);
	bench_scan(bench, "sums only, all hosts, 1 h", "{}", hour_ns, SCAN_SUMS);
	bench_scan(bench, "every row, all hosts, 1 h", "{}", hour_ns, SCAN_ROWS);
	bench_scan(bench, "sums only, 20 hosts, 10 min", twenty, ten_ns, SCAN_SUMS);
	bench_scan(bench, "every row, 20 hosts, 10 min", twenty, ten_ns, SCAN_ROWS);
	bench_heat_map(bench, "heat map, all hosts, 1 h at 20 ms", "{}");
	bench_heat_map(bench, "heat map, one service, 1 h at 20 ms", "{service=\"svc0\"}");
	bench_heat_map(bench, "heat map, one host, 1 h at 20 ms", "{node=\"node-007\"}");
}

/** Also of ranges that cut minutes: rollups do not help there, and intervals are cut. */
static void query_off_cpu(struct bench *bench)
{
	uint64_t hour_ns = 3600 * NS_PER_SECOND;

	bench->type = PROFILE_TYPE_OFF_CPU;
	bench_merge(bench, "off-CPU: merge, all hosts, 1 h", "{}", hour_ns, NULL);
	bench_merge(bench, "off-CPU: merge, all hosts, 50 s", "{}", 50 * NS_PER_SECOND, NULL);
	bench_merge(bench, "off-CPU: merge by wait class, all hosts, 1 h", "{}", hour_ns,
		    LABEL_WAIT);
	bench_merge(bench, "off-CPU: merge, one host, 1 h", "{node=\"node-007\"}", hour_ns, NULL);
	bench_heat_map(bench, "off-CPU: heat map, all hosts, 1 h at 20 ms", "{}");
	bench_heat_map(bench, "off-CPU: heat map, locks, 1 h at 20 ms", "{wait=\"lock\"}");
	bench_heat_map(bench, "off-CPU: heat map, one host, 1 h at 20 ms", "{node=\"node-007\"}");
}

/** The hours of a kept store. */
static void find_range(struct bench *bench)
{
	uint64_t hour_ns = 3600 * NS_PER_SECOND;
	struct store_stats stats;

	store_read_stats(bench->store, &stats);
	bench->rows = bench->samples = 0; // not known
	bench->from_ns = stats.oldest_ns / hour_ns * hour_ns;
	bench->to_ns = (stats.newest_ns / MINUTE_NS + 1) * MINUTE_NS;
}

static void fill_store(struct bench *bench)
{
	fleet_init(&bench->fleet, bench->hosts, bench->unit_ns);
	printf("  %-46s %llu MB\n", "RSS of the generator alone",
	       (unsigned long long)memory_kib("VmRSS:") / 1024);
	open_store(bench);
	ingest(bench);
	printf("  %-46s %llu MB\n", "RSS while ingesting, peak",
	       (unsigned long long)memory_kib("VmHWM:") / 1024);
	store_flush(bench->store, NULL);
	print_chunk_size(bench);
	print_sizes(bench);
}

// ---- the run ----------------------------------------------------------------------------------------

static void parse_options(struct bench *bench, int argc, char **argv)
{
	const char *kept = NULL, *reused = NULL;
	uint32_t unit_us = 100, memory_mb = 0;
	const struct argument arguments[] = {
		{ .name = "hosts", .number = &bench->hosts, .min = 1, .max = 10000 },
		{ .name = "minutes", .number = &bench->minutes, .min = 1, .max = 24 * 60 },
		{ .name = "repetitions",
		  .number = &bench->repetitions,
		  .min = 1,
		  .max = REPETITIONS_MAX },
		{ .name = "unit-us", .number = &unit_us, .min = 1, .max = 10000 },
		{ .name = "memory-mb", .number = &memory_mb, .min = 1, .max = 1 << 20 },
		{ .name = "off-cpu", .number = &bench->off_cpu, .min = 1, .max = 1000000 },
		{ .name = "keep", .text = &kept },
		{ .name = "reuse", .text = &reused }, // what --keep left: nothing is ingested
		{ .name = "no-merge", .flag = &bench->no_merge },
		{ .name = "only", .text = &bench->only },
	};

	read_arguments(argc, argv, arguments, ARRAY_SIZE(arguments),
		       "[--hosts N] [--minutes N] [--repetitions N] [--unit-us N] [--memory-mb N] "
		       "[--off-cpu N] [--keep DIRECTORY] [--reuse DIRECTORY] [--no-merge] "
		       "[--only QUERY]");
	bench->unit_ns = unit_us * NS_PER_US;
	bench->memory_bytes = (uint64_t)memory_mb << 20;
	if (kept || reused)
		bench->path = kept ? kept : reused;
	bench->keep = kept || reused;
	bench->reuse = reused;
}

int main(int argc, char **argv)
{
	char path[] = "/tmp/cairn-bench-XXXXXX";
	uint64_t hour_ns = 3600 * NS_PER_SECOND;
	struct bench bench = {
		.hosts = 100,
		.minutes = 60,
		.repetitions = 5,
		.path = path,
		.type = PROFILE_TYPE_CPU,
	};

	parse_options(&bench, argc, argv);
	if (!bench.keep && !mkdtemp(path))
		die("bench_store: cannot make a directory in /tmp");
	// Whole hours in the past, and one more, after which they are merged: no row is in the future, and partitions are whole.
	bench.from_ns = (clock_realtime_ns() / hour_ns - (bench.minutes + 59) / 60 - 1) * hour_ns;
	bench.to_ns = bench.from_ns + bench.minutes * 60 * NS_PER_SECOND;

	printf("store: %u hosts, %u min, 20 ms slots, 99 Hz, %u off-CPU intervals a minute and "
	       "host\n",
	       bench.hosts, bench.minutes, bench.off_cpu);
	if (bench.reuse) {
		open_store(&bench);
		find_range(&bench);
	} else {
		fill_store(&bench);
	}
	query_cpu(&bench);
	if (!bench.no_merge) {
		printf("store: the same, merged\n");
		merge_hours(&bench);
		print_sizes(&bench);
		query_cpu(&bench);
	}
	if (bench.off_cpu)
		query_off_cpu(&bench);
	printf("  %-46s %llu MB\n", "RSS at the end, peak",
	       (unsigned long long)memory_kib("VmHWM:") / 1024);
	store_close(bench.store);
	if (!bench.keep)
		remove_store(path);
	return 0;
}
