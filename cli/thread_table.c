// SPDX-License-Identifier: Apache-2.0
#include "cli/thread_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/id128.h"
#include "cli/frame_names.h"

/* Hashed as bytes: no padding. */
struct row_key {
	uint32_t process, thread;
};

static bool row_equal(const void *context, uint32_t item, const void *key)
{
	const struct thread_row *row = &((const struct thread_table *)context)->rows[item];
	const struct row_key *wanted = key;

	return row->process == wanted->process && row->thread == wanted->thread;
}

static int append_row(struct thread_table *table, const struct row_key *key, uint64_t hash,
		      uint32_t *ret_row)
{
	int rc = array_reserve(&table->rows, sizeof(*table->rows), &table->row_capacity,
			       table->row_count, 1, UINT32_MAX);

	if (!rc)
		rc = hash_table_add(&table->index, hash, table->row_count);
	if (rc)
		return rc;
	table->rows[table->row_count] =
		(struct thread_row){ .process = key->process, .thread = key->thread };
	*ret_row = table->row_count++;
	return 0;
}

static int count_sample(struct thread_table *table, struct frame_names *names,
			const struct sample *sample)
{
	const struct labels *labels = &names->profile->series[sample->series].labels;
	const char *process = labels_get(labels, LABEL_PROCESS);
	const char *thread = labels_get(labels, LABEL_THREAD);
	struct row_key key;
	int rc = frame_names_add(names, process ? process : "", &key.process);

	if (!rc)
		rc = frame_names_add(names, thread ? thread : "", &key.thread);
	if (rc)
		return rc;
	uint64_t hash = hash64_of(&key, sizeof(key));
	uint32_t row = hash_table_find(&table->index, hash, row_equal, table, &key);
	if (row == HASH_TABLE_NONE)
		rc = append_row(table, &key, hash, &row);
	if (rc)
		return rc;
	table->rows[row].total += sample->value;
	if (table->has_parts)
		table->rows[row].parts[time_part_of(labels)] += sample->value;
	table->total += sample->value;
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct thread_row *left = a, *right = b;

	if (left->total != right->total)
		return left->total < right->total ? 1 : -1;
	// Equal rows keep their order over refreshes.
	if (left->process != right->process)
		return left->process < right->process ? -1 : 1;
	return left->thread < right->thread ? -1 : left->thread > right->thread;
}

static const char *type_of(const struct profile *profile, const struct sample *sample)
{
	return profile_string(profile, profile->series[sample->series].type);
}

int thread_table_build(const struct profile *profile, const char *type,
		       struct thread_table *ret_table, struct error *err)
{
	_cleanup_(thread_table_deinit) struct thread_table table = { .has_parts =
									     time_parts_has(type) };
	_cleanup_(frame_names_deinit) struct frame_names names = { 0 };
	int rc = frame_names_init(profile, &table.strings, &names);

	for (uint32_t i = 0; !rc && i < profile->sample_count; i++)
		if (strcmp(type_of(profile, &profile->samples[i]), type) == 0)
			rc = count_sample(&table, &names, &profile->samples[i]);
	if (rc)
		return error_errno(err, rc, "thread table");
	hash_table_deinit(&table.index); // rows move now
	table.index = (struct hash_table){ 0 };
	if (table.row_count)
		qsort(table.rows, table.row_count, sizeof(*table.rows), compare);
	*ret_table = table;
	table = (struct thread_table){ 0 };
	return 0;
}

void thread_table_deinit(struct thread_table *table)
{
	if (table->strings.count)
		string_table_deinit(&table->strings);
	hash_table_deinit(&table->index);
	free(table->rows);
	free(table->shown);
	*table = (struct thread_table){ 0 };
}

int thread_table_select(struct thread_table *table, const char *filter)
{
	uint32_t *shown = realloc(table->shown, ((size_t)table->row_count + 1) * sizeof(*shown));

	if (!shown)
		return -ENOMEM;
	table->shown = shown;
	table->shown_count = 0;
	for (uint32_t i = 0; i < table->row_count; i++) {
		const struct thread_row *row = &table->rows[i];

		if (strcasestr(string_table_get(&table->strings, row->process), filter) ||
		    strcasestr(string_table_get(&table->strings, row->thread), filter))
			shown[table->shown_count++] = i;
	}
	return 0;
}

double thread_table_percent(const struct thread_table *table, int64_t value)
{
	return table->total > 0 ? 100.0 * (double)value / (double)table->total : 0;
}

void thread_table_print(const struct thread_table *table, uint32_t rows_max, FILE *stream)
{
	fprintf(stream, "%7s", "total%");
	for (int part = 0; table->has_parts && part < TIME_PART_COUNT; part++)
		fprintf(stream, " %6s", time_part_heading(part));
	fprintf(stream, "  %-15s %s\n", "process", "thread");
	for (uint32_t i = 0; i < table->shown_count && (!rows_max || i < rows_max); i++) {
		const struct thread_row *row = &table->rows[table->shown[i]];

		fprintf(stream, "%7.2f", thread_table_percent(table, row->total));
		for (int part = 0; table->has_parts && part < TIME_PART_COUNT; part++)
			fprintf(stream, " %6.2f", thread_table_percent(table, row->parts[part]));
		fprintf(stream, "  %-15s %s\n", string_table_get(&table->strings, row->process),
			string_table_get(&table->strings, row->thread));
	}
}
