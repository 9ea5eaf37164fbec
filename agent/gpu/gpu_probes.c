// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_probes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/probes/probe_duty_cycle.h"
#include "agent/gpu/probed_file.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* Between two looks at what the probes cost that are always there. */
#define LOOK_INTERVAL_NS (10 * NS_PER_SECOND)

/*
 * Launches that are captured into graphs are seen as long as launches are few: so is the first capture of a server, which
 * launches little before. No launch on the node is free then. Where they are many, captures are seen from when one has begun until
 * so long after the last one that did. On the whole that may take as much of a core as windows may, saved up for some
 * time. Most of that is kept for when there are captures; the rest is for when many launches come all at once, which
 * may be a server that is about to capture.
 */
#define CAPTURES_KEPT_NS  (5 * NS_PER_SECOND)
#define CAPTURES_SAVED_NS (1200 * NS_PER_SECOND)
#define CAPTURES_KEPT     0.9 // of what may be saved
#define CAPTURES_CALM     0.5 // of the budget: launches that cost no more are few

_Static_assert((int)GPU_CALL_COUNT <= (int)PROBE_KINDS_MAX,
	       "probe_duty_cycle.h knows kinds of calls by number");

struct gpu_probes {
	struct gpu_probes_options options;
	struct probe_duty_cycle windows;
	struct probed_file *files[GPU_DRIVERS_MAX];
	uint64_t last_hits[GPU_CALL_COUNT]; // when they were last looked at
	uint64_t looked_ns;
	uint64_t opened_ns; // of the window that is open
	bool is_open;
	uint32_t generation; // of probes that are always there
	bool sees_captures;
	uint64_t captures;          // that have begun so far
	uint64_t captured_ns;       // when the last was seen to have
	double captures_left_ns;    // of a core: what seeing captured launches may cost by now,
	uint64_t captures_saved_ns; // which grows; until then it has
	uint64_t window_count, refused, hits;
	double cost_ns;
	bool is_refusal_told, is_expensive_told;
};

// ---- attaching ------------------------------------------------------------------------------

static void take_refusals(struct gpu_probes *probes, struct probed_file *file)
{
	probes->refused += file->refused;
	if (file->refused)
		event_warn_once(probes->options.events, &probes->is_refusal_told, "gpu",
				"the kernel refused a probe in %.200s: %s", file->driver->path,
				strerror(-file->refusal));
	file->refused = 0;
}

static void attach(struct gpu_probes *probes, struct probed_file *file, enum probe_set set)
{
	probed_file_attach(file, set);
	take_refusals(probes, file);
}

static void attach_all(struct gpu_probes *probes, struct probed_file *file)
{
	// Before those that see captures begin: of a capture either all is seen or it is known that it was not.
	if (probes->sees_captures)
		attach(probes, file, PROBE_SET_CAPTURES);
	attach(probes, file, PROBE_SET_STEADY);
	attach(probes, file, PROBE_SET_OTHERS);
	if (probes->is_open)
		attach(probes, file, PROBE_SET_WINDOWS);
}

// ---- kinds ----------------------------------------------------------------------------------

/* The dearest of all files: it is not known in which of them a kind is called. */
static double cost_of_kind(const struct gpu_probes *probes, uint32_t kind, bool *ret_is_launch)
{
	double dearest = 0;

	for (size_t row = 0; row < probes->options.call_count; row++) {
		if (gpu_cookie_call(probes->options.calls[row].cookie) != kind)
			continue;
		*ret_is_launch |= probes->options.calls[row].tier == GPU_TIER_LAUNCHES;
		for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
			double cost =
				probes->files[i] ? probed_file_cost(probes->files[i], row) : 0;

			if (cost > dearest)
				dearest = cost;
		}
	}
	return dearest;
}

static bool set_kinds(struct gpu_probes *probes, uint64_t now_ns)
{
	bool changed = false;

	for (uint32_t kind = 0; kind < GPU_CALL_COUNT; kind++) {
		bool is_launch = false;
		double cost = cost_of_kind(probes, kind, &is_launch);

		changed |=
			probe_duty_cycle_set_kind(&probes->windows, kind, is_launch, cost, now_ns);
	}
	return changed;
}

/* Of each call: of some kinds only functions that wait are seen to return, and all hits count as calls. */
static bool is_return_seen(const struct gpu_probes *probes, uint32_t kind)
{
	for (size_t row = 0; row < probes->options.call_count; row++) {
		if (gpu_cookie_call(probes->options.calls[row].cookie) == kind &&
		    probed_file_program(&probes->options, row, true) < 0)
			return false;
	}
	return true;
}

/* Look at the kinds of a mode, which were probed for @elapsed_ns since they were last looked at. */
static void look(struct gpu_probes *probes, enum probe_mode mode, uint64_t elapsed_ns)
{
	uint64_t hits[GPU_CALL_COUNT];

	if (!probes->options.read_hits || probes->options.read_hits(probes->options.context, hits))
		return;
	for (uint32_t kind = 0; kind < GPU_CALL_COUNT; kind++) {
		const struct probe_kind *known = &probes->windows.kinds[kind];
		uint64_t news = hits[kind] - probes->last_hits[kind];

		if (known->mode != mode)
			continue;
		uint64_t calls = is_return_seen(probes, kind) ? news / 2 : news;
		probes->last_hits[kind] = hits[kind];
		probes->hits += news;
		probes->cost_ns += (double)calls * known->cost_ns;
		probe_duty_cycle_measure(&probes->windows, kind, calls, elapsed_ns);
	}
	uint64_t captured = hits[GPU_CALL_CAPTURED] - probes->last_hits[GPU_CALL_CAPTURED];
	probes->last_hits[GPU_CALL_CAPTURED] = hits[GPU_CALL_CAPTURED];
	probes->hits += captured;
	double captured_ns = (double)captured * probes->windows.kinds[GPU_CALL_LAUNCH].cost_ns;
	probes->cost_ns += captured_ns;
	probes->captures_left_ns -= captured_ns;
}

// ---- windows --------------------------------------------------------------------------------

static void open_window(struct gpu_probes *probes)
{
	struct gpu_window window;

	// What was seen before is of the time between windows: of kinds that were probed always.
	look(probes, PROBE_DUTY_CYCLE, 0);
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (probes->files[i])
			attach(probes, probes->files[i], PROBE_SET_WINDOWS);
	}
	probes->is_open = true;
	probes->opened_ns = clock_monotonic_ns();
	probes->window_count++;
	probe_duty_cycle_open(&probes->windows, probes->opened_ns, &window);
	if (probes->options.set_window)
		probes->options.set_window(probes->options.context, &window);
}

static void close_window(struct gpu_probes *probes)
{
	look(probes, PROBE_DUTY_CYCLE, clock_monotonic_ns() - probes->opened_ns);
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (probes->files[i])
			probed_file_detach(probes->files[i], PROBE_SET_WINDOWS);
	}
	probes->is_open = false;
}

static void say_modes(struct gpu_probes *probes, const enum probe_mode before[GPU_CALL_COUNT])
{
	static const char *const words[] = {
		[PROBE_ABSENT] = "no longer",
		[PROBE_ALWAYS] = "always",
		[PROBE_DUTY_CYCLE] = "in windows only",
		[PROBE_OFF] = "not at all",
	};

	for (size_t row = 0; row < probes->options.call_count; row++) {
		uint32_t kind = gpu_cookie_call(probes->options.calls[row].cookie);
		const struct probe_kind *known = &probes->windows.kinds[kind];
		bool is_first = true;

		for (size_t i = 0; i < row && is_first; i++)
			is_first = gpu_cookie_call(probes->options.calls[i].cookie) != kind;
		if (!is_first || known->mode == before[kind])
			continue;
		event_warn(probes->options.events, "gpu",
			   "calls like %s are seen %s from now on: %.0f a second at %.0f ns "
			   "each, of a budget of %.2f %% of a core",
			   probes->options.calls[row].symbol, words[known->mode], known->rate,
			   known->cost_ns, 100 * probes->windows.budget);
	}
}

/* Who is always there has changed. The others should not miss a call meanwhile, nor count it twice. */
static void attach_again(struct gpu_probes *probes)
{
	probe_link_settle(); // those before the last are of the generation to come
	probes->generation ^= GPU_CALL_GENERATION;
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (!probes->files[i])
			continue;
		probed_file_attach_next(probes->files[i], probes->generation);
		take_refusals(probes, probes->files[i]);
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
		before[kind] = probes->windows.kinds[kind].mode;
	if (!probe_duty_cycle_decide(&probes->windows, now_ns))
		return;
	say_modes(probes, before);
	attach_again(probes);
}

// ---- captures -------------------------------------------------------------------------------

static void see_captures(struct gpu_probes *probes, bool sees)
{
	// Of a capture either all is seen or it is known that it was not.
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
	double most_ns = probes->windows.budget * CAPTURES_SAVED_NS;

	if (now_ns <= probes->captures_saved_ns)
		return;
	probes->captures_left_ns +=
		probes->windows.budget * (double)(now_ns - probes->captures_saved_ns);
	probes->captures_saved_ns = now_ns;
	if (probes->captures_left_ns > most_ns)
		probes->captures_left_ns = most_ns;
}

/* By the last window. */
static bool are_launches_few(const struct gpu_probes *probes)
{
	double cost = 0;

	for (uint32_t i = 0; i < GPU_CALL_COUNT; i++) {
		const struct probe_kind *kind = &probes->windows.kinds[i];

		if (!kind->is_launch || kind->mode == PROBE_ABSENT)
			continue;
		if (kind->mode == PROBE_OFF || kind->rate < 0)
			return false;
		cost += kind->rate * kind->cost_ns / NS_PER_SECOND;
	}
	return cost <= probes->windows.budget * CAPTURES_CALM;
}

/* Once they are there they stay until what is left is used up; then they wait for more than a moment's. */
static bool may_see_captures(const struct gpu_probes *probes, bool asked)
{
	double most_ns = probes->windows.budget * CAPTURES_SAVED_NS;
	double kept_ns = asked ? 0 : most_ns * CAPTURES_KEPT;

	if (probes->sees_captures)
		return probes->captures_left_ns > kept_ns;
	return probes->captures_left_ns > kept_ns + most_ns / 24 &&
	       (asked || are_launches_few(probes));
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
	// With those of the last time still there launches would count twice.
	if (sees != probes->sees_captures && (!sees || probe_link_is_settled()))
		see_captures(probes, sees);
}

void gpu_probes_tick(struct gpu_probes *probes, uint64_t now_ns)
{
	follow_captures(probes, now_ns);
	switch (probe_duty_cycle_step(&probes->windows, now_ns)) {
	case PROBE_STEP_OPEN:
		// With those of the last window still there calls would count twice.
		if (probe_link_is_settled())
			open_window(probes);
		break;
	case PROBE_STEP_CLOSE:
		close_window(probes);
		decide(probes, now_ns);
		break;
	default:
		break;
	}
	// While a window is open its probes are counted there.
	if (now_ns - probes->looked_ns < LOOK_INTERVAL_NS || probes->is_open)
		return;
	look(probes, PROBE_ALWAYS, now_ns - probes->looked_ns);
	probes->looked_ns = now_ns;
	decide(probes, now_ns);
}

// ---- files ----------------------------------------------------------------------------------

/* The file of ours whose probes are in this one, too; 0: none. */
static uint32_t find_sharer(const struct gpu_probes *probes, const struct probed_file *file)
{
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		const struct probed_file *other = probes->files[i];

		if (other && other != file && probed_file_is_probed_by(file, other))
			return other->driver->number;
	}
	return 0;
}

static void note_expensive(struct gpu_probes *probes, const struct probed_file *file)
{
	for (size_t row = 0; row < probes->options.call_count; row++) {
		if (file->has_site[row] && file->sites[row].is_expensive)
			event_warn_once(probes->options.events, &probes->is_expensive_told, "gpu",
					"%s of %.160s has no cheap place for a probe: each call of "
					"it costs %u ns while it is seen",
					probes->options.calls[row].symbol, file->driver->path,
					probes->options.cost.stepped_ns);
	}
}

static bool has_calls_of(const struct gpu_probes *probes, enum gpu_library library)
{
	for (size_t row = 0; row < probes->options.call_count; row++) {
		if (probes->options.calls[row].library == library)
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
			 ? probed_file_open(driver, &probes->options, &probes->windows, &file)
			 : -ENOSPC;
	if (rc) {
		event_warn(probes->options.events, "gpu", "calls of %.200s are not seen: %s",
			   driver->path,
			   rc == -ENOENT ? "it has none of the functions that are known"
					 : strerror(-rc));
		return;
	}
	file->generation = probes->generation;
	probes->files[at] = file;
	set_kinds(probes, clock_monotonic_ns());
	note_expensive(probes, file);
	file->shares_with = find_sharer(probes, file);
	attach_all(probes, file);
}

/* Who shared the probes of a file that has gone has its own. */
static void adopt_sharers(struct gpu_probes *probes, uint32_t number)
{
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		struct probed_file *file = probes->files[i];

		if (!file || file->shares_with != number)
			continue;
		probe_link_settle(); // what the other had is in this one, too
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
	if (options->call_count > GPU_PROBES_NAMES_MAX)
		return error_set(err, -E2BIG, "gpu: %zu functions to probe, %d are the most",
				 options->call_count, GPU_PROBES_NAMES_MAX);
	struct gpu_probes *probes = calloc(1, sizeof(*probes));
	if (!probes)
		return error_set(err, -ENOMEM, "out of memory");
	probes->options = *options;
	probes->looked_ns = probes->captures_saved_ns = clock_monotonic_ns();
	probe_duty_cycle_init(&probes->windows,
			      options->budget > 0 ? options->budget : GPU_PROBES_BUDGET,
			      probes->looked_ns);
	probes->captures_left_ns = probes->windows.budget * CAPTURES_SAVED_NS;
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
		enum probe_mode mode = probes->windows.kinds[kind].mode;

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
	for (size_t row = 0; row < probes->options.call_count; row++) {
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
		.weight = probes->windows.weight,
		.windows = probes->window_count,
		.hits = probes->hits,
		.cost_ns = (uint64_t)probes->cost_ns,
		.budget = probes->windows.budget,
		.cost = probes->windows.always + probes->windows.windows,
	};

	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (probes->files[i])
			count_file(probes, probes->files[i], &stats);
	}
	for (uint32_t kind = 0; kind < GPU_CALL_COUNT; kind++) {
		const struct probe_kind *known = &probes->windows.kinds[kind];

		stats.windowed += known->mode == PROBE_DUTY_CYCLE && !known->is_launch;
		stats.off += known->mode == PROBE_OFF;
	}
	*ret_stats = stats;
}
