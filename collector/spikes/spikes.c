// SPDX-License-Identifier: Apache-2.0
#include "collector/spikes/spikes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "collector/query/query_groups.h"
#include "collector/spikes/spike_cause.h"
#include "collector/spikes/spike_selector.h"
#include "collector/spikes/usual_range.h"

#define DAY_NS            (24 * 3600 * NS_PER_SECOND)
#define SURPRISE_RANKED   30.0 // more does not rank higher
#define UNEXPLAINED_SHARE 0.4  // of the score of a spike that no code of the user's carries
#define SEASON_SHARE      0.8  // of a spike's value: reached at this time yesterday, it is usual
#define SEASON_REACH_NS   (10 * 60 * NS_PER_SECOND)
#define GOES_ON_NS        (10 * NS_PER_SECOND) // agents send every 5 s

/** A search, and what all its signals share. */
struct search {
	const struct query *query;
	const struct spikes_options *options;
	struct error *err;
	struct time_range span; // history and range
	uint64_t slot_ns, block_ns, unit_ns;
	uint64_t oldest_ns, newest_ns;
	uint32_t slot_count, unit_count, judged_from;
	struct string_table services;
	bool *present; // by service and unit
	struct spikes *spikes;
	uint32_t capacity;
};

static void search_deinit(struct search *search)
{
	string_table_deinit(&search->services);
	free(search->present);
}

static void spike_deinit(struct spike *spike)
{
	free(spike->service);
	free(spike->group);
}

void spikes_deinit(struct spikes *spikes)
{
	for (uint32_t i = 0; i < spikes->count; i++)
		spike_deinit(&spikes->items[i]);
	free(spikes->items);
	*spikes = (struct spikes){ 0 };
}

// ---- the span -------------------------------------------------------------------------------

static uint64_t round_up(uint64_t value, uint64_t step)
{
	return (value + step - 1) / step * step;
}

static uint64_t choose_slot(uint64_t span_ns)
{
	static const uint64_t slots_ns[] = {
		20 * NS_PER_MS, 100 * NS_PER_MS,   500 * NS_PER_MS,
		NS_PER_SECOND,  5 * NS_PER_SECOND, 30 * NS_PER_SECOND,
	};
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(slots_ns) && span_ns / slots_ns[i] > SPIKES_SLOTS_MAX)
		i++;
	return slots_ns[i];
}

/** The range with history before it, cut to what is stored, in whole blocks that end with it. */
static void choose_span(struct search *search)
{
	struct time_range range = search->query->range;
	uint64_t unit_ns = USUAL_BLOCK_S_MIN * NS_PER_SECOND;
	uint64_t length_ns = range.to_ns - range.from_ns;
	uint64_t history_ns = length_ns;
	struct store_stats stats;

	store_read_stats(search->query->store, &stats);
	search->oldest_ns = stats.oldest_ns;
	search->newest_ns = stats.newest_ns;
	if (history_ns < SPIKES_HISTORY_S * NS_PER_SECOND)
		history_ns = SPIKES_HISTORY_S * NS_PER_SECOND;
	if (history_ns > SPIKES_HISTORY_S_MAX * NS_PER_SECOND)
		history_ns = SPIKES_HISTORY_S_MAX * NS_PER_SECOND;
	uint64_t from_ns = range.from_ns > history_ns ? range.from_ns - history_ns : 0;
	uint64_t to_ns = range.to_ns;

	if (from_ns < stats.oldest_ns)
		from_ns = stats.oldest_ns;
	if (to_ns > stats.newest_ns)
		to_ns = stats.newest_ns + 1;
	if (from_ns >= to_ns)
		return;
	search->block_ns = usual_block_ns(to_ns - from_ns);
	search->slot_ns = choose_slot(to_ns - from_ns);
	search->unit_ns = search->slot_ns > unit_ns ? search->slot_ns : unit_ns;
	search->block_ns = round_up(search->block_ns, search->unit_ns);
	to_ns = round_up(to_ns, search->unit_ns);
	uint64_t blocks = (to_ns - from_ns) / search->block_ns;

	search->span = (struct time_range){ to_ns - blocks * search->block_ns, to_ns };
	search->slot_count = (uint32_t)(blocks * search->block_ns / search->slot_ns);
	search->unit_count = (uint32_t)(blocks * search->block_ns / search->unit_ns);
	if (range.from_ns > search->span.from_ns)
		search->judged_from =
			(uint32_t)((range.from_ns - search->span.from_ns) / search->slot_ns);
}

// ---- values by row --------------------------------------------------------------------------

/** Reads the values of rows, a limited number at a time. */
struct row_reader {
	struct search *search;
	const struct store_selection *selection;
	const uint32_t *row_of_series; // STORE_ROW_NONE: of none
	uint32_t row_count;
	uint64_t slot_ns;
	uint32_t slot_count;
	int (*on_row)(struct search *search, void *context, uint32_t row, const int64_t *values);
	void *context;
};

static int read_some_rows(const struct row_reader *reader, uint32_t first, uint32_t count,
			  uint32_t *rows, int64_t *values)
{
	struct search *search = reader->search;
	size_t cells = (size_t)count * reader->slot_count;

	for (uint32_t i = 0; i < reader->selection->series_count; i++) {
		uint32_t row = reader->row_of_series[i];

		rows[i] = row >= first && row - first < count ? row - first : STORE_ROW_NONE;
	}
	memset(values, 0, cells * sizeof(*values));
	int rc = store_activity(search->query->store, reader->selection, search->span,
				reader->slot_ns, rows, values, search->err);
	for (uint32_t i = 0; i < count && !rc; i++) {
		rc = deadline_check(search->query->selector->deadline, search->err);
		if (!rc)
			rc = reader->on_row(search, reader->context, first + i,
					    values + (size_t)i * reader->slot_count);
	}
	return rc;
}

static int read_rows(const struct row_reader *reader)
{
	uint64_t row_bytes = (uint64_t)reader->slot_count * sizeof(int64_t);
	uint64_t at_a_time = SPIKES_VALUES_BYTES_MAX / row_bytes;
	int rc = 0;

	if (!at_a_time)
		at_a_time = 1;
	if (at_a_time > reader->row_count)
		at_a_time = reader->row_count;
	_cleanup_free_ uint32_t *rows =
		calloc(reader->selection->series_count + 1ULL, sizeof(*rows));
	_cleanup_free_ int64_t *values = malloc(at_a_time * row_bytes);
	if (!rows || !values)
		return error_set(reader->search->err, -ENOMEM, "out of memory for %u series",
				 reader->row_count);
	for (uint32_t first = 0; first < reader->row_count && !rc; first += (uint32_t)at_a_time) {
		uint32_t left = reader->row_count - first;

		rc = read_some_rows(reader, first, left < at_a_time ? left : (uint32_t)at_a_time,
				    rows, values);
	}
	return rc;
}

static int select_type(struct search *search, const char *type,
		       struct store_selection **ret_selection)
{
	struct query query = *search->query;

	query.type = type;
	query.range = search->span;
	return query_select(&query, ret_selection, search->err);
}

// ---- services -------------------------------------------------------------------------------

/* Row and service are numbered alike. */
static int add_presence(struct search *search, void *context, uint32_t service,
			const int64_t *values)
{
	bool *present = search->present + (size_t)service * search->unit_count;

	(void)context;
	for (uint32_t i = 0; i < search->unit_count; i++)
		present[i] |= values[i] != 0;
	return 0;
}

static const char *label_of(const struct store_selection *selection, uint32_t series,
			    const char *name)
{
	const char *value = labels_get(&selection->series[series].labels, name);

	return value ? value : "";
}

static bool is_present_always(const struct search *search, uint32_t service)
{
	const bool *present = search->present + (size_t)service * search->unit_count;

	return !memchr(present, false, search->unit_count);
}

/** Find out when the services ran, by the time of type @type. What is known of a service before is not read. */
static int read_presence(struct search *search, const char *type)
{
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	int rc = select_type(search, type, &selection);

	if (rc || !selection->series_count)
		return rc;
	_cleanup_free_ uint32_t *services = calloc(selection->series_count, sizeof(*services));
	if (!services)
		return error_set(search->err, -ENOMEM, "out of memory for %u series",
				 selection->series_count);
	for (uint32_t i = 0; i < selection->series_count; i++) {
		const char *name = label_of(selection, i, LABEL_SERVICE);
		bool is_new =
			*name && string_table_find(&search->services, name) == HASH_TABLE_NONE;

		services[i] = STORE_ROW_NONE;
		if (is_new && search->services.count > SPIKES_SERVICES_MAX) {
			search->spikes->left_out++;
			continue;
		}
		rc = string_table_add(&search->services, name, strlen(name), &services[i]);
		if (rc)
			return error_set(search->err, rc, "out of memory for the services");
		if (is_present_always(search, services[i]))
			services[i] = STORE_ROW_NONE;
	}
	const struct row_reader reader = {
		.search = search,
		.selection = selection,
		.row_of_series = services,
		.row_count = search->services.count,
		.slot_ns = search->unit_ns,
		.slot_count = search->unit_count,
		.on_row = add_presence,
	};
	return read_rows(&reader);
}

static int read_services(struct search *search)
{
	// Number 0 is the service without a name.
	search->present = calloc((SPIKES_SERVICES_MAX + 2ULL) * search->unit_count, sizeof(bool));
	if (!search->present || string_table_init(&search->services))
		return error_set(search->err, -ENOMEM, "out of memory for the services");
	int rc = read_presence(search, PROFILE_TYPE_WALL);

	return rc ? rc : read_presence(search, PROFILE_TYPE_CPU);
}

/** Does any block of the range have enough history? */
static bool has_history(const struct search *search, uint32_t service)
{
	const bool *present = search->present + (size_t)service * search->unit_count;
	uint64_t units = search->block_ns / search->unit_ns * USUAL_BLOCKS_MIN, run = 0;
	uint32_t first = (uint32_t)(search->judged_from * search->slot_ns / search->unit_ns);
	bool ran = false;

	for (uint32_t i = 0; i < search->unit_count; i++) {
		run += present[i];
		ran |= present[i] && i >= first;
		if (present[i] && i >= first && run > units)
			return true;
	}
	return !ran; // it ran not at all in the range: there is nothing to judge
}

static void count_not_judged(struct search *search)
{
	for (uint32_t service = 0; service < search->services.count; service++)
		search->spikes->not_judged += !has_history(search, service);
}

// ---- signals --------------------------------------------------------------------------------

/** A series of values that is judged: a service's of one type, and of one value of the type's label. */
struct signal {
	uint32_t service;
	const char *group;
};

struct signals {
	const struct spike_type *type;
	struct signal *items;
	uint32_t count, capacity;
};

static int compare_spikes(const void *a, const void *b)
{
	const struct spike *x = a, *y = b;

	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	if (x->interval.from_ns != y->interval.from_ns)
		return x->interval.from_ns < y->interval.from_ns ? -1 : 1;
	int order = strcmp(x->service, y->service);

	return order ? order : strcmp(x->type->type, y->type->type);
}

/** Make room by dropping the lower half. */
static void drop_lowest(struct spikes *spikes)
{
	qsort(spikes->items, spikes->count, sizeof(spikes->items[0]), compare_spikes);
	for (uint32_t i = SPIKES_FOUND_MAX / 2; i < spikes->count; i++)
		spike_deinit(&spikes->items[i]);
	spikes->count = SPIKES_FOUND_MAX / 2;
}

static int add_spike(struct search *search, const struct spike_type *type,
		     const struct signal *signal, const struct excursion *excursion)
{
	struct spikes *spikes = search->spikes;
	uint64_t from_ns = search->span.from_ns;
	double weight = spike_type_weight(type, signal->group);
	struct spike spike = {
		.type = type,
		.interval = { from_ns + excursion->first * search->slot_ns,
			      from_ns + excursion->end * search->slot_ns },
		.scale_ns = excursion->scale_ns,
		.value = excursion->value,
		.extra = excursion->extra,
		.usual = fmax(0, excursion->value - excursion->extra),
		.surprise = excursion->surprise,
		.score = excursion->extra * type->unit_s * weight *
			 fmin(excursion->surprise, SURPRISE_RANKED),
	};

	spikes->found++;
	spike.goes_on = excursion->goes_on || spike.interval.to_ns + GOES_ON_NS > search->newest_ns;
	if (spikes->count == SPIKES_FOUND_MAX)
		drop_lowest(spikes);
	if (array_reserve(&spikes->items, sizeof(spike), &search->capacity, spikes->count, 1,
			  SPIKES_FOUND_MAX))
		return error_set(search->err, -ENOMEM, "out of memory for %u spikes",
				 spikes->count);
	spike.service = strdup(string_table_get(&search->services, signal->service));
	spike.group = strdup(signal->group);
	if (!spike.service || !spike.group) {
		spike_deinit(&spike);
		return error_set(search->err, -ENOMEM, "out of memory for %u spikes",
				 spikes->count);
	}
	spikes->items[spikes->count++] = spike;
	return 0;
}

static int judge_signal(struct search *search, void *context, uint32_t row, const int64_t *values)
{
	const struct signals *signals = context;
	const struct signal *signal = &signals->items[row];
	const struct usual_series series = {
		.values = values,
		.count = search->slot_count,
		.slot_ns = search->slot_ns,
		.block_ns = search->block_ns,
		.present = search->present + (size_t)signal->service * search->unit_count,
		.present_count = search->unit_count,
		.unit_ns = search->unit_ns,
		.judged_from = search->judged_from,
		.quantum = signals->type->quantum,
		.rise_min = signals->type->rate ? SPIKES_RISE_MIN / signals->type->unit_s : 0,
		.scale_min_ns = signals->type->is_sampled ? SPIKES_SAMPLED_SCALE_NS : 0,
	};
	struct excursions excursions;

	int rc = usual_range_judge(&series, search->options->min_s / signals->type->unit_s,
				   &excursions);
	if (rc)
		return error_set(search->err, rc, "out of memory for a series");
	for (uint32_t i = 0; i < excursions.count && !rc; i++)
		rc = add_spike(search, signals->type, signal, &excursions.items[i]);
	return rc;
}

/** The row of a series' signal, added if new; STORE_ROW_NONE: it is not judged. */
static int find_row(struct search *search, struct signals *signals,
		    const struct store_selection *selection, uint32_t series, uint32_t *ret_row)
{
	const char *label = signals->type->group_label;
	const char *group = label ? label_of(selection, series, label) : "";
	uint32_t service =
		string_table_find(&search->services, label_of(selection, series, LABEL_SERVICE));

	*ret_row = STORE_ROW_NONE;
	if (service == HASH_TABLE_NONE || spike_type_weight(signals->type, group) <= 0)
		return 0;
	for (uint32_t i = signals->count; i-- > 0;) {
		if (signals->items[i].service != service ||
		    strcmp(signals->items[i].group, group) != 0)
			continue;
		*ret_row = i;
		return 0;
	}
	if (signals->count == SPIKES_SIGNALS_MAX) {
		search->spikes->left_out++;
		return 0;
	}
	if (array_reserve(&signals->items, sizeof(*signals->items), &signals->capacity,
			  signals->count, 1, SPIKES_SIGNALS_MAX))
		return error_set(search->err, -ENOMEM, "out of memory for the series");
	signals->items[signals->count] = (struct signal){ service, group };
	*ret_row = signals->count++;
	return 0;
}

static void signals_deinit(struct signals *signals)
{
	free(signals->items);
}

static int search_type(struct search *search, const struct spike_type *type)
{
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	_cleanup_(signals_deinit) struct signals signals = { .type = type };
	int rc = select_type(search, type->type, &selection);

	if (rc || !selection->series_count)
		return rc;
	_cleanup_free_ uint32_t *rows = calloc(selection->series_count, sizeof(*rows));
	if (!rows)
		return error_set(search->err, -ENOMEM, "out of memory for %u series",
				 selection->series_count);
	for (uint32_t i = 0; i < selection->series_count && !rc; i++)
		rc = find_row(search, &signals, selection, i, &rows[i]);
	if (rc || !signals.count)
		return rc;
	const struct row_reader reader = {
		.search = search,
		.selection = selection,
		.row_of_series = rows,
		.row_count = signals.count,
		.slot_ns = search->slot_ns,
		.slot_count = search->slot_count,
		.on_row = judge_signal,
		.context = &signals,
	};
	return read_rows(&reader);
}

static int search_types(struct search *search)
{
	uint32_t count;
	const struct spike_type *types = spike_types(&count);
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++) {
		if (!search->options->type || strcmp(search->options->type, types[i].type) == 0)
			rc = search_type(search, &types[i]);
	}
	return rc;
}

// ---- what remains ---------------------------------------------------------------------------

/** The largest value of as long an interval around the spike's time, @ago_ns before. */
static int read_season(struct search *search, const struct spike *spike, uint64_t ago_ns,
		       double *ret_value)
{
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	struct spike_selector narrowed;
	struct query query = *search->query;
	// Two neighbours together are as long as the spike, wherever it lay in them.
	uint64_t half_ns =
		round_up((spike->interval.to_ns - spike->interval.from_ns + 1) / 2, 20 * NS_PER_MS);
	uint64_t from_ns = spike->interval.from_ns - ago_ns - SEASON_REACH_NS;
	uint64_t halves = 2 * SEASON_REACH_NS / half_ns + 3;

	spike_selector_init(&narrowed, query.selector, false);
	spike_selector_add(&narrowed, LABEL_SERVICE, spike->service);
	if (spike->type->group_label)
		spike_selector_add(&narrowed, spike->type->group_label, spike->group);
	query.selector = &narrowed.selector;
	query.type = spike->type->type;
	query.range = (struct time_range){ from_ns, from_ns + halves * half_ns };
	int rc = query_select(&query, &selection, search->err);

	if (rc || !selection->series_count)
		return rc;
	_cleanup_free_ int64_t *values = calloc(halves, sizeof(*values));
	if (!values)
		return error_set(search->err, -ENOMEM, "out of memory for a series");
	rc = store_activity(query.store, selection, query.range, half_ns, NULL, values,
			    search->err);
	for (uint64_t i = 1; i < halves && !rc; i++)
		*ret_value = fmax(*ret_value, (double)values[i - 1] + (double)values[i]);
	return rc;
}

/** Did the service reach as much at this time yesterday, or a week ago? */
static int is_usual_at_time(struct search *search, const struct spike *spike, bool *ret_usual)
{
	static const uint64_t ago_ns[] = { DAY_NS, 7 * DAY_NS };
	int rc = 0;

	*ret_usual = false;
	for (size_t i = 0; i < ARRAY_SIZE(ago_ns) && !rc && !*ret_usual; i++) {
		double value = 0;

		if (spike->interval.from_ns < search->oldest_ns + ago_ns[i] + SEASON_REACH_NS)
			break;
		rc = read_season(search, spike, ago_ns[i], &value);
		*ret_usual = value >= SEASON_SHARE * spike->value;
	}
	return rc;
}

/** Keep those that the season does not explain, up to the limit. */
static int keep_first(struct search *search)
{
	struct spikes *spikes = search->spikes;
	uint32_t kept = 0, i = 0;
	int rc = 0;

	for (; i < spikes->count && kept < search->options->limit && !rc; i++) {
		bool is_usual;

		rc = is_usual_at_time(search, &spikes->items[i], &is_usual);
		if (rc)
			break;
		if (is_usual) {
			spikes->usual_at_time++;
			spikes->found--;
			spike_deinit(&spikes->items[i]);
			continue;
		}
		spikes->items[kept++] = spikes->items[i];
	}
	for (; i < spikes->count; i++)
		spike_deinit(&spikes->items[i]);
	spikes->count = kept;
	return rc;
}

/** Do they have half of the shorter one in common? */
static bool is_same_time(const struct spike *a, const struct spike *b)
{
	uint64_t from = a->interval.from_ns > b->interval.from_ns ? a->interval.from_ns
								  : b->interval.from_ns;
	uint64_t to = a->interval.to_ns < b->interval.to_ns ? a->interval.to_ns : b->interval.to_ns;
	uint64_t a_ns = a->interval.to_ns - a->interval.from_ns;
	uint64_t b_ns = b->interval.to_ns - b->interval.from_ns;

	return from < to && 2 * (to - from) >= (a_ns < b_ns ? a_ns : b_ns);
}

/** The service that kept @spike's threads from running; of any other spike its own. */
static const char *culprit_of(const struct spike *spike)
{
	bool is_neighbours = strcmp(spike->type->type, PROFILE_TYPE_SCHED_DELAY) == 0 &&
			     *spike->cause.meanwhile_service;

	return is_neighbours ? spike->cause.meanwhile_service : spike->service;
}

/** A full machine makes many services wait: they are one incident, that of the service which filled it. */
static bool is_same_incident(const struct spike *a, const struct spike *b)
{
	return (strcmp(a->service, b->service) == 0 || strcmp(culprit_of(a), culprit_of(b)) == 0) &&
	       is_same_time(a, b);
}

static void assign_incidents(struct spikes *spikes)
{
	for (uint32_t i = 0; i < spikes->count; i++) {
		struct spike *spike = &spikes->items[i];

		spike->incident = i;
		for (uint32_t first = 0; first < i && spike->incident == i; first++) {
			const struct spike *other = &spikes->items[first];

			if (other->incident == first && is_same_incident(other, spike))
				spike->incident = first;
		}
	}
}

/** Explain as many as the deadline allows: what was found is worth more than nothing. */
static int explain(struct search *search)
{
	struct query query = *search->query;
	int rc = 0;

	query.range = search->span;
	for (uint32_t i = 0; i < search->spikes->count && !rc; i++) {
		struct spike *spike = &search->spikes->items[i];

		rc = spike_explain(&query, spike, search->err);
		spike->explained = !rc;
		if (spike->explained && spike->type->has_stacks && !spike->cause.code.is_users)
			spike->score *= UNEXPLAINED_SHARE;
	}
	if (search->spikes->count)
		qsort(search->spikes->items, search->spikes->count,
		      sizeof(search->spikes->items[0]), compare_spikes);
	return rc == -ETIMEDOUT ? 0 : rc;
}

static int search_run(struct search *search)
{
	choose_span(search);
	search->spikes->range = search->query->range;
	search->spikes->slot_ns = search->slot_ns;
	if (!search->slot_count)
		return 0;
	if (search->span.from_ns < search->query->range.from_ns)
		search->spikes->history_ns = search->query->range.from_ns - search->span.from_ns;
	int rc = read_services(search);
	if (rc)
		return rc;
	count_not_judged(search);
	rc = search_types(search);
	if (rc)
		return rc;
	if (search->spikes->count)
		qsort(search->spikes->items, search->spikes->count,
		      sizeof(search->spikes->items[0]), compare_spikes);
	rc = keep_first(search);
	if (rc)
		return rc;
	rc = search->options->unexplained ? 0 : explain(search);
	assign_incidents(search->spikes);
	return rc;
}

int query_spikes(const struct query *query, const struct spikes_options *options,
		 struct spikes *ret_spikes, struct error *err)
{
	_cleanup_(spikes_deinit) struct spikes spikes = { 0 };
	_cleanup_(search_deinit) struct search search = {
		.query = query,
		.options = options,
		.err = err,
		.spikes = &spikes,
	};

	if (options->type && !spike_type_find(options->type))
		return error_set(err, -EINVAL, "%s is not judged for spikes", options->type);
	int rc = search_run(&search);
	if (rc)
		return rc;
	*ret_spikes = spikes;
	spikes = (struct spikes){ 0 };
	return 0;
}
