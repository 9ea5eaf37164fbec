// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/head.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

int raw_run_new(uint32_t minute, struct bytes record, struct raw_run **ret_run)
{
	struct raw_run *run = malloc(sizeof(*run) + record.size);

	if (!run)
		return -ENOMEM;
	atomic_init(&run->refs, 1);
	run->minute = minute;
	run->sequence = 0;
	run->size = record.size;
	memcpy(run->bytes, record.at, record.size);
	int rc = raw_rows_open((struct bytes){ run->bytes, run->size }, &run->rows);
	if (rc < 0) {
		free(run);
		return rc;
	}
	*ret_run = run;
	return 0;
}

static struct raw_run *raw_run_ref(struct raw_run *run)
{
	atomic_fetch_add(&run->refs, 1);
	return run;
}

void raw_run_unref(struct raw_run *run)
{
	if (!run || atomic_fetch_sub(&run->refs, 1) != 1)
		return;
	raw_rows_deinit(&run->rows);
	free(run);
}

void run_list_deinit(struct run_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		raw_run_unref(list->runs[i]);
	free(list->runs);
	*list = (struct run_list){ 0 };
}

static int run_list_add(struct run_list *list, struct raw_run *run)
{
	int rc = array_reserve(&list->runs, sizeof(*list->runs), &list->capacity, list->count, 1,
			       UINT32_MAX / 2);

	if (rc == 0)
		list->runs[list->count++] = raw_run_ref(run);
	return rc;
}

void head_deinit(struct head *head)
{
	for (uint32_t i = 0; i < head->count; i++)
		run_list_deinit(&head->minutes[i].runs);
	free(head->minutes);
	*head = (struct head){ 0 };
}

static uint64_t run_memory(const struct raw_run *run)
{
	return sizeof(*run) + run->size + run->rows.section_count * sizeof(*run->rows.sections);
}

/** The index of minute @number, or where to insert it. */
static uint32_t position_of(const struct head *head, uint32_t number)
{
	uint32_t at = head->count;

	while (at > 0 && head->minutes[at - 1].number >= number) // new minutes come last
		at--;
	return at;
}

static int add_minute(struct head *head, uint32_t at, uint32_t number)
{
	int rc = array_reserve(&head->minutes, sizeof(*head->minutes), &head->capacity, head->count,
			       1, UINT16_MAX);

	if (rc < 0)
		return rc;
	memmove(&head->minutes[at + 1], &head->minutes[at],
		(head->count - at) * sizeof(*head->minutes));
	head->minutes[at] = (struct minute){ .number = number };
	head->count++;
	return 0;
}

static struct minute *find_minute(struct head *head, uint32_t number)
{
	uint32_t at = position_of(head, number);

	return at < head->count && head->minutes[at].number == number ? &head->minutes[at] : NULL;
}

static void remove_minute(struct head *head, struct minute *minute)
{
	uint32_t at = (uint32_t)(minute - head->minutes);

	run_list_deinit(&minute->runs);
	head->count--;
	memmove(minute, minute + 1, (head->count - at) * sizeof(*minute));
}

int head_prepare(struct head *head, uint32_t number)
{
	uint32_t at = position_of(head, number);
	int rc = 0;

	if (at == head->count || head->minutes[at].number != number)
		rc = add_minute(head, at, number);
	if (rc < 0)
		return rc;
	struct minute *minute = &head->minutes[at];
	rc = array_reserve(&minute->runs.runs, sizeof(*minute->runs.runs), &minute->runs.capacity,
			   minute->runs.count, minute->prepared + 1, UINT32_MAX / 2);
	if (rc == 0)
		minute->prepared++;
	else if (!minute->runs.count && !minute->prepared)
		remove_minute(head, minute);
	return rc;
}

void head_add(struct head *head, struct raw_run *run)
{
	struct minute *minute = find_minute(head, run->minute);

	assert(minute && minute->prepared);
	minute->prepared--;
	minute->runs.runs[minute->runs.count++] = raw_run_ref(run);
	minute->bytes += run_memory(run);
	head->bytes += run_memory(run);
}

void head_cancel(struct head *head, uint32_t number)
{
	struct minute *minute = find_minute(head, number);

	assert(minute && minute->prepared);
	minute->prepared--;
	if (!minute->runs.count && !minute->prepared)
		remove_minute(head, minute);
}

void head_remove(struct head *head, uint32_t number, uint64_t sequence)
{
	struct minute *minute = find_minute(head, number);
	struct run_list *list;
	uint32_t removed = 0;

	if (!minute)
		return;
	list = &minute->runs;
	while (removed < list->count && list->runs[removed]->sequence <= sequence) {
		minute->bytes -= run_memory(list->runs[removed]);
		head->bytes -= run_memory(list->runs[removed]);
		raw_run_unref(list->runs[removed++]);
	}
	list->count -= removed;
	memmove(list->runs, list->runs + removed, list->count * sizeof(*list->runs));
	minute->due_ns = 0;
	if (!list->count && !minute->prepared)
		remove_minute(head, minute);
}

int head_list(const struct head *head, uint32_t from, uint32_t to, struct run_list *list)
{
	int rc = 0;

	for (uint32_t i = 0; i < head->count && rc == 0; i++) {
		const struct minute *minute = &head->minutes[i];

		if (minute->number < from || minute->number > to)
			continue;
		for (uint32_t j = 0; j < minute->runs.count && rc == 0; j++)
			rc = run_list_add(list, minute->runs.runs[j]);
	}
	return rc;
}
