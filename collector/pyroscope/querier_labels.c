// SPDX-License-Identifier: Apache-2.0
// Which profile types, labels and series there are.
#include "collector/pyroscope/querier_labels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/id128.h"

#define TYPE_LABEL "__type__" // store_label_values() lists the types under this name

// ---- names ----------------------------------------------------------------------------------

/** Strings, each once; in order after names_finish(). */
struct names {
	struct string_table table;
	const char **at;
	uint32_t count;
	int rc; // of the first failure
};

static void names_deinit(struct names *names)
{
	string_table_deinit(&names->table);
	free(names->at);
}

static void names_add(struct names *names, const char *name)
{
	uint32_t number;

	if (!names->rc && !names->table.count)
		names->rc = string_table_init(&names->table);
	if (!names->rc)
		names->rc = string_table_add(&names->table, name, strlen(name), &number);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int names_finish(struct names *names, struct error *err)
{
	if (!names->rc)
		names->rc = array_allocate(&names->at, names->table.count, sizeof(*names->at));
	if (names->rc)
		return error_set(err, names->rc, "out of memory for names");
	for (uint32_t i = 1; i < names->table.count; i++) // string 0 is ""
		names->at[names->count++] = string_table_get(&names->table, i);
	if (names->count)
		qsort(names->at, names->count, sizeof(*names->at), compare_texts);
	return 0;
}

// ---- matchers -------------------------------------------------------------------------------

/** One of a request's selectors, with what it is used for. */
struct asked {
	const struct querier_call *call;
	struct time_range range;
	const char *label;   // of LabelValues
	struct names *names; // found
};

typedef int (*with_selector_fn)(const struct asked *asked,
				const struct pyroscope_selector *selector, struct error *err);

/** Do it for each selector; a series may match any of them. None: all series. */
static int for_selectors(const struct asked *asked, char *const *matchers, size_t count,
			 with_selector_fn use, struct error *err)
{
	static char everything[] = "{}";
	char *const all[] = { everything };
	int rc = 0;

	if (!count) {
		matchers = all;
		count = 1;
	}
	if (count > SELECTOR_MATCHERS_MAX)
		return error_set(err, -EINVAL, "matchers: more than %d", SELECTOR_MATCHERS_MAX);
	for (size_t i = 0; !rc && i < count; i++) {
		struct pyroscope_selector selector;

		rc = pyroscope_selector_parse(matchers[i], asked->call->tenant, &selector, err);
		if (rc)
			return rc;
		selector_set_deadline(&selector.selector, asked->call->deadline);
		rc = use(asked, &selector, err);
		if (!rc)
			rc = selector_check_cost(&selector.selector, err);
		pyroscope_selector_deinit(&selector);
	}
	return rc;
}

static int select_series(const struct asked *asked, const struct pyroscope_selector *selector,
			 struct store_selection **ret_selection, struct error *err)
{
	return store_select(asked->call->store, &selector->selector,
			    *selector->type ? selector->type : NULL, asked->range, ret_selection,
			    err);
}

// ---- types ----------------------------------------------------------------------------------

static int add_types(const struct asked *asked, const struct pyroscope_selector *selector,
		     struct error *err)
{
	_cleanup_(name_list_deinit) struct name_list list = { 0 };
	struct profile_type parts;

	if (*selector->type) {
		names_add(asked->names, selector->type);
		return 0;
	}
	int rc = store_label_values(asked->call->store, TYPE_LABEL, &selector->selector,
				    asked->range, &list, err);
	for (uint32_t i = 0; !rc && i < list.count; i++)
		if (!profile_type_parse(list.names[i], &parts, NULL))
			names_add(asked->names, list.names[i]);
	return rc;
}

int querier_profile_types(const struct querier_call *call, const ProtobufCMessage *message,
			  struct error *err)
{
	const Querier__V1__ProfileTypesRequest *request = (const void *)message;
	Querier__V1__ProfileTypesResponse response = QUERIER__V1__PROFILE_TYPES_RESPONSE__INIT;
	_cleanup_(names_deinit) struct names names = { 0 };
	struct asked asked = { .call = call, .names = &names };
	int rc = querier_range(call, request->start, request->end, &asked.range, err);

	if (!rc)
		rc = for_selectors(&asked, NULL, 0, add_types, err);
	if (!rc)
		rc = names_finish(&names, err);
	if (rc)
		return rc;

	_cleanup_free_ Querier__V1__ProfileType *types = calloc(names.count + 1, sizeof(*types));
	_cleanup_free_ Querier__V1__ProfileType **pointers =
		calloc(names.count + 1, sizeof(*pointers));
	_cleanup_free_ struct profile_type *parts = calloc(names.count + 1, sizeof(*parts));
	if (!types || !pointers || !parts)
		return error_set(err, -ENOMEM, "out of memory for profile types");
	for (uint32_t i = 0; i < names.count; i++) {
		profile_type_parse(names.at[i], &parts[i], NULL);
		querier__v1__profile_type__init(&types[i]);
		types[i].id = (char *)names.at[i];
		types[i].name = parts[i].name;
		types[i].sample_type = parts[i].sample_type;
		types[i].sample_unit = parts[i].sample_unit;
		types[i].period_type = parts[i].period_type;
		types[i].period_unit = parts[i].period_unit;
		pointers[i] = &types[i];
	}
	response.n_profile_types = names.count;
	response.profile_types = pointers;
	return querier_respond(call, &response.base, err);
}

// ---- labels ---------------------------------------------------------------------------------

static int add_label_names(const struct asked *asked, const struct pyroscope_selector *selector,
			   struct error *err)
{
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	_cleanup_(name_list_deinit) struct name_list list = { 0 };
	int rc;

	if (!*selector->type) {
		rc = store_label_names(asked->call->store, &selector->selector, asked->range, &list,
				       err);
		for (uint32_t i = 0; !rc && i < list.count; i++)
			names_add(asked->names, label_map_to_theirs(list.names[i]));
		return rc;
	}
	rc = select_series(asked, selector, &selection, err);
	for (uint32_t i = 0; !rc && i < selection->series_count; i++) {
		const struct labels *labels = &selection->series[i].labels;

		for (uint32_t l = 0; l < labels->count; l++)
			names_add(asked->names, label_map_to_theirs(labels->pairs[l].name));
	}
	return rc;
}

static int respond_names(const struct querier_call *call, struct names *names, struct error *err)
{
	Querier__V1__LabelNamesResponse response = QUERIER__V1__LABEL_NAMES_RESPONSE__INIT;
	int rc = names_finish(names, err);

	response.n_names = names->count;
	response.names = (char **)names->at;
	return rc ? rc : querier_respond(call, &response.base, err);
}

int querier_label_names(const struct querier_call *call, const ProtobufCMessage *message,
			struct error *err)
{
	const Querier__V1__LabelNamesRequest *request = (const void *)message;
	_cleanup_(names_deinit) struct names names = { 0 };
	struct asked asked = { .call = call, .names = &names };
	int rc = querier_range(call, request->start, request->end, &asked.range, err);
	uint32_t count;

	if (!rc)
		rc = for_selectors(&asked, request->matchers, request->n_matchers, add_label_names,
				   err);
	if (rc)
		return rc;
	const struct type_label *types = label_map_type_labels(&count);
	for (uint32_t i = 0; names.table.count && i < count; i++)
		names_add(&names, types[i].name);
	return respond_names(call, &names, err);
}

static int add_label_values(const struct asked *asked, const struct pyroscope_selector *selector,
			    struct error *err)
{
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	_cleanup_(name_list_deinit) struct name_list list = { 0 };
	const char *label = label_map_to_ours(asked->label);
	int rc;

	if (!*selector->type) {
		rc = store_label_values(asked->call->store, label, &selector->selector,
					asked->range, &list, err);
		for (uint32_t i = 0; !rc && i < list.count; i++)
			names_add(asked->names, list.names[i]);
		return rc;
	}
	rc = select_series(asked, selector, &selection, err);
	for (uint32_t i = 0; !rc && i < selection->series_count; i++) {
		const char *value = labels_get(&selection->series[i].labels, label);

		if (value)
			names_add(asked->names, value);
	}
	return rc;
}

/** The parts of the types in @types. */
static void add_parts(const struct names *types, const struct type_label *label,
		      struct names *names)
{
	struct profile_type parts;

	for (uint32_t i = 0; i < types->count; i++)
		names_add(names, label_map_type_part(label, types->at[i], &parts));
}

int querier_label_values(const struct querier_call *call, const ProtobufCMessage *message,
			 struct error *err)
{
	const Querier__V1__LabelValuesRequest *request = (const void *)message;
	const struct type_label *type_label = label_map_type_label(request->name);
	_cleanup_(names_deinit) struct names found = { 0 }, parts = { 0 };
	struct asked asked = { .call = call, .label = request->name, .names = &found };
	int rc = querier_range(call, request->start, request->end, &asked.range, err);

	if (!*request->name)
		return error_set(err, -EINVAL, "name: a label's name is missing");
	if (!rc)
		rc = for_selectors(&asked, request->matchers, request->n_matchers,
				   type_label ? add_types : add_label_values, err);
	if (rc || !type_label)
		return rc ? rc : respond_names(call, &found, err);
	rc = names_finish(&found, err);
	if (rc)
		return rc;
	add_parts(&found, type_label, &parts);
	return respond_names(call, &parts, err);
}

// ---- series ---------------------------------------------------------------------------------

/** Distinct sets of labels, by a hash of names and values. */
struct label_sets {
	const Querier__V1__SeriesRequest *request;
	struct hash_table index;
	struct id128 *ids;
	Querier__V1__Labels **sets;
	uint32_t count, ids_capacity, sets_capacity;
};

static void label_sets_deinit(struct label_sets *sets)
{
	for (uint32_t i = 0; i < sets->count; i++)
		querier__v1__labels__free_unpacked(sets->sets[i], NULL);
	free(sets->sets);
	free(sets->ids);
	hash_table_deinit(&sets->index);
}

static bool id_equal(const void *context, uint32_t item, const void *key)
{
	const struct label_sets *sets = context;

	return id128_equal(sets->ids[item], *(const struct id128 *)key);
}

static bool is_wanted(const Querier__V1__SeriesRequest *request, const char *name)
{
	for (size_t i = 0; i < request->n_label_names; i++)
		if (strcmp(request->label_names[i], name) == 0)
			return true;
	return request->n_label_names == 0;
}

/** A pair of the set, which owns it. */
static int add_pair(Querier__V1__Labels *set, const char *name, const char *value)
{
	Querier__V1__LabelPair *pair = calloc(1, sizeof(*pair));

	if (!pair)
		return -ENOMEM;
	querier__v1__label_pair__init(pair);
	pair->name = strdup(name);
	pair->value = strdup(value);
	set->labels[set->n_labels++] = pair;
	return pair->name && pair->value ? 0 : -ENOMEM;
}

static int compare_pairs(const void *a, const void *b)
{
	const Querier__V1__LabelPair *x = *(Querier__V1__LabelPair *const *)a;
	const Querier__V1__LabelPair *y = *(Querier__V1__LabelPair *const *)b;

	return strcmp(x->name, y->name);
}

static int fill_set(const struct label_sets *sets, const struct store_series *series,
		    Querier__V1__Labels *set)
{
	struct profile_type parts;
	uint32_t count;
	const struct type_label *types = label_map_type_labels(&count);

	set->labels = calloc(series->labels.count + count + 1ULL, sizeof(*set->labels));
	int rc = set->labels ? 0 : -ENOMEM;
	for (uint32_t i = 0; !rc && i < series->labels.count; i++) {
		const char *name = label_map_to_theirs(series->labels.pairs[i].name);

		if (is_wanted(sets->request, name))
			rc = add_pair(set, name, series->labels.pairs[i].value);
	}
	for (uint32_t i = 0; !rc && i < count; i++)
		if (is_wanted(sets->request, types[i].name))
			rc = add_pair(set, types[i].name,
				      label_map_type_part(&types[i], series->type, &parts));
	if (!rc)
		qsort(set->labels, set->n_labels, sizeof(*set->labels), compare_pairs);
	return rc;
}

static struct id128 id_of_set(const Querier__V1__Labels *set, struct buffer *text)
{
	buffer_clear(text);
	for (size_t i = 0; i < set->n_labels; i++) {
		buffer_append(text, set->labels[i]->name, strlen(set->labels[i]->name) + 1);
		buffer_append(text, set->labels[i]->value, strlen(set->labels[i]->value) + 1);
	}
	return id128_of(text->bytes, text->size);
}

/** Keep @set, or free it if there is an equal one. */
static int add_set(struct label_sets *sets, Querier__V1__Labels *set, struct buffer *text,
		   struct error *err)
{
	struct id128 id = id_of_set(set, text);
	uint64_t hash = id128_hash(id);
	int rc = text->rc;

	if (!rc && (!set->n_labels ||
		    hash_table_find(&sets->index, hash, id_equal, sets, &id) != HASH_TABLE_NONE)) {
		querier__v1__labels__free_unpacked(set, NULL);
		return 0;
	}
	if (!rc)
		rc = array_reserve(&sets->ids, sizeof(id), &sets->ids_capacity, sets->count, 1,
				   QUERIER_LABEL_SETS_MAX);
	if (!rc)
		rc = array_reserve(&sets->sets, sizeof(set), &sets->sets_capacity, sets->count, 1,
				   QUERIER_LABEL_SETS_MAX);
	if (!rc)
		rc = hash_table_add(&sets->index, hash, sets->count);
	if (rc) {
		querier__v1__labels__free_unpacked(set, NULL);
		return rc == -E2BIG ? error_set(err, rc,
						"more than %d series differ in these labels; ask "
						"for fewer label names",
						QUERIER_LABEL_SETS_MAX)
				    : error_set(err, rc, "out of memory for series");
	}
	sets->ids[sets->count] = id;
	sets->sets[sets->count++] = set;
	return 0;
}

static int add_sets(struct label_sets *sets, const struct store_selection *selection,
		    struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	int rc = 0;

	for (uint32_t i = 0; !rc && i < selection->series_count; i++) {
		Querier__V1__Labels *set = calloc(1, sizeof(*set));

		if (!set)
			return error_set(err, -ENOMEM, "out of memory for series");
		querier__v1__labels__init(set);
		rc = fill_set(sets, &selection->series[i], set);
		if (rc) {
			querier__v1__labels__free_unpacked(set, NULL);
			return error_set(err, rc, "out of memory for series");
		}
		rc = add_set(sets, set, &text, err);
	}
	return rc;
}

struct asked_series {
	struct asked asked; // first: it is passed on
	struct label_sets *sets;
};

static int add_series(const struct asked *asked, const struct pyroscope_selector *selector,
		      struct error *err)
{
	const struct asked_series *series = (const struct asked_series *)asked;
	_cleanup_(store_selection_freep) struct store_selection *selection = NULL;
	int rc = select_series(asked, selector, &selection, err);

	return rc ? rc : add_sets(series->sets, selection, err);
}

int querier_series(const struct querier_call *call, const ProtobufCMessage *message,
		   struct error *err)
{
	const Querier__V1__SeriesRequest *request = (const void *)message;
	Querier__V1__SeriesResponse response = QUERIER__V1__SERIES_RESPONSE__INIT;
	_cleanup_(label_sets_deinit) struct label_sets sets = { .request = request };
	struct asked_series series = { .asked = { .call = call }, .sets = &sets };
	int rc = querier_range(call, request->start, request->end, &series.asked.range, err);

	if (!rc)
		rc = for_selectors(&series.asked, request->matchers, request->n_matchers,
				   add_series, err);
	if (rc)
		return rc;
	response.n_labels_set = sets.count;
	response.labels_set = sets.sets;
	return querier_respond(call, &response.base, err);
}
