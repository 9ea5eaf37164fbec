// SPDX-License-Identifier: Apache-2.0
// Measures queries of a kept store of real data (bench_fleet.py --keep): wall time and CPU time of all threads, and a
// fingerprint of each answer, so that two builds can be compared. The store is opened as it is; --merge merges its hours first.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/arguments.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "collector/query/query.h"
#include "collector/spikes/spikes.h"
#include "collector/store/rocksdb/rocksdb.h"
#include "collector/store/selector.h"

#define HOUR_NS (3600 * NS_PER_SECOND)

enum { REPETITIONS_MAX = 101, MINUTE_S = 60 };

struct bench {
	const char *path, *only;
	uint32_t repetitions, memory_mb;
	bool merge;
	struct store *store;
	struct time_range all;
	char twenty[2048], one[256]; // selectors
};

/** A query under measurement. *ret_print: the answer's fingerprint, which takes time; NULL: not wanted. */
typedef void answer_fn(const struct bench *bench, const struct query *query, uint64_t *ret_print);

/** FNV-1a: hash64_of() differs from process to process. */
static uint64_t print_of(const void *bytes, size_t size, uint64_t before)
{
	uint64_t print = 0xcbf29ce484222325ULL ^ (before * 0x9e3779b97f4a7c15ULL);

	for (size_t i = 0; i < size; i++)
		print = (print ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3ULL;
	return print;
}

static uint64_t print_of_text(const char *text, uint64_t before)
{
	return print_of(text, strlen(text), before);
}

// ---- queries --------------------------------------------------------------------------------

/** The sum over all nodes of what hashes a node's path and values: independent of their order. */
static uint64_t print_of_tree(const struct flame_tree *tree)
{
	uint64_t *paths = calloc(tree->node_count + 1ULL, sizeof(*paths)), sum = 0;

	for (uint32_t i = 0; paths && i < tree->node_count; i++) {
		const struct flame_node *node = &tree->nodes[i];
		int64_t values[] = { (int64_t)node->kind, node->self, node->total };

		paths[i] = print_of_text(string_table_get(&tree->strings, node->name),
					 i ? paths[node->parent] : 0);
		sum += print_of(values, sizeof(values), paths[i]);
	}
	free(paths);
	return sum;
}

static void answer_merge(const struct bench *bench, const struct query *query, uint64_t *ret_print)
{
	struct flame_tree tree;
	struct error err = { 0 };

	(void)bench;
	if (query_flame_tree(query, &tree, &err) < 0)
		die("merge: %s", err.text);
	if (ret_print)
		*ret_print = print_of_tree(&tree);
	flame_tree_deinit(&tree);
}

static void answer_heat_map(const struct bench *bench, const struct query *query,
			    uint64_t *ret_print)
{
	struct heat_map map;
	struct error err = { 0 };

	(void)bench;
	if (query_heat_map(query, 20 * NS_PER_MS, 0, &map, &err) < 0)
		die("heat map: %s", err.text);
	if (ret_print)
		*ret_print = print_of(map.values, map.slot_count * sizeof(*map.values), 0);
	heat_map_deinit(&map);
}

static void answer_series(const struct bench *bench, const struct query *query, uint64_t *ret_print)
{
	struct query_series_set set;
	struct error err = { 0 };
	uint64_t print = 0;

	(void)bench;
	if (query_series(query, 10 * NS_PER_SECOND, &set, &err) < 0)
		die("series: %s", err.text);
	for (uint32_t i = 0; ret_print && i < set.count; i++)
		print += print_of(set.series[i].values, set.step_count * sizeof(int64_t),
				  print_of_text(set.series[i].group, 0));
	if (ret_print)
		*ret_print = print;
	query_series_set_deinit(&set);
}

static uint64_t print_of_spike(const struct spike *spike, uint64_t before)
{
	const double values[] = { (double)spike->interval.from_ns,
				  (double)spike->interval.to_ns,
				  spike->value,
				  spike->extra,
				  spike->surprise,
				  spike->score };

	before = print_of(values, sizeof(values), before);
	before = print_of_text(spike->service, print_of_text(spike->group, before));
	before = print_of_text(spike->type->type, before);
	before = print_of_text(spike->cause.code.leaf,
			       print_of_text(spike->cause.code.caller, before));
	for (uint32_t i = 0; i < spike->cause.label_count; i++)
		before = print_of_text(spike->cause.labels[i].values[0], before);
	return print_of_text(spike->cause.meanwhile_service, before);
}

static void answer_some_spikes(const struct query *query, bool unexplained, uint64_t *ret_print)
{
	const struct spikes_options options = { .min_s = SPIKES_MIN_S_DEFAULT,
						.limit = SPIKES_LIMIT_DEFAULT,
						.unexplained = unexplained };
	struct spikes spikes;
	struct error err = { 0 };
	uint64_t print = 0;

	if (query_spikes(query, &options, &spikes, &err) < 0)
		die("spikes: %s", err.text);
	for (uint32_t i = 0; i < spikes.count; i++)
		print = print_of_spike(&spikes.items[i], print);
	if (ret_print)
		*ret_print = print + spikes.found;
	spikes_deinit(&spikes);
}

static void answer_spikes(const struct bench *bench, const struct query *query, uint64_t *ret_print)
{
	(void)bench;
	answer_some_spikes(query, false, ret_print);
}

static void answer_spikes_unexplained(const struct bench *bench, const struct query *query,
				      uint64_t *ret_print)
{
	(void)bench;
	answer_some_spikes(query, true, ret_print);
}

// ---- measuring ------------------------------------------------------------------------------

static int compare_doubles(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static void print_times(const char *name, double *wall, double *cpu, uint32_t count, uint64_t print)
{
	qsort(wall, count, sizeof(*wall), compare_doubles);
	qsort(cpu, count, sizeof(*cpu), compare_doubles);
	printf("  %-42s CPU %8.1f ms [%.1f..%.1f], wall %8.1f ms [%.1f..%.1f], answer %016llx\n",
	       name, cpu[count / 2], cpu[0], cpu[count - 1], wall[count / 2], wall[0],
	       wall[count - 1], (unsigned long long)print);
	fflush(stdout);
}

static void measure(const struct bench *bench, const char *name, const char *selector_text,
		    const struct query *asked, answer_fn *answer)
{
	double wall[REPETITIONS_MAX], cpu[REPETITIONS_MAX];
	struct selector selector;
	struct error err = { 0 };
	struct query query = *asked;
	uint64_t print = 0;

	if (bench->only && !strstr(name, bench->only))
		return;
	if (selector_parse(selector_text, SELECTOR_ALL_TENANTS, &selector, &err) < 0)
		die("%s", err.text);
	query.store = bench->store;
	query.selector = &selector;
	answer(bench, &query, &print); // fills caches, too
	for (uint32_t i = 0; i < bench->repetitions; i++) {
		uint64_t wall_ns = clock_monotonic_ns(), cpu_ns = clock_process_cpu_ns();

		answer(bench, &query, NULL);
		wall[i] = (double)(clock_monotonic_ns() - wall_ns) / 1e6;
		cpu[i] = (double)(clock_process_cpu_ns() - cpu_ns) / 1e6;
	}
	print_times(name, wall, cpu, bench->repetitions, print);
	selector_deinit(&selector);
}

/** A heat map's selection: none of its regions is a whole minute. */
static struct query regions_of(const struct bench *bench, const char *type)
{
	uint64_t at_ns = bench->all.from_ns + 130 * NS_PER_SECOND + 60 * NS_PER_MS;
	struct query query = { .type = type, .range = bench->all };

	query.parts = (struct query_ranges){
		.at = { { at_ns, at_ns + 20 * NS_PER_MS },
			{ at_ns + NS_PER_SECOND, at_ns + 3 * NS_PER_SECOND },
			{ at_ns + 20 * NS_PER_SECOND, at_ns + 110 * NS_PER_SECOND } },
		.count = 3,
	};
	return query;
}

static void measure_all(const struct bench *bench)
{
	const struct query cpu = { .type = PROFILE_TYPE_CPU, .range = bench->all };
	const struct query off_cpu = { .type = PROFILE_TYPE_OFF_CPU, .range = bench->all };
	const struct query wall = { .type = PROFILE_TYPE_WALL, .range = bench->all };
	const struct query regions = regions_of(bench, PROFILE_TYPE_CPU);
	const struct query off_cpu_regions = regions_of(bench, PROFILE_TYPE_OFF_CPU);
	struct query by_service = cpu, by_wait = off_cpu;

	by_service.group_by = LABEL_SERVICE;
	by_wait.group_by = LABEL_WAIT;
	measure(bench, "spikes", "{}", &cpu, answer_spikes);
	measure(bench, "spikes, unexplained", "{}", &cpu, answer_spikes_unexplained);
	measure(bench, "merge, 20 nodes", bench->twenty, &cpu, answer_merge);
	measure(bench, "merge, 20 nodes, regions", bench->twenty, &regions, answer_merge);
	measure(bench, "merge, one node", bench->one, &cpu, answer_merge);
	measure(bench, "merge, all", "{}", &cpu, answer_merge);
	measure(bench, "merge, all, by service", "{}", &by_service, answer_merge);
	measure(bench, "merge, off-CPU, 20 nodes", bench->twenty, &off_cpu, answer_merge);
	measure(bench, "merge, off-CPU, 20 nodes, regions", bench->twenty, &off_cpu_regions,
		answer_merge);
	measure(bench, "merge, off-CPU, all, by wait class", "{}", &by_wait, answer_merge);
	measure(bench, "heat map, all", "{}", &cpu, answer_heat_map);
	measure(bench, "heat map, one node", bench->one, &cpu, answer_heat_map);
	measure(bench, "heat map, off-CPU, one node", bench->one, &off_cpu, answer_heat_map);
	measure(bench, "heat map, off-CPU, all", "{}", &off_cpu, answer_heat_map);
	measure(bench, "heat map, wall, all", "{}", &wall, answer_heat_map);
	measure(bench, "series by service", "{}", &by_service, answer_series);
	measure(bench, "series by wait class", "{}", &by_wait, answer_series);
}

// ---- the store ------------------------------------------------------------------------------

static void open_store(struct bench *bench)
{
	struct store_options options = { .path = bench->path,
					 .memory_bytes = (uint64_t)bench->memory_mb << 20 };
	struct store_stats stats;
	struct error err = { 0 };

	if (rocksdb_store_open(&options, &bench->store, &err) < 0)
		die("%s", err.text);
	if (store_flush(bench->store, &err) < 0)
		die("flush: %s", err.text);
	store_read_stats(bench->store, &stats);
	bench->all = (struct time_range){ stats.oldest_ns, stats.newest_ns + 1 };
	printf("store: %llu bytes, %llu series, %llu nodes of stacks, %.1f min\n",
	       (unsigned long long)stats.stored_bytes, (unsigned long long)stats.series,
	       (unsigned long long)stats.nodes,
	       (double)(bench->all.to_ns - bench->all.from_ns) / 1e9 / MINUTE_S);
}

/** The first twenty values of the label `node`, and one. */
static void choose_nodes(struct bench *bench)
{
	struct selector selector;
	struct name_list nodes;
	struct error err = { 0 };
	size_t size;

	if (selector_parse("{}", SELECTOR_ALL_TENANTS, &selector, &err) < 0 ||
	    store_label_values(bench->store, LABEL_NODE, &selector, bench->all, &nodes, &err) < 0)
		die("nodes: %s", err.text);
	selector_deinit(&selector);
	if (!nodes.count)
		die("the store has no nodes");
	snprintf(bench->one, sizeof(bench->one), "{node=\"%s\"}", nodes.names[0]);
	size = (size_t)snprintf(bench->twenty, sizeof(bench->twenty), "{node=~\"");
	for (uint32_t i = 0; i < nodes.count && i < 20; i++)
		size += (size_t)snprintf(bench->twenty + size, sizeof(bench->twenty) - size, "%s%s",
					 i ? "|" : "", nodes.names[i]);
	snprintf(bench->twenty + size, sizeof(bench->twenty) - size, "\"}");
	name_list_deinit(&nodes);
}

/** As maintenance does an hour and more later. */
static void merge_hours(struct bench *bench)
{
	struct store_stats stats = { .partitions = 1 };
	uint64_t cpu_ns = clock_process_cpu_ns();
	uint64_t now_ns = bench->all.to_ns + 2 * HOUR_NS; // its hours are past
	struct error err = { 0 };

	while (stats.partitions_merged < stats.partitions) {
		if (store_maintain(bench->store, now_ns, &err) < 0)
			die("merge: %s", err.text);
		store_read_stats(bench->store, &stats);
	}
	if (store_flush(bench->store, &err) < 0)
		die("flush: %s", err.text);
	store_read_stats(bench->store, &stats);
	printf("merged: %llu rows in %.1f s of CPU; %llu bytes\n",
	       (unsigned long long)stats.rows_merged,
	       (double)(clock_process_cpu_ns() - cpu_ns) / 1e9,
	       (unsigned long long)stats.stored_bytes);
}

static void parse_options(struct bench *bench, int argc, char **argv)
{
	static const char usage[] = "--store DIRECTORY [--repetitions N] [--memory-mb N] "
				    "[--only QUERY] [--merge]";
	const struct argument arguments[] = {
		{ .name = "store", .text = &bench->path },
		{ .name = "repetitions",
		  .number = &bench->repetitions,
		  .min = 1,
		  .max = REPETITIONS_MAX },
		{ .name = "memory-mb", .number = &bench->memory_mb, .min = 1, .max = 1 << 20 },
		{ .name = "only", .text = &bench->only },
		{ .name = "merge", .flag = &bench->merge },
	};

	read_arguments(argc, argv, arguments, ARRAY_SIZE(arguments), usage);
	if (!bench->path)
		die("usage: bench_queries %s", usage);
}

int main(int argc, char **argv)
{
	struct bench bench = { .repetitions = 5, .memory_mb = 1024 };

	parse_options(&bench, argc, argv);
	open_store(&bench);
	if (bench.merge)
		merge_hours(&bench);
	choose_nodes(&bench);
	measure_all(&bench);
	store_close(bench.store);
	return 0;
}
