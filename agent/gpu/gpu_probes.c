// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_probes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/probes/probe_duty_cycle.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* Between two measurements of the probes that are always attached. */
#define MEASURE_INTERVAL_NS (10 * NS_PER_SECOND)

/*
 * Launches that are captured into CUDA graphs. While the node launches little, their probes stay attached: then the
 * first capture of a server is complete, which launches little before it. Each launch pays for that. Where launches
 * are frequent, the probes are attached once a capture has begun, until CAPTURES_KEPT_NS after the last one that did.
 * The budget is that of duty-cycled probes again, saved up for CAPTURES_SAVED_NS. Most of it is reserved for captures;
 * the rest covers a burst of launches, which may be a server about to capture.
 */
#define CAPTURES_KEPT_NS  (5 * NS_PER_SECOND)
#define CAPTURES_SAVED_NS (1200 * NS_PER_SECOND)
#define CAPTURES_RESERVE  0.9 // of what can be saved
#define CAPTURES_LOW_RATE 0.5 // of the budget: launches that cost less are few

_Static_assert((int)GPU_CALL_COUNT <= (int)PROBE_KINDS_MAX,
	       "probe_duty_cycle.h knows kinds of calls by number");

struct gpu_probes {
	struct gpu_probes_options options;
	struct probe_duty_cycle cycle;
	struct probed_file *files[GPU_DRIVERS_MAX];
	uint64_t last_hits[GPU_CALL_COUNT]; // at the last measurement
	uint64_t measured_ns;
	uint64_t on_since_ns;
	bool is_on;
	uint32_t generation; // of PROBE_SET_ALWAYS
	bool sees_captures;
	uint64_t captures;          // begun so far
	uint64_t captured_ns;       // when the last one was noticed
	double captures_left_ns;    // CPU time left for probes of captured launches
	uint64_t captures_saved_ns; // when captures_left_ns was last topped up
	uint64_t on_phase_count, refused, hits;
	double cost_ns;
	bool is_refusal_logged, is_expensive_logged;
};

// ---- attaching ------------------------------------------------------------------------------

static void log_refusals(struct gpu_probes *probes, struct probed_file *file)
{
	probes->refused += file->refused;
	if (file->refused)
		event_warn_once(probes->options.events, &probes->is_refusal_logged, "gpu",
				"driver calls not recorded: the kernel refused probes in %.200s: "
				"%s; needs Linux 6.6, or CAP_SYS_ADMIN",
				file->driver->path, strerror(-file->refusal));
	file->refused = 0;
}

static void attach(struct gpu_probes *probes, struct probed_file *file, enum probe_set set)
{
	probed_file_attach(file, set);
	log_refusals(probes, file);
}

static void attach_all(struct gpu_probes *probes, struct probed_file *file)
{
	// Before the probes that see a capture begin: a capture is seen whole, or known to be incomplete.
	if (probes->sees_captures)
		attach(probes, file, PROBE_SET_CAPTURES);
	attach(probes, file, PROBE_SET_MEMORY);
	attach(probes, file, PROBE_SET_ALWAYS);
	if (probes->is_on)
		attach(probes, file, PROBE_SET_DUTY_CYCLED);
}

// ---- kinds ----------------------------------------------------------------------------------

/* Of the costliest file: hits are not counted by file. */
static double cost_of_kind(const struct gpu_probes *probes, uint32_t kind, bool *ret_is_launch)
{
	double costliest = 0;

	for (size_t row = 0; row < probes->options.files.call_count; row++) {
		if (gpu_cookie_call(probes->options.files.calls[row].cookie) != kind)
			continue;
		*ret_is_launch |= probes->options.files.calls[row].tier == GPU_TIER_LAUNCHES;
		for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
			double cost =
				probes->files[i] ? probed_file_cost(probes->files[i], row) : 0;

			if (cost > costliest)
				costliest = cost;
		}
	}
	return costliest;
}

static bool set_kinds(struct gpu_probes *probes, uint64_t now_ns)
{
	bool changed = false;

	for (uint32_t kind = 0; kind < GPU_CALL_COUNT; kind++) {
		bool is_launch = false;
		double cost = cost_of_kind(probes, kind, &is_launch);

		changed |= probe_duty_cycle_set_kind(&probes->cycle, kind, is_launch, cost, now_ns);
	}
	return changed;
}

/* At each call? Some kinds have return probes in their blocking functions only: there each hit counts as a call. */
static bool is_return_seen(const struct gpu_probes *probes, uint32_t kind)
{
	for (size_t row = 0; row < probes->options.files.call_count; row++) {
		if (gpu_cookie_call(probes->options.files.calls[row].cookie) == kind &&
		    probed_file_program(&probes->options.files, row, true) < 0)
			return false;
	}
	return true;
}

/* Measure the kinds of a mode, whose probes were attached for @elapsed_ns since the last time. */
static void measure(struct gpu_probes *probes, enum probe_mode mode, uint64_t elapsed_ns)
{
	uint64_t hits[GPU_CALL_COUNT];

	if (!probes->options.read_hits || probes->options.read_hits(probes->options.context, hits))
		return;
	for (uint32_t kind = 0; kind < GPU_CALL_COUNT; kind++) {
		const struct probe_kind *known = &probes->cycle.kinds[kind];
		uint64_t news = hits[kind] - probes->last_hits[kind];

		if (known->mode != mode)
			continue;
		uint64_t calls = is_return_seen(probes, kind) ? news / 2 : news;
		probes->last_hits[kind] = hits[kind];
		probes->hits += news;
		probes->cost_ns += (double)calls * known->cost_ns;
		probe_duty_cycle_measure(&probes->cycle, kind, calls, elapsed_ns);
	}
	uint64_t captured = hits[GPU_CALL_CAPTURED] - probes->last_hits[GPU_CALL_CAPTURED];
	probes->last_hits[GPU_CALL_CAPTURED] = hits[GPU_CALL_CAPTURED];
	probes->hits += captured;
	double captured_ns = (double)captured * probes->cycle.kinds[GPU_CALL_LAUNCH].cost_ns;
	probes->cost_ns += captured_ns;
	probes->captures_left_ns -= captured_ns;
}

// ---- the duty cycle -------------------------------------------------------------------------

static void begin_on_phase(struct gpu_probes *probes)
{
	struct gpu_on_phase phase;

	// Hits from before are of kinds that were attached always until now.
	measure(probes, PROBE_DUTY_CYCLE, 0);
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (probes->files[i])
			attach(probes, probes->files[i], PROBE_SET_DUTY_CYCLED);
	}
	probes->is_on = true;
	probes->on_since_ns = clock_monotonic_ns();
	probes->on_phase_count++;
	probe_duty_cycle_begin_phase(&probes->cycle, probes->on_since_ns, &phase);
	if (probes->options.set_on_phase)
		probes->options.set_on_phase(probes->options.context, &phase);
}

static void end_on_phase(struct gpu_probes *probes)
{
	measure(probes, PROBE_DUTY_CYCLE, clock_monotonic_ns() - probes->on_since_ns);
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (probes->files[i])
			probed_file_detach(probes->files[i], PROBE_SET_DUTY_CYCLED);
	}
	probes->is_on = false;
}

static void log_mode(struct gpu_probes *probes, const char *symbol, const struct probe_kind *kind)
{
	double limit = 100 * probes->cycle.budget;

	if (kind->mode == PROBE_OFF)
		event_warn(probes->options.events, "gpu",
			   "%s: probes off: too many calls (%.0f/s at %.0f ns, limit %.2f %% of a "
			   "core); these calls are not recorded until their rate falls",
			   symbol, kind->rate, kind->cost_ns, limit);
	else if (kind->mode == PROBE_DUTY_CYCLE)
		event_warn(
			probes->options.events, "gpu",
			"%s: probes attached part of the time: too many calls (%.0f/s at %.0f ns, "
			"limit %.2f %% of a core); nothing to do: each recorded call has a weight",
			symbol, kind->rate, kind->cost_ns, limit);
	else
		event_info(probes->options.events, "gpu", "%s: every call is recorded again",
			   symbol);
}

static void log_modes(struct gpu_probes *probes, const enum probe_mode before[GPU_CALL_COUNT])
{
	for (size_t row = 0; row < probes->options.files.call_count; row++) {
		uint32_t kind = gpu_cookie_call(probes->options.files.calls[row].cookie);
		const struct probe_kind *known = &probes->cycle.kinds[kind];
		bool is_first = true;

		for (size_t i = 0; i < row && is_first; i++)
			is_first = gpu_cookie_call(probes->options.files.calls[i].cookie) != kind;
		if (is_first && known->mode != before[kind])
			log_mode(probes, probes->options.files.calls[row].symbol, known);
	}
}

/* Other kinds are always attached now. Those that stay must neither miss a call meanwhile nor count it twice. */
static void attach_again(struct gpu_probes *probes)
{
	probe_link_settle(); // the generation before the last had the same number as the next
	probes->generation ^= GPU_CALL_GENERATION;
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (!probes->files[i])
			continue;
		probed_file_attach_next(probes->files[i], probes->generation);
		log_refusals(probes, probes->files[i]);
	}
	if (probes->options.set_generation)
		probes->options.set_generation(probes->options.context, probes->generation);
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (probes->files[i])
			probed_file_detach_former(probes->files[i]);
	}
}

static void decide(struct gpu_probes *probes, uint64_t now_ns)
{
	enum probe_mode before[GPU_CALL_COUNT];

	for (uint32_t kind = 0; kind < GPU_CALL_COUNT; kind++)
		before[kind] = probes->cycle.kinds[kind].mode;
	if (!probe_duty_cycle_decide(&probes->cycle, now_ns))
		return;
	log_modes(probes, before);
	attach_again(probes);
}

// ---- captures -------------------------------------------------------------------------------

static void see_captures(struct gpu_probes *probes, bool sees)
{
	// A capture is seen whole, or known to be incomplete.
	if (!sees && probes->options.set_sees_captures)
		probes->options.set_sees_captures(probes->options.context, false);
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (!probes->files[i])
			continue;
		if (sees)
			attach(probes, probes->files[i], PROBE_SET_CAPTURES);
		else
			probed_file_detach(probes->files[i], PROBE_SET_CAPTURES);
	}
	if (sees && probes->options.set_sees_captures)
		probes->options.set_sees_captures(probes->options.context, true);
	probes->sees_captures = sees;
}

static void save_for_captures(struct gpu_probes *probes, uint64_t now_ns)
{
	double most_ns = probes->cycle.budget * CAPTURES_SAVED_NS;

	if (now_ns <= probes->captures_saved_ns)
		return;
	probes->captures_left_ns +=
		probes->cycle.budget * (double)(now_ns - probes->captures_saved_ns);
	probes->captures_saved_ns = now_ns;
	if (probes->captures_left_ns > most_ns)
		probes->captures_left_ns = most_ns;
}

/* In the last on phase. */
static bool are_launches_few(const struct gpu_probes *probes)
{
	double cost = 0;

	for (uint32_t i = 0; i < GPU_CALL_COUNT; i++) {
		const struct probe_kind *kind = &probes->cycle.kinds[i];

		if (!kind->is_launch || kind->mode == PROBE_ABSENT)
			continue;
		if (kind->mode == PROBE_OFF || kind->rate < 0)
			return false;
		cost += kind->rate * kind->cost_ns / NS_PER_SECOND;
	}
	return cost <= probes->cycle.budget * CAPTURES_LOW_RATE;
}

/* The probes stay attached until the savings are used up, and come back when more than a moment's worth is saved. */
static bool may_see_captures(const struct gpu_probes *probes, bool is_capturing)
{
	double most_ns = probes->cycle.budget * CAPTURES_SAVED_NS;
	double reserve_ns = is_capturing ? 0 : most_ns * CAPTURES_RESERVE;

	if (probes->sees_captures)
		return probes->captures_left_ns > reserve_ns;
	return probes->captures_left_ns > reserve_ns + most_ns / 24 &&
	       (is_capturing || are_launches_few(probes));
}

static void follow_captures(struct gpu_probes *probes, uint64_t now_ns)
{
	if (!probes->options.read_captures)
		return;
	uint64_t captures = probes->options.read_captures(probes->options.context);

	if (captures != probes->captures)
		probes->captured_ns = now_ns;
	probes->captures = captures;
	save_for_captures(probes, now_ns);
	bool sees = may_see_captures(probes,
				     captures && now_ns - probes->captured_ns < CAPTURES_KEPT_NS);
	// While the last probes are still being detached, launches would count twice.
	if (sees != probes->sees_captures && (!sees || probe_link_is_settled()))
		see_captures(probes, sees);
}

void gpu_probes_tick(struct gpu_probes *probes, uint64_t now_ns)
{
	follow_captures(probes, now_ns);
	switch (probe_duty_cycle_step(&probes->cycle, now_ns)) {
	case PROBE_STEP_ATTACH:
		// While the last on phase's probes are still being detached, calls would count twice.
		if (probe_link_is_settled())
			begin_on_phase(probes);
		break;
	case PROBE_STEP_DETACH:
		end_on_phase(probes);
		decide(probes, now_ns);
		break;
	default:
		break;
	}
	// An on phase measures its probes itself.
	if (now_ns - probes->measured_ns < MEASURE_INTERVAL_NS || probes->is_on)
		return;
	measure(probes, PROBE_ALWAYS, now_ns - probes->measured_ns);
	probes->measured_ns = now_ns;
	decide(probes, now_ns);
}

// ---- files ----------------------------------------------------------------------------------

/* Number of the file whose probes fire in this one, too; 0: none. */
static uint32_t find_sharer(const struct gpu_probes *probes, const struct probed_file *file)
{
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		const struct probed_file *other = probes->files[i];

		if (other && other != file && probed_file_is_probed_by(file, other))
			return other->driver->number;
	}
	return 0;
}

static void log_expensive(struct gpu_probes *probes, const struct probed_file *file)
{
	for (size_t row = 0; row < probes->options.files.call_count; row++) {
		if (file->has_site[row] && file->sites[row].is_expensive)
			event_warn_once(probes->options.events, &probes->is_expensive_logged, "gpu",
					"slow probe: %s in %.160s: the kernel single-steps it (%u "
					"ns a call); nothing to do: its overhead is bounded",
					probes->options.files.calls[row].symbol, file->driver->path,
					probes->options.files.cost.stepped_ns);
	}
}

static bool has_calls_of(const struct gpu_probes *probes, enum gpu_library library)
{
	for (size_t row = 0; row < probes->options.files.call_count; row++) {
		if (probes->options.files.calls[row].library == library)
			return true;
	}
	return false;
}

void gpu_probes_add(void *context, const struct gpu_driver *driver)
{
	struct gpu_probes *probes = context;
	struct probed_file *file;
	uint32_t at = 0;

	if (!has_calls_of(probes, driver->library))
		return;
	while (at < GPU_DRIVERS_MAX && probes->files[at])
		at++;
	int rc = at < GPU_DRIVERS_MAX
			 ? probed_file_open(driver, &probes->options.files, &probes->cycle, &file)
			 : -ENOSPC;
	if (rc) {
		event_warn(probes->options.events, "gpu", "driver calls not recorded: %.200s: %s",
			   driver->path,
			   rc == -ENOENT ? "it exports no known function; report its version to "
					   "cairn's developers"
					 : strerror(-rc));
		return;
	}
	file->generation = probes->generation;
	probes->files[at] = file;
	set_kinds(probes, clock_monotonic_ns());
	log_expensive(probes, file);
	file->shares_with = find_sharer(probes, file);
	attach_all(probes, file);
}

/* Files that shared the probes of one that is gone get their own. */
static void adopt_sharers(struct gpu_probes *probes, uint32_t number)
{
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		struct probed_file *file = probes->files[i];

		if (!file || file->shares_with != number)
			continue;
		probe_link_settle(); // the former probes fire here until they are detached
		file->shares_with = find_sharer(probes, file);
		attach_all(probes, file);
	}
}

void gpu_probes_remove(void *context, const struct gpu_driver *driver)
{
	struct gpu_probes *probes = context;

	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (!probes->files[i] || probes->files[i]->driver != driver)
			continue;
		probed_file_close(take(probes->files[i]));
	}
	adopt_sharers(probes, driver->number);
	set_kinds(probes, clock_monotonic_ns());
}

// ---- public ---------------------------------------------------------------------------------

int gpu_probes_open(const struct gpu_probes_options *options, struct gpu_probes **ret_probes,
		    struct error *err)
{
	if (options->files.call_count > PROBED_FILE_CALLS_MAX)
		return error_set(err, -E2BIG, "gpu: %zu functions to probe (limit %d)",
				 options->files.call_count, PROBED_FILE_CALLS_MAX);
	struct gpu_probes *probes = calloc(1, sizeof(*probes));
	if (!probes)
		return error_set(err, -ENOMEM, "out of memory");
	probes->options = *options;
	probes->measured_ns = probes->captures_saved_ns = clock_monotonic_ns();
	probe_duty_cycle_init(&probes->cycle,
			      options->budget > 0 ? options->budget : GPU_PROBES_BUDGET,
			      probes->measured_ns);
	probes->captures_left_ns = probes->cycle.budget * CAPTURES_SAVED_NS;
	if (options->read_hits)
		options->read_hits(options->context, probes->last_hits);
	*ret_probes = probes;
	return 0;
}

void gpu_probes_close(struct gpu_probes *probes)
{
	if (!probes)
		return;
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (probes->files[i])
			probed_file_close(take(probes->files[i]));
	}
	probe_link_settle();
	free(probes);
}

bool gpu_probes_see_all(const struct gpu_probes *probes, enum gpu_call first, enum gpu_call last)
{
	for (uint32_t kind = first; kind <= (uint32_t)last; kind++) {
		enum probe_mode mode = probes->cycle.kinds[kind].mode;

		if (mode == PROBE_DUTY_CYCLE || mode == PROBE_OFF)
			return false;
	}
	return true;
}

static void count_file(const struct gpu_probes *probes, const struct probed_file *file,
		       struct gpu_probes_stats *stats)
{
	if (file->shares_with) {
		stats->shared++;
		return;
	}
	stats->files++;
	for (size_t row = 0; row < probes->options.files.call_count; row++) {
		if (!file->has_site[row])
			continue;
		stats->functions++;
		stats->expensive += file->sites[row].is_expensive;
	}
}

void gpu_probes_read_stats(const struct gpu_probes *probes, struct gpu_probes_stats *ret_stats)
{
	struct gpu_probes_stats stats = {
		.refused = probes->refused,
		.weight = probes->cycle.weight,
		.on_phases = probes->on_phase_count,
		.hits = probes->hits,
		.cost_ns = (uint64_t)probes->cost_ns,
		.budget = probes->cycle.budget,
		.cost = probes->cycle.always + probes->cycle.duty_cycled,
	};

	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (probes->files[i])
			count_file(probes, probes->files[i], &stats);
	}
	for (uint32_t kind = 0; kind < GPU_CALL_COUNT; kind++) {
		const struct probe_kind *known = &probes->cycle.kinds[kind];

		stats.duty_cycled += known->mode == PROBE_DUTY_CYCLE && !known->is_launch;
		stats.off += known->mode == PROBE_OFF;
	}
	*ret_stats = stats;
}
