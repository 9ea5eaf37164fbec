// SPDX-License-Identifier: Apache-2.0
#include "agent/relabel/relabel_set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

static void label_deinit(struct relabel_label *label)
{
	free(label->name);
	free(label->value);
}

void relabel_set_deinit(struct relabel_set *set)
{
	for (uint32_t i = 0; i < set->count; i++)
		label_deinit(&set->labels[i]);
	free(set->labels);
	*set = (struct relabel_set){ 0 };
}

static struct relabel_label *find(const struct relabel_set *set, const char *name)
{
	for (uint32_t i = 0; i < set->count; i++)
		if (strcmp(set->labels[i].name, name) == 0)
			return &set->labels[i];
	return NULL;
}

const char *relabel_set_get(const struct relabel_set *set, const char *name)
{
	const struct relabel_label *label = find(set, name);

	return label ? label->value : "";
}

void relabel_set_remove_at(struct relabel_set *set, uint32_t index)
{
	label_deinit(&set->labels[index]);
	set->count--;
	memmove(&set->labels[index], &set->labels[index + 1],
		(set->count - index) * sizeof(*set->labels));
}

static int by_name(const void *label, const void *other)
{
	return strcmp(((const struct relabel_label *)label)->name,
		      ((const struct relabel_label *)other)->name);
}

void relabel_set_begin(struct relabel_set *set)
{
	if (set->count)
		qsort(set->labels, set->count, sizeof(*set->labels), by_name);
	for (uint32_t i = 0; i < set->count; i++)
		set->labels[i].is_changed = false;
}

static int add(struct relabel_set *set, const char *name, const char *value)
{
	int rc = array_reserve(&set->labels, sizeof(*set->labels), &set->capacity, set->count, 1,
			       RELABEL_LABELS_MAX);
	if (rc)
		return rc;
	struct relabel_label label = { strdup(name), strdup(value), true };
	if (!label.name || !label.value) {
		label_deinit(&label);
		return -ENOMEM;
	}
	set->labels[set->count++] = label;
	return 0;
}

/* A label that a rule changes for the first time moves to the end. */
static int change(struct relabel_set *set, uint32_t index, const char *value)
{
	struct relabel_label label = set->labels[index];
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(label.value);
	label.value = copy;
	if (!label.is_changed) {
		memmove(&set->labels[index], &set->labels[index + 1],
			(set->count - 1 - index) * sizeof(label));
		index = set->count - 1;
	}
	label.is_changed = true;
	set->labels[index] = label;
	return 0;
}

int relabel_set_put(struct relabel_set *set, const char *name, const char *value)
{
	struct relabel_label *label = find(set, name);

	if (!label)
		return value[0] ? add(set, name, value) : 0;
	uint32_t index = (uint32_t)(label - set->labels);
	if (value[0])
		return change(set, index, value);
	relabel_set_remove_at(set, index);
	return 0;
}
