// SPDX-License-Identifier: Apache-2.0
// Selects series: which have rows in the range, say the shards; what their labels are, the definitions; which match is
// decided here, for selectors are PromQL's.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/string_table.h"
#include "collector/store/clickhouse/clickhouse_row.h"
#include "collector/store/clickhouse/clickhouse_sql.h"
#include "collector/store/clickhouse/clickhouse_store.h"

enum {
	SELECTED_SERIES_MAX = 4 << 20, // in a shard, before they are matched
	SERVICES_IN_SQL_MAX = 256,     // beyond, rows are found by their series alone
};

bool clickhouse_range_condition(struct time_range range, bool is_whole,
				char ret_text[CLICKHOUSE_CONDITION_BYTES])
{
	uint64_t last_ns = range.to_ns - 1, days_max = UINT16_MAX;

	if (range.from_ns >= range.to_ns)
		return false;
	// A batch lies in the day of its oldest sample, and reaches at most into the next.
	uint64_t from_day = range.from_ns / DAY_NS, to_day = last_ns / DAY_NS;
	from_day = from_day > days_max ? days_max : from_day ? from_day - 1 : 0;
	to_day = to_day > days_max ? days_max : to_day;
	uint64_t from_minute = range.from_ns / MINUTE_NS, to_minute = last_ns / MINUTE_NS;
	from_minute = from_minute > UINT32_MAX ? UINT32_MAX : from_minute;
	to_minute = to_minute > UINT32_MAX ? UINT32_MAX : to_minute;
	snprintf(
		ret_text, CLICKHOUSE_CONDITION_BYTES,
		"day >= toDate(%llu) AND day <= toDate(%llu) AND minute >= %llu AND minute <= %llu "
		"AND %s >= %llu AND %s <= %llu",
		(unsigned long long)from_day, (unsigned long long)to_day,
		(unsigned long long)from_minute, (unsigned long long)to_minute,
		is_whole ? "first_ns" : "last_ns", (unsigned long long)range.from_ns,
		is_whole ? "last_ns" : "first_ns", (unsigned long long)last_ns);
	return true;
}

// ---- the selection --------------------------------------------------------------------------------

static bool number_has_id(const void *context, uint32_t item, const void *key)
{
	const struct clickhouse_selection *selection = context;

	return id128_equal(selection->ids[item], *(const struct id128 *)key);
}

uint32_t clickhouse_selection_find(const struct clickhouse_selection *selection, struct id128 id)
{
	return hash_table_find(&selection->index, id128_hash(id), number_has_id, selection, &id);
}

void clickhouse_selection_free(struct store_selection *result)
{
	struct clickhouse_selection *selection = result->private_;

	for (uint32_t i = 0; i < result->series_count; i++) {
		labels_deinit(&result->series[i].labels);
		free((char *)(uintptr_t)result->series[i].type);
	}
	for (uint32_t i = 0; i < CLICKHOUSE_SERVERS_MAX; i++)
		free(selection->shards[i].ids);
	free(result->series);
	free(selection->ids);
	free(selection->services);
	hash_table_deinit(&selection->index);
	free(selection);
}

static void selection_freep(struct clickhouse_selection **selection)
{
	if (*selection)
		clickhouse_selection_free(&(*selection)->result);
}

/** Ids as they come. */
struct active {
	struct id128 *ids;
	uint32_t count, capacity;
};

static int read_active(void *context, struct reader *reader)
{
	struct active *active = context;
	struct id128 id = row_id(reader);

	if (reader->failed)
		return 0;
	int rc = array_reserve(&active->ids, sizeof(*active->ids), &active->capacity, active->count,
			       1, SELECTED_SERIES_MAX);
	if (!rc)
		active->ids[active->count++] = id;
	return rc == -E2BIG ? -EFBIG : rc;
}

/** A matcher that asks for one service narrows what is read. */
static void put_service(const struct selector *selector, char *condition)
{
	for (uint32_t i = 0; i < selector->count; i++) {
		const struct matcher *matcher = &selector->matchers[i];
		size_t size = strlen(condition);

		if (matcher->op == MATCH_EQUAL && *matcher->value &&
		    strcmp(matcher->name, LABEL_SERVICE) == 0)
			snprintf(
				condition + size, CLICKHOUSE_CONDITION_BYTES - size,
				" AND service = %llu",
				(unsigned long long)id128_of(matcher->value, strlen(matcher->value))
					.high);
	}
}

static int list_active(struct clickhouse_store *store, uint32_t shard,
		       const struct selector *selector, const char *condition,
		       struct active *active, struct error *err)
{
	char sql[CLICKHOUSE_CONDITION_BYTES + 128];

	snprintf(sql, sizeof(sql), SQL_ACTIVE_SERIES, condition);
	const struct clickhouse_request request = {
		.sql = sql, .row = read_active, .context = active, .deadline = selector->deadline
	};
	return clickhouse_ask(&store->client, shard, &request, err);
}

/** Copy labels and type, so that no lock is held while they are matched. */
static int copy_series(struct definitions *definitions, struct id128 id,
		       struct store_series *ret_series)
{
	pthread_mutex_lock(&definitions->lock);
	uint32_t at = definitions_find_series(definitions, id);
	int rc = at == HASH_TABLE_NONE ? -ENOENT : 0;
	if (!rc) {
		const struct series *series = &definitions->profile->series[at];

		rc = labels_copy(&series->labels, &ret_series->labels);
		ret_series->type = strdup(profile_string(definitions->profile, series->type));
	}
	pthread_mutex_unlock(&definitions->lock);
	return !rc && !ret_series->type ? -ENOMEM : rc;
}

static void series_deinit(struct store_series *series)
{
	labels_deinit(&series->labels);
	free((char *)(uintptr_t)series->type);
}

/** Add a series that matches to the selection, unless another shard had it. */
static int match_series(struct clickhouse_selection *selection, struct definitions *definitions,
			const struct selector *selector, const char *type, struct id128 id,
			uint32_t *capacity, bool *ret_matches)
{
	struct store_selection *result = &selection->result;
	_cleanup_(series_deinit) struct store_series series = { .number = result->series_count };
	uint32_t ids_capacity = *capacity;

	*ret_matches = clickhouse_selection_find(selection, id) != HASH_TABLE_NONE;
	if (*ret_matches)
		return 0;
	int rc = copy_series(definitions, id, &series);
	if (rc == -ENOENT) // rows without a definition: somebody has deleted it
		return 0;
	if (!rc && ((type && strcmp(type, series.type) != 0) ||
		    !selector_matches(selector, &series.labels)))
		return 0;
	if (!rc)
		rc = array_reserve(&selection->ids, sizeof(*selection->ids), &ids_capacity,
				   result->series_count, 1, SELECTED_SERIES_MAX);
	if (!rc)
		rc = array_reserve(&result->series, sizeof(*result->series), capacity,
				   result->series_count, 1, SELECTED_SERIES_MAX);
	if (!rc)
		rc = hash_table_add(&selection->index, id128_hash(id), series.number);
	if (rc)
		return rc;
	selection->ids[series.number] = id;
	result->series[result->series_count++] = series;
	series = (struct store_series){ 0 };
	*ret_matches = true;
	return 0;
}

static int select_shard(struct clickhouse_store *store, uint32_t shard,
			struct clickhouse_selection *selection, struct definitions *definitions,
			const struct selector *selector, const char *type, const char *condition,
			uint32_t *capacity, struct error *err)
{
	struct active active = { 0 };
	uint32_t kept = 0;
	int rc = list_active(store, shard, selector, condition, &active, err);

	if (!rc)
		rc = definitions_fetch_series(definitions, &store->client, shard, active.ids,
					      active.count, selector->deadline, err);
	for (uint32_t i = 0; i < active.count && !rc; i++) {
		bool matches;

		rc = match_series(selection, definitions, selector, type, active.ids[i], capacity,
				  &matches);
		if (rc)
			error_set(err, rc, "store: out of memory");
		else if (matches)
			active.ids[kept++] = active.ids[i];
	}
	selection->shards[shard].ids = active.ids;
	selection->shards[shard].count = rc ? 0 : kept;
	return rc;
}

static int compare_numbers(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/** " AND service IN (...)": rows are sorted by service first. */
static int put_services(struct clickhouse_selection *selection)
{
	uint32_t count = selection->result.series_count, kept = 0;
	_cleanup_free_ uint64_t *services = calloc(count + 1, sizeof(*services));
	struct buffer text = { 0 };

	if (!services)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const char *service =
			labels_get(&selection->result.series[i].labels, LABEL_SERVICE);

		services[i] = service ? id128_of(service, strlen(service)).high : 0;
	}
	qsort(services, count, sizeof(*services), compare_numbers);
	for (uint32_t i = 0; i < count; i++)
		if (!kept || services[kept - 1] != services[i])
			services[kept++] = services[i];
	if (kept && kept <= SERVICES_IN_SQL_MAX) {
		buffer_append_string(&text, " AND service IN (");
		for (uint32_t i = 0; i < kept; i++)
			buffer_printf(&text, "%s%llu", i ? ", " : "",
				      (unsigned long long)services[i]);
		buffer_append_string(&text, ")");
	}
	selection->services = text.rc ? NULL : strdup(buffer_string(&text));
	buffer_deinit(&text);
	return selection->services ? 0 : -ENOMEM;
}

int clickhouse_select(struct store *base, const struct selector *selector, const char *type,
		      struct time_range range, struct store_selection **ret_selection,
		      struct error *err)
{
	struct clickhouse_store *store = (struct clickhouse_store *)base;
	_cleanup_(selection_freep) struct clickhouse_selection *selection =
		calloc(1, sizeof(*selection));
	struct definitions *definitions = clickhouse_definitions(store);
	char condition[CLICKHOUSE_CONDITION_BYTES];
	uint32_t capacity = 0;
	int rc = selection && definitions ? clickhouse_check_shards(store, err)
					  : error_set(err, -ENOMEM, "store: out of memory");

	if (selection) {
		selection->base.ops = base->ops;
		selection->result.private_ = selection;
		selection->result.deadline = selector->deadline;
	}
	bool any = clickhouse_range_condition(range, false, condition);
	if (any)
		put_service(selector, condition);
	for (uint32_t i = 0; i < store->client.shard_count && !rc && any; i++)
		rc = select_shard(store, i, selection, definitions, selector, type, condition,
				  &capacity, err);
	definitions_unref(definitions);
	if (!rc)
		rc = selector_check_cost(selector, err);
	if (!rc && put_services(selection))
		rc = error_set(err, -ENOMEM, "store: out of memory");
	if (!rc)
		*ret_selection = &take(selection)->result;
	return rc;
}

// ---- names ----------------------------------------------------------------------------------------

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_strings(const struct string_table *strings, struct name_list *ret_list)
{
	struct name_list list = { .names = calloc(strings->count + 1, sizeof(*list.names)) };

	for (uint32_t i = 1; i < strings->count && list.names; i++) { // 0 is ""
		list.names[list.count] = strdup(string_table_get(strings, i));
		if (!list.names[list.count]) {
			name_list_deinit(&list);
			break;
		}
		list.count++;
	}
	if (!list.names)
		return -ENOMEM;
	qsort(list.names, list.count, sizeof(*list.names), compare_names);
	*ret_list = list;
	return 0;
}

/** @name NULL: names; otherwise the label's values. */
static int add_names(struct string_table *strings, const struct store_series *series,
		     const char *name)
{
	const char *value;
	uint32_t number;
	int rc = 0;

	for (uint32_t i = 0; i < series->labels.count && !name && !rc; i++) {
		const char *text = series->labels.pairs[i].name;

		rc = string_table_add(strings, text, strlen(text), &number);
	}
	if (!name)
		return rc;
	value = strcmp(name, "__type__") == 0 ? series->type : labels_get(&series->labels, name);
	return value ? string_table_add(strings, value, strlen(value), &number) : 0;
}

static int list_names(struct store *store, const char *name, const struct selector *selector,
		      struct time_range range, struct name_list *ret_list, struct error *err)
{
	_cleanup_(string_table_deinit) struct string_table strings = { 0 };
	struct store_selection *selection = NULL;
	int rc = clickhouse_select(store, selector, NULL, range, &selection, err);

	if (rc)
		return rc;
	rc = string_table_init(&strings);
	for (uint32_t i = 0; i < selection->series_count && !rc; i++)
		rc = add_names(&strings, &selection->series[i], name);
	if (!rc)
		rc = list_strings(&strings, ret_list);
	clickhouse_selection_free(selection);
	return rc ? error_set(err, rc, "store: out of memory") : 0;
}

int clickhouse_label_names(struct store *store, const struct selector *selector,
			   struct time_range range, struct name_list *ret_list, struct error *err)
{
	return list_names(store, NULL, selector, range, ret_list, err);
}

int clickhouse_label_values(struct store *store, const char *name, const struct selector *selector,
			    struct time_range range, struct name_list *ret_list, struct error *err)
{
	return list_names(store, name, selector, range, ret_list, err);
}
