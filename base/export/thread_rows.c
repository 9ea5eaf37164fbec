// SPDX-License-Identifier: Apache-2.0
#include "base/export/thread_rows.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"

void thread_rows_deinit(struct thread_rows *rows)
{
	string_table_deinit(&rows->strings);
	hash_table_deinit(&rows->index);
	free(rows->rows);
	free(rows->of_series);
	*rows = (struct thread_rows){ 0 };
}

struct row_key {
	uint32_t process_name, thread_name;
};

static bool row_equal(const void *context, uint32_t item, const void *key)
{
	const struct thread_rows *rows = context;
	const struct row_key *wanted = key;

	return rows->rows[item].process_name == wanted->process_name &&
	       rows->rows[item].thread_name == wanted->thread_name;
}

static uint32_t process_of(struct thread_rows *rows, uint32_t process_name)
{
	for (uint32_t i = 0; i < rows->count; i++)
		if (rows->rows[i].process_name == process_name)
			return rows->rows[i].process;
	return ++rows->process_count;
}

static int add_row(struct thread_rows *rows, const struct row_key *key, uint32_t *ret_row)
{
	uint64_t hash = hash64_of(key, sizeof(*key));
	uint32_t row = hash_table_find(&rows->index, hash, row_equal, rows, key);

	if (row == HASH_TABLE_NONE) {
		row = rows->count;
		int rc = array_reserve(&rows->rows, sizeof(*rows->rows), &rows->capacity, row, 1,
				       THREAD_ROWS_MAX);
		if (!rc)
			rc = hash_table_add(&rows->index, hash, row);
		if (rc)
			return rc;
		rows->rows[row].process = process_of(rows, key->process_name);
		rows->rows[row].process_name = key->process_name;
		rows->rows[row].thread_name = key->thread_name;
		rows->count++;
	}
	*ret_row = row;
	return 0;
}

static int find_row(struct thread_rows *rows, const struct labels *labels, uint32_t *ret_row)
{
	const char *node = labels_get(labels, LABEL_NODE);
	const char *process = labels_get(labels, LABEL_PROCESS);
	const char *thread = labels_get(labels, LABEL_THREAD);
	char name[2 * LABEL_VALUE_BYTES_MAX + 8];
	struct row_key key;

	process = process ? process : "[unknown process]";
	thread = thread ? thread : process;
	snprintf(name, sizeof(name), "%s%s%s", process, node ? " on " : "", node ? node : "");
	int rc = string_table_add(&rows->strings, name, strlen(name), &key.process_name);
	if (!rc)
		rc = string_table_add(&rows->strings, thread, strlen(thread), &key.thread_name);
	return rc ? rc : add_row(rows, &key, ret_row);
}

int thread_rows_init(struct thread_rows *ret_rows, const struct profile *profile, const char *type)
{
	_cleanup_(thread_rows_deinit) struct thread_rows rows = { 0 };
	uint32_t type_number = string_table_find(&profile->strings, type);
	int rc = string_table_init(&rows.strings);

	if (!rc)
		rc = array_allocate(&rows.of_series, profile->series_count, sizeof(uint32_t));
	for (uint32_t i = 0; !rc && i < profile->series_count; i++)
		if (profile->series[i].type == type_number)
			rc = find_row(&rows, &profile->series[i].labels, &rows.of_series[i]);
	if (rc)
		return rc;
	*ret_rows = rows;
	rows = (struct thread_rows){ 0 };
	return 0;
}

struct order_context {
	const struct thread_rows *rows;
	const struct profile *profile;
};

static int compare_samples(const void *a, const void *b, void *context)
{
	const struct order_context *order = context;
	uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
	const struct sample *x = &order->profile->samples[first];
	const struct sample *y = &order->profile->samples[second];
	uint32_t x_row = order->rows->of_series[x->series],
		 y_row = order->rows->of_series[y->series];

	if (x_row != y_row)
		return x_row < y_row ? -1 : 1;
	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;
	return (first > second) - (first < second);
}

int thread_rows_order(const struct thread_rows *rows, const struct profile *profile,
		      const char *type, uint32_t **ret_order, uint32_t *ret_count)
{
	uint32_t type_number = string_table_find(&profile->strings, type), count = 0;
	struct order_context context = { rows, profile };
	_cleanup_free_ uint32_t *order = NULL;
	int rc = array_allocate(&order, profile->sample_count, sizeof(*order));

	if (rc)
		return rc;
	for (uint32_t i = 0; i < profile->sample_count; i++)
		if (profile->series[profile->samples[i].series].type == type_number)
			order[count++] = i;
	qsort_r(order, count, sizeof(*order), compare_samples, &context);
	*ret_order = take(order);
	*ret_count = count;
	return 0;
}
