// SPDX-License-Identifier: Apache-2.0
#include "agent/sources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/source_kinds.h"
#include "base/cleanup.h"

struct source {
	void *source;    // NULL: it does not run
	uint32_t paused; // it ran, and was stopped to cost nothing: for lanes of these bits
};

struct sources {
	struct source_setup setup; // of those that are opened later
	struct labels labels;      // its own copy
	struct source sources[SOURCE_KINDS];
};

static bool runs(const struct source *source)
{
	return source->source && !source->paused;
}

void *sources_find(const struct sources *sources, enum source_bit bit)
{
	void *source = NULL;

	for (uint32_t i = 0; i < SOURCE_KINDS && !source; i++)
		source = source_kinds[i].bit == bit ? sources->sources[i].source : NULL;
	return source;
}

const struct source_setup *sources_setup(const struct sources *sources)
{
	return &sources->setup;
}

static void open_lane(const struct source_kind *kind, struct source *source,
		      const struct source_setup *setup)
{
	struct error err = { 0 };

	if (!kind->open(setup, &source->source, &err))
		return;
	source->source = NULL;
	event_warn(setup->events, kind->name, "not measured: %.260s", err.text);
}

int sources_open(uint32_t bits, const struct source_setup *setup, struct sources **ret_lanes,
		 struct error *err)
{
	struct sources *sources = calloc(1, sizeof(*sources));

	if (!sources)
		return error_set(err, -ENOMEM, "out of memory");
	sources->setup = *setup;
	sources->setup.sources = sources;
	sources->setup.labels = &sources->labels;
	if (bits & (SOURCE_WALL | SOURCE_MEMORY))
		bits |= SOURCE_SERIES;
	sources->setup.bits = bits;
	if (setup->labels && labels_copy(setup->labels, &sources->labels)) {
		free(sources);
		return error_set(err, -ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < SOURCE_KINDS; i++) {
		if (bits & source_kinds[i].bit)
			open_lane(&source_kinds[i], &sources->sources[i], &sources->setup);
	}
	*ret_lanes = sources;
	return 0;
}

void sources_close(struct sources *sources)
{
	if (!sources)
		return;
	// The last one first: the governor looks at the others.
	for (uint32_t i = SOURCE_KINDS; i-- > 0;) {
		if (sources->sources[i].source)
			source_kinds[i].close(take(sources->sources[i].source));
	}
	labels_deinit(&sources->labels);
	free(sources);
}

uint32_t sources_running(const struct sources *sources)
{
	uint32_t bits = 0;

	for (uint32_t i = 0; sources && i < SOURCE_KINDS; i++) {
		if (runs(&sources->sources[i]))
			bits |= source_kinds[i].bit;
	}
	return bits;
}

int sources_before_drain(struct sources *sources)
{
	int rc = 0;

	for (uint32_t i = 0; sources && i < SOURCE_KINDS; i++) {
		int failed = 0;

		if (runs(&sources->sources[i]) && source_kinds[i].before_drain)
			failed = source_kinds[i].before_drain(sources->sources[i].source);
		if (!rc)
			rc = failed;
	}
	return rc;
}

int sources_after_drain(struct sources *sources, struct export_interval *interval)
{
	int rc = 0;

	for (uint32_t i = 0; sources && i < SOURCE_KINDS; i++) {
		int failed = 0;

		if (runs(&sources->sources[i]) && source_kinds[i].after_drain)
			failed = source_kinds[i].after_drain(sources->sources[i].source, interval);
		if (!rc)
			rc = failed;
	}
	return rc;
}

void sources_tick(struct sources *sources, uint64_t now_ns)
{
	for (uint32_t i = 0; sources && i < SOURCE_KINDS; i++) {
		if (runs(&sources->sources[i]) && source_kinds[i].tick)
			source_kinds[i].tick(sources->sources[i].source, now_ns);
	}
}

void sources_take_count(struct sources *sources, const struct count_key *key,
			const struct count *count)
{
	for (uint32_t i = 0; sources && i < SOURCE_KINDS; i++) {
		if (runs(&sources->sources[i]) && source_kinds[i].take_count)
			source_kinds[i].take_count(sources->sources[i].source, key, count);
	}
}

void sources_read_cost(const struct sources *sources, enum source_bit bit,
		       struct source_cost *ret_cost)
{
	*ret_cost = (struct source_cost){ 0 };
	for (uint32_t i = 0; sources && i < SOURCE_KINDS; i++) {
		if (source_kinds[i].bit == bit && sources->sources[i].source &&
		    source_kinds[i].read_cost)
			source_kinds[i].read_cost(sources->sources[i].source, ret_cost);
	}
}

// ---- knobs ----------------------------------------------------------------------------------

bool sources_can_step(const struct sources *sources, enum source_bit bit)
{
	bool can = false;

	for (uint32_t i = 0; i < SOURCE_KINDS; i++)
		can |= source_kinds[i].bit == bit && sources->sources[i].source &&
		       source_kinds[i].set_step;
	return can;
}

bool sources_can_set_process(const struct sources *sources, enum source_bit bit)
{
	bool can = false;

	for (uint32_t i = 0; i < SOURCE_KINDS; i++)
		can |= source_kinds[i].bit == bit && sources->sources[i].source &&
		       source_kinds[i].set_process;
	return can;
}

int sources_set_step(struct sources *sources, enum source_bit bit, uint32_t step)
{
	int rc = -EOPNOTSUPP;

	for (uint32_t i = 0; i < SOURCE_KINDS; i++) {
		if (source_kinds[i].bit == bit && sources->sources[i].source &&
		    source_kinds[i].set_step)
			rc = source_kinds[i].set_step(sources->sources[i].source, step);
	}
	return rc;
}

int sources_set_process(struct sources *sources, enum source_bit bit, uint32_t pid, bool on)
{
	int rc = -EOPNOTSUPP;

	for (uint32_t i = 0; i < SOURCE_KINDS; i++) {
		if (source_kinds[i].bit == bit && sources->sources[i].source &&
		    source_kinds[i].set_process)
			rc = source_kinds[i].set_process(sources->sources[i].source, pid, on);
	}
	return rc;
}

static int pause_lane(const struct source_kind *kind, struct source *source, enum source_bit bit)
{
	bool was_running = runs(source);

	if (!source->source && !source->paused)
		return 0; // it never ran
	source->paused |= bit;
	if (was_running && kind->set_running)
		return kind->set_running(source->source, false);
	if (was_running)
		kind->close(take(source->source));
	return 0;
}

static int resume_lane(const struct source_kind *kind, struct source *source, enum source_bit bit,
		       const struct source_setup *setup)
{
	if (!(source->paused & bit))
		return 0;
	source->paused &= ~bit;
	if (source->paused)
		return 0;
	if (source->source)
		return kind->set_running(source->source, true);
	open_lane(kind, source, setup);
	return source->source ? 0 : -EIO; // why is an event
}

int sources_set_running(struct sources *sources, enum source_bit bit, bool on)
{
	int rc = 0;

	for (uint32_t i = 0; i < SOURCE_KINDS; i++) {
		int failed = 0;

		if (!((source_kinds[i].bit | source_kinds[i].needs) & bit))
			continue;
		if (on)
			failed = resume_lane(&source_kinds[i], &sources->sources[i], bit,
					     &sources->setup);
		else
			failed = pause_lane(&source_kinds[i], &sources->sources[i], bit);
		if (!rc)
			rc = failed;
	}
	return rc;
}

bool sources_read_budget(const struct sources *sources, struct budget_stats *ret_stats)
{
	for (uint32_t i = 0; sources && i < SOURCE_KINDS; i++) {
		if (source_kinds[i].bit != SOURCE_GOVERNOR || !sources->sources[i].source)
			continue;
		budget_read_stats(sources->sources[i].source, ret_stats);
		return true;
	}
	return false;
}
