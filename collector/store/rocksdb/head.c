// SPDX-License-Identifier: Apache-2.0
#include "collector/store/rocksdb/head.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

int raw_run_new(uint32_t window, struct bytes record, struct raw_run **ret_run)
{
	struct raw_run *run = malloc(sizeof(*run) + record.size);

	if (!run)
		return -ENOMEM;
	atomic_init(&run->refs, 1);
	run->window = window;
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

struct raw_run *raw_run_ref(struct raw_run *run)
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

int run_list_add(struct run_list *list, struct raw_run *run)
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
		run_list_deinit(&head->windows[i].runs);
	free(head->windows);
	*head = (struct head){ 0 };
}

static uint64_t run_memory(const struct raw_run *run)
{
	return sizeof(*run) + run->size + run->rows.section_count * sizeof(*run->rows.sections);
}

/** Where window @number is or belongs. */
static uint32_t position_of(const struct head *head, uint32_t number)
{
	uint32_t at = head->count;

	while (at > 0 && head->windows[at - 1].number >= number) // new ones come last
		at--;
	return at;
}

static int add_window(struct head *head, uint32_t at, uint32_t number)
{
	int rc = array_reserve(&head->windows, sizeof(*head->windows), &head->capacity, head->count,
			       1, UINT16_MAX);

	if (rc < 0)
		return rc;
	memmove(&head->windows[at + 1], &head->windows[at],
		(head->count - at) * sizeof(*head->windows));
	head->windows[at] = (struct window){ .number = number };
	head->count++;
	return 0;
}

struct window *head_find(struct head *head, uint32_t number)
{
	uint32_t at = position_of(head, number);

	return at < head->count && head->windows[at].number == number ? &head->windows[at] : NULL;
}

static void remove_window(struct head *head, struct window *window)
{
	uint32_t at = (uint32_t)(window - head->windows);

	run_list_deinit(&window->runs);
	head->count--;
	memmove(window, window + 1, (head->count - at) * sizeof(*window));
}

int head_prepare(struct head *head, uint32_t number)
{
	uint32_t at = position_of(head, number);
	int rc = 0;

	if (at == head->count || head->windows[at].number != number)
		rc = add_window(head, at, number);
	if (rc < 0)
		return rc;
	struct window *window = &head->windows[at];
	rc = array_reserve(&window->runs.runs, sizeof(*window->runs.runs), &window->runs.capacity,
			   window->runs.count, window->prepared + 1, UINT32_MAX / 2);
	if (rc == 0)
		window->prepared++;
	else if (!window->runs.count && !window->prepared)
		remove_window(head, window);
	return rc;
}

void head_add(struct head *head, struct raw_run *run)
{
	struct window *window = head_find(head, run->window);

	assert(window && window->prepared);
	window->prepared--;
	window->runs.runs[window->runs.count++] = raw_run_ref(run);
	window->bytes += run_memory(run);
	head->bytes += run_memory(run);
}

void head_cancel(struct head *head, uint32_t number)
{
	struct window *window = head_find(head, number);

	assert(window && window->prepared);
	window->prepared--;
	if (!window->runs.count && !window->prepared)
		remove_window(head, window);
}

void head_remove(struct head *head, uint32_t number, uint64_t sequence)
{
	struct window *window = head_find(head, number);
	struct run_list *list;
	uint32_t removed = 0;

	if (!window)
		return;
	list = &window->runs;
	while (removed < list->count && list->runs[removed]->sequence <= sequence) {
		window->bytes -= run_memory(list->runs[removed]);
		head->bytes -= run_memory(list->runs[removed]);
		raw_run_unref(list->runs[removed++]);
	}
	list->count -= removed;
	memmove(list->runs, list->runs + removed, list->count * sizeof(*list->runs));
	window->due_ns = 0;
	if (!list->count && !window->prepared)
		remove_window(head, window);
}

int head_list(const struct head *head, uint32_t from, uint32_t to, struct run_list *list)
{
	int rc = 0;

	for (uint32_t i = 0; i < head->count && rc == 0; i++) {
		const struct window *window = &head->windows[i];

		if (window->number < from || window->number > to)
			continue;
		for (uint32_t j = 0; j < window->runs.count && rc == 0; j++)
			rc = run_list_add(list, window->runs.runs[j]);
	}
	return rc;
}
