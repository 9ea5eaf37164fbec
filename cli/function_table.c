// SPDX-License-Identifier: Apache-2.0
#include "cli/function_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/id128.h"
#include "base/saturating.h"
#include "base/contract/label_names.h"
#include "cli/frame_names.h"

#define NO_SAMPLE UINT32_MAX

/* What makes two frames the same row. Hashed as bytes: no padding. */
struct row_key {
	uint32_t name;
	uint32_t process;
	uint32_t kind;
};

struct build {
	struct function_table *table;
	const struct profile *profile;
	const struct function_choice *choice;
	struct frame_names names;
};

static int add_text(struct function_table *table, const char *text, uint32_t *ret_number)
{
	struct frame_names names = { .strings = &table->strings };
	int rc = table->strings.count ? 0 : string_table_init(&table->strings);

	return rc ? rc : frame_names_add(&names, text, ret_number);
}

static bool row_equal(const void *context, uint32_t item, const void *key)
{
	const struct function_row *row = &((const struct function_table *)context)->rows[item];
	const struct row_key *wanted = key;

	return row->name == wanted->name && row->process == wanted->process &&
	       (uint32_t)row->kind == wanted->kind;
}

static int append_row(struct function_table *table, const struct row_key *key, uint64_t hash,
		      uint32_t *ret_row)
{
	int rc = array_reserve(&table->rows, sizeof(*table->rows), &table->row_capacity,
			       table->row_count, 1, UINT32_MAX);

	if (!rc)
		rc = hash_table_add(&table->index, hash, table->row_count);
	if (rc)
		return rc;
	table->rows[table->row_count] = (struct function_row){
		.name = key->name,
		.process = key->process,
		.kind = (enum frame_kind)key->kind,
		.last_sample = NO_SAMPLE,
	};
	*ret_row = table->row_count++;
	return 0;
}

static int find_or_add_row(struct function_table *table, const struct row_key *key,
			   uint32_t *ret_row)
{
	uint64_t hash = hash64_of(key, sizeof(*key));
	uint32_t row = hash_table_find(&table->index, hash, row_equal, table, key);

	if (row == HASH_TABLE_NONE)
		return append_row(table, key, hash, ret_row);
	*ret_row = row;
	return 0;
}

int function_table_add(struct function_table *table, const char *process, const char *name,
		       enum frame_kind kind, int64_t self, int64_t total)
{
	struct row_key key = { .kind = kind };
	uint32_t row = 0;
	int rc = add_text(table, process, &key.process);

	if (!rc)
		rc = add_text(table, name, &key.name);
	if (!rc)
		rc = find_or_add_row(table, &key, &row);
	if (rc)
		return rc;
	table->rows[row].self = add_saturating(table->rows[row].self, self);
	table->rows[row].total = add_saturating(table->rows[row].total, total);
	return 0;
}

/* Count one frame of sample number @sample. Only the first frame of a stack, its leaf, has @self. */
static int count_frame(struct build *build, uint32_t sample, const struct row_key *key, bool self)
{
	const struct sample *counted = &build->profile->samples[sample];
	int64_t value = counted->value;
	uint32_t number = 0;
	int rc = find_or_add_row(build->table, key, &number);

	if (rc)
		return rc;

	struct function_row *row = &build->table->rows[number];
	if (self)
		row->self += value;
	if (row->last_sample == sample)
		return 0;
	row->last_sample = sample;
	row->total += value;
	if (build->table->has_parts)
		row->parts[time_part_of(&build->profile->series[counted->series].labels)] += value;
	return 0;
}

static int count_location(struct build *build, uint32_t sample, uint32_t process,
			  uint32_t location_number, bool leaf)
{
	uint32_t lines = frame_names_count(&build->names, location_number);
	int rc = 0;

	for (uint32_t line = 0; !rc && line < lines; line++) {
		struct row_key key = { .process = process,
				       .kind = build->profile->locations[location_number].kind };

		rc = frame_names_get(&build->names, location_number, line, &key.name);
		if (!rc)
			rc = count_frame(build, sample, &key, leaf && line == 0);
	}
	return rc;
}

/* Time whose stack is not known, or that has none, keeps a row of its own. */
static int count_unknown(struct build *build, uint32_t sample, const struct stack *stack,
			 uint32_t process)
{
	struct row_key key = { .process = process, .kind = FRAME_KIND_UNKNOWN };
	int rc = frame_names_add(&build->names, frame_names_missing(stack), &key.name);

	return rc ? rc : count_frame(build, sample, &key, true);
}

static int count_sample(struct build *build, uint32_t number)
{
	const struct profile *profile = build->profile;
	const struct sample *sample = &profile->samples[number];
	const struct stack *stack = &profile->stacks[sample->stack];
	const char *name = labels_get(&profile->series[sample->series].labels, LABEL_PROCESS);
	uint32_t process = 0;
	int rc = 0;

	if (build->choice->by_process)
		rc = frame_names_add(&build->names, name ? name : "", &process);
	if (!rc && (!stack->defined || !stack->location_count))
		rc = count_unknown(build, number, stack, process);
	for (uint32_t i = 0; !rc && stack->defined && i < stack->location_count; i++)
		rc = count_location(build, number, process,
				    profile->stack_locations[stack->first_location + i], i == 0);
	build->table->total += sample->value;
	build->table->sample_count++;
	return rc;
}

static const char *type_of(const struct profile *profile, const struct sample *sample)
{
	return profile_string(profile, profile->series[sample->series].type);
}

int function_table_build(const struct profile *profile, const struct function_choice *choice,
			 struct function_table *ret_table, struct error *err)
{
	_cleanup_(function_table_deinit) struct function_table table = {
		.has_parts = time_parts_has(choice->type)
	};
	struct build build = { &table, profile, choice, { 0 } };
	int rc = frame_names_init(profile, &table.strings, &build.names);

	for (uint32_t i = 0; !rc && i < profile->sample_count; i++)
		if (strcmp(type_of(profile, &profile->samples[i]), choice->type) == 0)
			rc = count_sample(&build, i);
	frame_names_deinit(&build.names);
	if (rc)
		return error_errno(err, rc, "function table");
	*ret_table = table;
	table = (struct function_table){ 0 };
	return 0;
}

void function_table_deinit(struct function_table *table)
{
	if (table->strings.count)
		string_table_deinit(&table->strings);
	hash_table_deinit(&table->index);
	free(table->rows);
	free(table->shown);
	*table = (struct function_table){ 0 };
}

static int compare(const struct function_row *a, const struct function_row *b,
		   enum function_order order)
{
	int64_t first_a = order == ORDER_BY_SELF ? a->self : a->total;
	int64_t first_b = order == ORDER_BY_SELF ? b->self : b->total;
	int64_t second_a = order == ORDER_BY_SELF ? a->total : a->self;
	int64_t second_b = order == ORDER_BY_SELF ? b->total : b->self;

	if (first_a != first_b)
		return first_a < first_b ? 1 : -1;
	if (second_a != second_b)
		return second_a < second_b ? 1 : -1;
	// Equal rows keep their order over refreshes.
	return a < b ? -1 : a > b;
}

struct order {
	const struct function_table *table;
	enum function_order by;
};

static int compare_shown(const void *a, const void *b, void *context)
{
	const struct order *order = context;
	const struct function_row *rows = order->table->rows;

	return compare(&rows[*(const uint32_t *)a], &rows[*(const uint32_t *)b], order->by);
}

static bool passes(const struct function_table *table, const struct function_row *row,
		   const char *filter)
{
	return strcasestr(string_table_get(&table->strings, row->name), filter) ||
	       strcasestr(string_table_get(&table->strings, row->process), filter);
}

int function_table_select(struct function_table *table, const char *filter,
			  enum function_order order)
{
	uint32_t *shown = realloc(table->shown, ((size_t)table->row_count + 1) * sizeof(*shown));
	struct order context = { table, order };

	if (!shown)
		return -ENOMEM;
	table->shown = shown;
	table->shown_count = 0;
	for (uint32_t i = 0; i < table->row_count; i++)
		if (passes(table, &table->rows[i], filter))
			shown[table->shown_count++] = i;
	qsort_r(shown, table->shown_count, sizeof(*shown), compare_shown, &context);
	return 0;
}

double function_table_percent(const struct function_table *table, int64_t value)
{
	return table->total > 0 ? 100.0 * (double)value / (double)table->total : 0;
}

static void print_parts(const struct function_table *table, const struct function_row *row,
			FILE *stream)
{
	for (int part = 0; table->has_parts && part < TIME_PART_COUNT; part++)
		fprintf(stream, " %6.2f", function_table_percent(table, row->parts[part]));
}

void function_table_print(const struct function_table *table, uint32_t rows_max, FILE *stream)
{
	fprintf(stream, "%7s %7s", "self%", "total%");
	for (int part = 0; table->has_parts && part < TIME_PART_COUNT; part++)
		fprintf(stream, " %6s", time_part_heading(part));
	fprintf(stream, "  %-7s %-15s %s\n", "kind", "process", "function");
	for (uint32_t i = 0; i < table->shown_count && (!rows_max || i < rows_max); i++) {
		const struct function_row *row = &table->rows[table->shown[i]];
		const char *process = string_table_get(&table->strings, row->process);

		fprintf(stream, "%7.2f %7.2f", function_table_percent(table, row->self),
			function_table_percent(table, row->total));
		print_parts(table, row, stream);
		fprintf(stream, "  %-7s %-15s %s\n", frame_kind_name(row->kind),
			*process ? process : "-", string_table_get(&table->strings, row->name));
	}
}
