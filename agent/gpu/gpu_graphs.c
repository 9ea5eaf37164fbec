// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_graphs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/array.h"
#include "base/clock.h"

static void free_graph(struct gpu_graphs *graphs, struct gpu_captured_graph *graph)
{
	graphs->stack_count -= graph->count;
	free(graph->stacks);
	free(graph->parts);
}

void gpu_graphs_deinit(struct gpu_graphs *graphs)
{
	for (uint32_t i = 0; i < graphs->count; i++)
		free_graph(graphs, &graphs->graphs[i]);
	free(graphs->graphs);
	*graphs = (struct gpu_graphs){ 0 };
}

// ---- finding --------------------------------------------------------------------------------

// Of the first graph whose number is not below @number.
static uint32_t position_of(const struct gpu_graphs *graphs, uint64_t number)
{
	uint32_t from = 0, end = graphs->count;

	while (from < end) {
		uint32_t middle = from + (end - from) / 2;

		if (graphs->graphs[middle].number < number)
			from = middle + 1;
		else
			end = middle;
	}
	return from;
}

static struct gpu_captured_graph *find(struct gpu_graphs *graphs, uint64_t number)
{
	uint32_t at = position_of(graphs, number);

	return at < graphs->count && graphs->graphs[at].number == number ? &graphs->graphs[at]
									 : NULL;
}

static struct gpu_captured_graph *add(struct gpu_graphs *graphs, uint64_t number)
{
	uint32_t at = position_of(graphs, number);

	if (array_reserve(&graphs->graphs, sizeof(*graphs->graphs), &graphs->capacity,
			  graphs->count, 1, UINT32_MAX))
		return NULL;
	memmove(&graphs->graphs[at + 1], &graphs->graphs[at],
		(graphs->count - at) * sizeof(*graphs->graphs));
	graphs->count++;
	graphs->graphs[at] =
		(struct gpu_captured_graph){ .number = number, .was_referenced = true };
	return &graphs->graphs[at];
}

// ---- draining -------------------------------------------------------------------------------

static int take_launches(void *context, const void *key, const void *value)
{
	struct gpu_graphs *graphs = context;
	uint64_t number = *(const uint64_t *)key;
	struct gpu_captured_graph *graph = find(graphs, number);

	if (!graph)
		graph = add(graphs, number);
	if (!graph)
		return -ENOMEM;
	graph->launches = *(const uint64_t *)value;
	graph->is_incomplete =
		graph->is_incomplete || graph->launches == GPU_GRAPH_LAUNCHES_UNKNOWN;
	return 0;
}

static int append(struct gpu_captured_graph *graph, const struct gpu_owner *owner,
		  uint64_t launches)
{
	int rc = array_reserve(&graph->stacks, sizeof(*graph->stacks), &graph->capacity,
			       graph->count, 1, GPU_GRAPH_KERNELS_MAX);

	if (!rc)
		graph->stacks[graph->count++] = (struct gpu_graph_stack){ *owner, launches };
	return rc;
}

// True: remove it from the map. Stacks of a capture that has not ended stay there.
static bool take_kernel(void *context, const void *key, const void *value)
{
	struct gpu_graphs *graphs = context;
	const struct gpu_graph_kernel *kernel = key;
	uint64_t launches = *(const uint64_t *)value;
	struct gpu_captured_graph *graph = find(graphs, kernel->graph);

	if (!graph)
		return false;
	if (graph->is_incomplete)
		return true;
	if (graphs->stack_count == GPU_GRAPH_KERNELS_MAX ||
	    append(graph, &kernel->owner, launches)) {
		graphs->is_full = graph->is_incomplete = true;
	} else {
		graphs->stack_count++;
	}
	return true;
}

// Parts of a graph that was captured after the graphs were read stay in the map. No graph has more than two.
static bool take_part(void *context, const void *key, const void *value)
{
	const struct gpu_graph_part_key *part = key;
	struct gpu_captured_graph *graph = find(context, part->graph);

	if (!graph)
		return false;
	if (part->part >= part->graph)
		return true; // would make a cycle; the programs never write one
	struct gpu_graph_part *grown =
		reallocarray(graph->parts, graph->part_count + 1, sizeof(*grown));
	if (!grown)
		return false;
	graph->parts = grown;
	graph->parts[graph->part_count++] =
		(struct gpu_graph_part){ part->part, *(const uint64_t *)value };
	return true;
}

// ---- exporting ------------------------------------------------------------------------------

// A graph with an incomplete part is incomplete. Parts come first: their numbers are lower.
static void mark_incomplete(struct gpu_graphs *graphs)
{
	for (uint32_t i = 0; i < graphs->count; i++) {
		struct gpu_captured_graph *graph = &graphs->graphs[i];

		for (uint32_t j = 0; j < graph->part_count && !graph->is_incomplete; j++) {
			const struct gpu_captured_graph *part =
				find(graphs, graph->parts[j].number);

			graph->is_incomplete = part && part->is_incomplete;
		}
	}
}

// A launch of a graph launches its parts.
static void launch_parts(struct gpu_graphs *graphs, const struct gpu_captured_graph *graph,
			 uint64_t news)
{
	for (uint32_t i = 0; i < graph->part_count; i++) {
		struct gpu_captured_graph *part = find(graphs, graph->parts[i].number);

		if (part)
			part->within += news * graph->parts[i].times;
	}
}

static int export_stacks(const struct gpu_captured_graph *graph, uint64_t news,
			 struct export_interval *interval, uint64_t now_ns)
{
	const struct profile *profile = interval->profile;
	uint64_t first = profile->from_ns / profile->slot_ns;
	uint64_t last = clock_realtime_ns() / profile->slot_ns;
	int rc = 0;

	for (uint32_t i = 0; i < graph->count && !rc; i++) {
		const struct gpu_owner *owner = &graph->stacks[i].owner;
		struct count_key key = {
			.process = owner->process,
			.user = owner->user,
			.user_leaf = owner->leaf,
			.kind = SAMPLE_KIND_GPU_GRAPH_KERNELS,
			.slot = first,
			.more_slots = last > first + 1 ? (uint32_t)(last - first - 1) : 0,
		};
		struct count count = { .value = news * graph->stacks[i].launches,
				       .samples = news * graph->stacks[i].launches };

		memcpy(key.thread_name, owner->thread_name, sizeof(key.thread_name));
		rc = export_interval_add(interval, &key, &count, now_ns);
	}
	return rc;
}

// Keeps the stacks from being evicted while the graph can still be launched.
static void use_stacks(const struct gpu_captured_graph *graph, struct stack_table *stacks,
		       uint64_t now_ns)
{
	for (uint32_t i = 0; i < graph->count; i++)
		stack_table_find(stacks, &graph->stacks[i].owner.user, now_ns);
}

int gpu_graphs_export(struct gpu_graphs *graphs, struct map_entries *entries,
		      const struct gpu_graph_maps *maps, struct export_interval *interval,
		      uint64_t now_ns)
{
	int rc = map_entries_each(entries, maps->launches, take_launches, graphs);

	if (!rc)
		rc = map_entries_remove(entries, maps->gpu_kernels, take_kernel, graphs);
	if (rc >= 0)
		rc = map_entries_remove(entries, maps->parts, take_part, graphs);
	mark_incomplete(graphs);
	for (uint32_t i = graphs->count; i > 0 && rc >= 0; i--) {
		struct gpu_captured_graph *graph = &graphs->graphs[i - 1];
		uint64_t news = graph->launches - graph->exported + graph->within;

		if (graph->is_incomplete)
			continue;
		graph->exported = graph->launches;
		graph->within = 0;
		launch_parts(graphs, graph, news);
		if (news)
			rc = export_stacks(graph, news, interval, now_ns);
		else
			use_stacks(graph, interval->sources.stacks, now_ns);
	}
	return rc < 0 ? rc : 0;
}

// ---- sweeping -------------------------------------------------------------------------------

static int note_use(void *context, const void *key, const void *value)
{
	const struct gpu_graph *handle = value;
	struct gpu_captured_graph *graph = find(context, handle->number);

	(void)key;
	if (graph)
		graph->is_referenced = true;
	return 0;
}

// A part is referenced as long as its container.
static void reference_parts(struct gpu_graphs *graphs)
{
	for (uint32_t i = graphs->count; i > 0; i--) {
		const struct gpu_captured_graph *graph = &graphs->graphs[i - 1];

		for (uint32_t j = 0; graph->is_referenced && j < graph->part_count; j++) {
			struct gpu_captured_graph *part = find(graphs, graph->parts[j].number);

			if (part)
				part->is_referenced = true;
		}
	}
}

int gpu_graphs_sweep(struct gpu_graphs *graphs, struct map_entries *entries,
		     const struct gpu_graph_maps *maps)
{
	int rc = map_entries_each(entries, maps->graphs, note_use, graphs);
	uint32_t kept = 0;

	if (rc)
		return rc;
	reference_parts(graphs);
	for (uint32_t i = 0; i < graphs->count; i++) {
		struct gpu_captured_graph *graph = &graphs->graphs[i];

		if (!graph->is_referenced && !graph->was_referenced) {
			bpf_map_delete_elem(bpf_map__fd(maps->launches), &graph->number);
			free_graph(graphs, graph);
			continue;
		}
		graph->was_referenced = graph->is_referenced;
		graph->is_referenced = false;
		graphs->graphs[kept++] = *graph;
	}
	graphs->count = kept;
	return 0;
}
