// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/sources.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"

/* Beyond enum source_bit, in struct opened.paused: it has not begun; sources_set_stopped(). */
#define NOT_BEGUN (1U << 31)
#define STOPPED   (1U << 30)

struct opened {
	const struct source *source;
	void *state;     // NULL: it is not open
	uint32_t paused; // bits for which it was stopped
};

struct sources {
	struct source_setup setup; // for those that are opened later
	struct labels labels;      // its own copy
	struct opened opened[SOURCES_MAX];
	uint32_t count; // with those that were not asked for
};

/* Each source that was asked for or not; none where @sources is NULL. */
#define for_each_source(item, sources)                                                      \
	for (__typeof__(&(sources)->opened[0]) item = (sources) ? (sources)->opened : NULL; \
	     (sources) && item < (sources)->opened + (sources)->count; item++)

static bool runs(const struct opened *opened)
{
	return opened->state && !opened->paused;
}

void *sources_find(const struct sources *sources, enum source_bit bit)
{
	for_each_source(opened, sources)
	{
		if (opened->source->bit == bit)
			return opened->state;
	}
	return NULL;
}

const struct source_setup *sources_setup(const struct sources *sources)
{
	return &sources->setup;
}

// ---- life -----------------------------------------------------------------------------------

static void report_failure(const struct opened *opened, const struct source_setup *setup,
			   const char *cause)
{
	event_warn(setup->events, opened->source->name, "not measured: %.260s", cause);
}

static int open_source(struct opened *opened, const struct source_setup *setup)
{
	struct error err = { 0 };
	int rc = opened->source->open(setup, &opened->state, &err);

	if (rc) {
		opened->state = NULL;
		report_failure(opened, setup, err.text);
		return rc;
	}
	if (setup->begins_later && opened->source->set_running)
		opened->paused = NOT_BEGUN;
	return 0;
}

int sources_open(const struct source *const *table, uint32_t bits, const struct source_setup *setup,
		 struct sources **ret_sources, struct error *err)
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
	for (uint32_t i = 0; table[i] && i < SOURCES_MAX; i++) {
		struct opened *opened = &sources->opened[sources->count++];

		opened->source = table[i];
		if (bits & table[i]->bit)
			open_source(opened, &sources->setup);
	}
	*ret_sources = sources;
	return 0;
}

void sources_close(struct sources *sources)
{
	if (!sources)
		return;
	// The last one first: the governor looks at the others.
	for (uint32_t i = sources->count; i-- > 0;) {
		if (sources->opened[i].state)
			sources->opened[i].source->close(take(sources->opened[i].state));
	}
	labels_deinit(&sources->labels);
	free(sources);
}

void sources_set_wakers(struct sources *sources, const char *services)
{
	if (sources)
		sources->setup.wakers = services;
}

void sources_remove(struct sources *sources, uint32_t bits)
{
	// The last one first: wakers share maps of the switches.
	for (uint32_t i = sources ? sources->count : 0; i-- > 0;) {
		struct opened *opened = &sources->opened[i];

		if (!(opened->source->bit & bits))
			continue;
		if (opened->state)
			opened->source->close(take(opened->state));
		opened->paused = 0;
		sources->setup.bits &= ~opened->source->bit;
	}
}

// ---- running --------------------------------------------------------------------------------

uint32_t sources_open_bits(const struct sources *sources)
{
	uint32_t bits = 0;

	for_each_source(opened, sources)
	{
		if (opened->state || opened->paused)
			bits |= opened->source->bit;
	}
	return bits;
}

uint32_t sources_running(const struct sources *sources)
{
	uint32_t bits = 0;

	for_each_source(opened, sources)
	{
		if (runs(opened))
			bits |= opened->source->bit;
	}
	return bits;
}

int sources_before_drain(struct sources *sources)
{
	int rc = 0;

	for_each_source(opened, sources)
	{
		int failed = runs(opened) && opened->source->before_drain
				     ? opened->source->before_drain(opened->state)
				     : 0;
		rc = rc ? rc : failed;
	}
	return rc;
}

int sources_after_drain(struct sources *sources, struct export_interval *interval)
{
	int rc = 0;

	for_each_source(opened, sources)
	{
		int failed = runs(opened) && opened->source->after_drain
				     ? opened->source->after_drain(opened->state, interval)
				     : 0;
		rc = rc ? rc : failed;
	}
	return rc;
}

void sources_tick(struct sources *sources, uint64_t now_ns)
{
	for_each_source(opened, sources)
	{
		if (runs(opened) && opened->source->tick)
			opened->source->tick(opened->state, now_ns);
	}
}

void sources_take_count(struct sources *sources, const struct count_key *key,
			const struct count *count)
{
	for_each_source(opened, sources)
	{
		if (runs(opened) && opened->source->take_count)
			opened->source->take_count(opened->state, key, count);
	}
}

void sources_take_process(struct sources *sources, const struct process_record *record)
{
	for_each_source(opened, sources)
	{
		if (runs(opened) && opened->source->take_process)
			opened->source->take_process(opened->state, record);
	}
}

// ---- load shedding --------------------------------------------------------------------------

bool sources_can_step(const struct sources *sources, enum source_bit bit)
{
	for_each_source(opened, sources)
	{
		if (opened->source->bit == bit && opened->state && opened->source->set_step)
			return true;
	}
	return false;
}

bool sources_can_set_process(const struct sources *sources, enum source_bit bit)
{
	for_each_source(opened, sources)
	{
		if (opened->source->bit == bit && opened->state && opened->source->set_process)
			return true;
	}
	return false;
}

int sources_set_step(struct sources *sources, enum source_bit bit, uint32_t step)
{
	int rc = -EOPNOTSUPP;

	for_each_source(opened, sources)
	{
		if (opened->source->bit == bit && opened->state && opened->source->set_step) {
			opened->source->set_step(opened->state, step);
			rc = 0;
		}
	}
	return rc;
}

int sources_set_process(struct sources *sources, enum source_bit bit, uint32_t pid, bool on)
{
	int rc = -EOPNOTSUPP;

	for_each_source(opened, sources)
	{
		if (opened->source->bit == bit && opened->state && opened->source->set_process)
			rc = opened->source->set_process(opened->state, pid, on);
	}
	return rc;
}

static int pause_source(struct opened *opened, uint32_t bit)
{
	const struct source *source = opened->source;
	bool was_running = runs(opened);

	if (!opened->state && !opened->paused)
		return 0; // it never ran
	opened->paused |= bit;
	if (was_running && source->set_running)
		return source->set_running(opened->state, false);
	if (was_running)
		source->close(take(opened->state));
	return 0;
}

static int resume_source(struct opened *opened, uint32_t bit, const struct source_setup *setup)
{
	if (!(opened->paused & bit))
		return 0;
	opened->paused &= ~bit;
	if (opened->paused)
		return 0;
	return opened->state ? opened->source->set_running(opened->state, true)
			     : open_source(opened, setup);
}

int sources_set_running(struct sources *sources, enum source_bit bit, bool on)
{
	int rc = 0;

	for_each_source(opened, sources)
	{
		if (!((opened->source->bit | opened->source->needs) & bit))
			continue;
		int failed = on ? resume_source(opened, bit, &sources->setup)
				: pause_source(opened, bit);
		rc = rc ? rc : failed;
	}
	return rc;
}

// A source that cannot go on is closed, as if the kernel had refused it at first.
static void resume_or_close(struct opened *opened, uint32_t bit, const struct source_setup *setup)
{
	int rc = resume_source(opened, bit, setup);
	struct error err;

	if (!rc || !opened->state)
		return; // one that was opened anew has reported its failure
	error_errno(&err, rc, "attaching");
	report_failure(opened, setup, err.text);
	opened->source->close(take(opened->state));
}

static bool is_new(const struct opened *opened, uint32_t bits)
{
	return (opened->source->bit & bits) && !opened->state && !opened->paused;
}

uint32_t sources_add(struct sources *sources, uint32_t bits)
{
	uint32_t added = 0;

	if (!sources)
		return 0;
	// They begin together: while the kernel verifies the next one's programs, nobody reads their records.
	sources->setup.begins_later = true;
	for_each_source(opened, sources)
	{
		if (!is_new(opened, bits))
			continue;
		sources->setup.bits |= opened->source->bit;
		if (open_source(opened, &sources->setup))
			sources->setup.bits &= ~opened->source->bit;
		else
			added |= opened->source->bit;
	}
	sources_begin(sources);
	return added & sources_open_bits(sources);
}

void sources_set_stopped(struct sources *sources, bool stopped)
{
	for_each_source(opened, sources)
	{
		if (opened->source->bit == SOURCE_GOVERNOR)
			continue;
		if (stopped)
			pause_source(opened, STOPPED);
		else
			resume_or_close(opened, STOPPED, &sources->setup);
	}
}

void sources_begin(struct sources *sources)
{
	if (sources)
		sources->setup.begins_later = false;
	for_each_source(opened, sources)
	{
		resume_or_close(opened, NOT_BEGUN, &sources->setup);
	}
}
