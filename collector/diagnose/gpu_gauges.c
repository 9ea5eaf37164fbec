// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/gpu_gauges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_values.h"
#include "collector/store/selector.h"
#include "base/contract/label_names.h"

#define UUID_MIG "MIG-" // an instance's begins so

/* Each GPU has it, and it is never 0. */
#define TYPE_PRESENCE PROFILE_TYPE_GPU_MEMORY_USED

enum {
	STEPS_MAX = 1000,     // a mean needs no more points
	GROWTH_RANGE_S = 600, // shorter ones show a batch, not a leak
	GROWTH_PARTS = 10,
};

/** The selected processes' GPUs. */
struct gauge_reader {
	const struct query *query;
	struct selector gpus; // owned
	uint64_t step_ns;
	struct query_series_set presence;
	uint32_t gpu_count;
	bool has_instances; // parts of GPUs among them, under MIG
};

static void gauge_reader_deinit(struct gauge_reader *reader)
{
	selector_deinit(&reader->gpus);
	query_series_set_deinit(&reader->presence);
}

static int read_series(const struct gauge_reader *reader, const struct selector *selector,
		       const char *type, const char *label, struct query_series_set *ret_set,
		       struct error *err)
{
	struct query query = *reader->query;

	query.selector = selector;
	query.type = type;
	query.group_by = label;
	return query_series(&query, reader->step_ns, ret_set, err);
}

// Those of NVIDIA are "GPU-" or "MIG-" and hexadecimal digits; others would have to be quoted.
static bool is_uuid(const char *text)
{
	return *text && strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				     "0123456789-") == strlen(text);
}

static int select_gpus(struct gauge_reader *reader, const struct query_series_set *own,
		       struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	buffer_append_string(&text, "{" LABEL_GPU_UUID "=~\"");
	for (uint32_t i = 0; i < own->count && reader->gpu_count < GPU_GAUGES_MAX; i++) {
		if (!is_uuid(own->series[i].group))
			continue;
		buffer_append_string(&text, reader->gpu_count++ ? "|" : "");
		buffer_append_string(&text, own->series[i].group);
		reader->has_instances |=
			strncmp(own->series[i].group, UUID_MIG, strlen(UUID_MIG)) == 0;
	}
	buffer_append_string(&text, "\"}");
	buffer_append_byte(&text, 0);
	if (text.rc)
		return error_set(err, text.rc, "out of memory for the GPUs");
	if (!reader->gpu_count)
		return 0;
	return selector_parse((const char *)text.bytes, selector_tenant(reader->query->selector),
			      &reader->gpus, err);
}

static int find_gpus(struct gauge_reader *reader, struct error *err)
{
	static const char *const types[] = { PROFILE_TYPE_GPU_PROCESS_MEMORY,
					     PROFILE_TYPE_GPU_PROCESS_BUSY };
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(types) && !rc && !reader->gpu_count; i++) {
		_cleanup_(query_series_set_deinit) struct query_series_set own = { 0 };

		rc = read_series(reader, reader->query->selector, types[i], LABEL_GPU_UUID, &own,
				 err);
		if (!rc)
			rc = select_gpus(reader, &own, err);
	}
	if (!rc && reader->gpu_count)
		rc = read_series(reader, &reader->gpus, TYPE_PRESENCE, LABEL_GPU_UUID,
				 &reader->presence, err);
	return rc;
}

// ---- means ----------------------------------------------------------------------------------

static const struct query_series *series_of(const struct query_series_set *set, const char *group)
{
	for (uint32_t i = 0; i < set->count; i++) {
		if (strcmp(set->series[i].group, group) == 0)
			return &set->series[i];
	}
	return NULL;
}

// Over the steps in which the GPU answered; a gauge that it does not have is unknown.
static bool mean_of_gpu(const struct gauge_reader *reader, const struct query_series_set *set,
			const struct query_series *present, double *ret_mean)
{
	const struct query_series *series = series_of(set, present->group);
	uint32_t steps = 0;
	double sum = 0;

	for (uint32_t i = 0; series && i < reader->presence.step_count && i < set->step_count;
	     i++) {
		if (present->values[i] <= 0)
			continue;
		sum += (double)series->values[i];
		steps++;
	}
	if (!steps)
		return false;
	*ret_mean = sum / steps;
	return true;
}

/** A gauge over the GPUs that have it. */
struct gauge {
	double mean, max;
	uint32_t gpu_count;
};

static int read_gauge(const struct gauge_reader *reader, const char *type, struct gauge *ret_gauge,
		      struct error *err)
{
	_cleanup_(query_series_set_deinit) struct query_series_set set = { 0 };
	struct gauge gauge = { 0 };
	int rc = read_series(reader, &reader->gpus, type, LABEL_GPU_UUID, &set, err);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < reader->presence.count; i++) {
		double mean;

		if (!mean_of_gpu(reader, &set, &reader->presence.series[i], &mean))
			continue;
		gauge.mean += mean;
		gauge.max = mean > gauge.max ? mean : gauge.max;
		gauge.gpu_count++;
	}
	if (gauge.gpu_count)
		gauge.mean /= gauge.gpu_count;
	*ret_gauge = gauge;
	return 0;
}

static int read_activity(const struct gauge_reader *reader, struct gpu_figures *figures,
			 struct error *err)
{
	static const struct {
		const char *type;
		enum gpu_figure figure;
	} gauges[] = {
		{ PROFILE_TYPE_GPU_SM_ACTIVE, GPU_FIGURE_SM_ACTIVE },
		{ PROFILE_TYPE_GPU_TENSOR_ACTIVE, GPU_FIGURE_TENSOR_ACTIVE },
		{ PROFILE_TYPE_GPU_DRAM_ACTIVE, GPU_FIGURE_DRAM_ACTIVE },
		{ PROFILE_TYPE_GPU_FP64_ACTIVE, GPU_FIGURE_FP_ACTIVE },
		{ PROFILE_TYPE_GPU_FP32_ACTIVE, GPU_FIGURE_FP_ACTIVE },
		{ PROFILE_TYPE_GPU_FP16_ACTIVE, GPU_FIGURE_FP_ACTIVE },
	};
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(gauges) && !rc; i++) {
		struct gauge gauge = { 0 };

		rc = read_gauge(reader, gauges[i].type, &gauge, err);
		if (!rc && gauge.gpu_count &&
		    (!gpu_figures_know(figures, gauges[i].figure) ||
		     figures->values[gauges[i].figure] < gauge.mean / 100))
			gpu_figures_set(figures, gauges[i].figure, gauge.mean / 100);
	}
	return rc;
}

// ---- what is more than a mean ---------------------------------------------------------------

static double max_of(const struct query_series *series, uint32_t step_count)
{
	int64_t max = 0;

	for (uint32_t i = 0; series && i < step_count; i++)
		max = series->values[i] > max ? series->values[i] : max;
	return (double)max;
}

// A link that has nothing to carry goes down to a slower generation: its fastest second counts.
static int read_link(const struct gauge_reader *reader, struct gpu_figures *figures,
		     struct error *err)
{
	_cleanup_(query_series_set_deinit) struct query_series_set received = { 0 }, link = { 0 };
	int rc = read_series(reader, &reader->gpus, PROFILE_TYPE_GPU_PCIE_RECEIVED, LABEL_GPU_UUID,
			     &received, err);
	double use = -1;

	if (!rc)
		rc = read_series(reader, &reader->gpus, PROFILE_TYPE_GPU_PCIE_LINK, LABEL_GPU_UUID,
				 &link, err);
	for (uint32_t i = 0; i < reader->presence.count && !rc; i++) {
		const struct query_series *gpu = &reader->presence.series[i];
		double carried = max_of(series_of(&link, gpu->group), link.step_count), mean;

		if (carried > 0 && mean_of_gpu(reader, &received, gpu, &mean) &&
		    mean / carried > use)
			use = mean / carried;
	}
	if (!rc && use >= 0)
		gpu_figures_set(figures, GPU_FIGURE_PCIE_USE, use);
	return rc;
}

// Busy means that some GPU kernel was resident: what is left is time in which there was none.
static int read_busy(const struct gauge_reader *reader, struct gpu_figures *figures,
		     struct error *err)
{
	struct gauge busy = { 0 }, received = { 0 };
	int rc = read_gauge(reader, PROFILE_TYPE_GPU_BUSY, &busy, err);

	if (!rc)
		rc = read_gauge(reader, PROFILE_TYPE_GPU_PCIE_RECEIVED, &received, err);
	if (!rc && busy.gpu_count)
		gpu_figures_set(figures, GPU_FIGURE_IDLE, 1 - busy.mean / 100);
	if (!rc && received.gpu_count)
		gpu_figures_set(figures, GPU_FIGURE_PCIE_RECEIVED, received.max);
	return rc;
}

// One second may have several reasons, and then it is in each of their sums: the largest counts.
static int read_throttling(const struct gauge_reader *reader, struct gpu_figures *figures,
			   struct error *err)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	struct query query = *reader->query;
	int64_t throttled_ns = 0, capped_ns = 0;

	// Clocks are the whole GPU's, which is not known here by its parts.
	if (reader->has_instances)
		return 0;
	query.selector = &reader->gpus;
	query.type = PROFILE_TYPE_GPU_THROTTLED;
	query.group_by = LABEL_REASON;
	int rc = query_flame_tree(&query, &tree, err);
	if (rc)
		return rc;
	for (uint32_t i = 1; i < tree.node_count; i++) {
		const struct flame_node *node = &tree.nodes[i];

		if (strcmp(string_table_get(&tree.strings, node->name), REASON_POWER_CAP) == 0)
			capped_ns = node->total;
		else if (node->total > throttled_ns)
			throttled_ns = node->total;
	}
	double whole = (double)figures->range_ns * reader->gpu_count;
	gpu_figures_set(figures, GPU_FIGURE_THROTTLED, (double)throttled_ns / whole);
	gpu_figures_set(figures, GPU_FIGURE_POWER_CAPPED, (double)capped_ns / whole);
	return 0;
}

// A process's share is known where there is no MIG.
static int read_others(const struct gauge_reader *reader, struct gpu_figures *figures,
		       struct error *err)
{
	_cleanup_(query_series_set_deinit) struct query_series_set own = { 0 }, all = { 0 };
	int rc = read_series(reader, reader->query->selector, PROFILE_TYPE_GPU_PROCESS_BUSY, NULL,
			     &own, err);

	if (!rc)
		rc = read_series(reader, &reader->gpus, PROFILE_TYPE_GPU_PROCESS_BUSY, NULL, &all,
				 err);
	if (rc || !all.count)
		return rc;
	int64_t own_percent = own.count ? own.series[0].total : 0;
	double others = (double)(all.series[0].total - own_percent) / reader->gpu_count;
	gpu_figures_set(figures, GPU_FIGURE_OTHERS, others > 0 ? others / 100 : 0);
	return 0;
}

// The means of the parts of a series; false if one of them was 0: a pod that came or went.
static bool parts_of(const struct query_series *series, uint32_t step_count,
		     double parts[GROWTH_PARTS])
{
	for (uint32_t part = 0; part < GROWTH_PARTS; part++) {
		uint32_t from = part * step_count / GROWTH_PARTS;
		uint32_t to = (part + 1) * step_count / GROWTH_PARTS;

		parts[part] = 0;
		for (uint32_t i = from; i < to; i++)
			parts[part] += (double)series->values[i] / (to - from);
		if (parts[part] <= 0)
			return false;
	}
	return true;
}

// Of one pod, a part of what it had first, over all of the range. What also shrinks is a cache.
static double growth_of(const struct query_series *series, uint32_t step_count)
{
	double parts[GROWTH_PARTS];

	if (step_count < GROWTH_PARTS || !parts_of(series, step_count, parts))
		return 0;
	for (uint32_t i = 1; i < GROWTH_PARTS; i++) {
		if (parts[i] < parts[i - 1])
			return 0;
	}
	// From the middle of the first part to the middle of the last.
	return (parts[GROWTH_PARTS - 1] / parts[0] - 1) * GROWTH_PARTS / (GROWTH_PARTS - 1);
}

static int read_growth(const struct gauge_reader *reader, struct gpu_figures *figures,
		       struct error *err)
{
	_cleanup_(query_series_set_deinit) struct query_series_set pods = { 0 };
	double growth = 0;

	if (figures->range_ns < GROWTH_RANGE_S * NS_PER_SECOND)
		return 0;
	int rc = read_series(reader, reader->query->selector, PROFILE_TYPE_GPU_PROCESS_MEMORY,
			     LABEL_POD, &pods, err);
	if (rc || !pods.count)
		return rc;
	for (uint32_t i = 0; i < pods.count; i++) {
		// The first and the last step reach beyond the range.
		const struct query_series inner = { .values = pods.series[i].values + 1 };
		double of_pod = pods.step_count > 2 ? growth_of(&inner, pods.step_count - 2) : 0;

		growth = of_pod > growth ? of_pod : growth;
	}
	double hours = (double)figures->range_ns / (3600.0 * NS_PER_SECOND);
	gpu_figures_set(figures, GPU_FIGURE_MEMORY_GROWTH, growth / hours);
	return 0;
}

static uint64_t step_of(struct time_range range)
{
	uint64_t seconds = (range.to_ns - range.from_ns) / NS_PER_SECOND;

	return (seconds / STEPS_MAX + 1) * NS_PER_SECOND;
}

int gpu_gauges_read(const struct query *query, struct gpu_figures *figures, struct error *err)
{
	_cleanup_(gauge_reader_deinit) struct gauge_reader reader = {
		.query = query,
		.step_ns = step_of(query->range),
	};
	int rc = find_gpus(&reader, err);

	if (rc || !reader.gpu_count)
		return rc;
	rc = read_busy(&reader, figures, err);
	if (!rc)
		rc = read_link(&reader, figures, err);
	if (!rc)
		rc = read_activity(&reader, figures, err);
	if (!rc)
		rc = read_throttling(&reader, figures, err);
	if (!rc)
		rc = read_others(&reader, figures, err);
	return rc ? rc : read_growth(&reader, figures, err);
}
