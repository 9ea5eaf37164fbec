// SPDX-License-Identifier: Apache-2.0
#include "agent/process/early_mappings.h"

#include "base/cleanup.h"
#include "base/clock.h"

/* From a program's first mapping to its exec event: a slow disk may have to be read. */
#define UNCLAIMED_MAX_NS (2 * NS_PER_SECOND)

static struct early_mapping_list *list_at(const struct early_mappings *mappings, uint32_t at)
{
	uint32_t place = (mappings->first + at) % EARLY_MAPPINGS_MAX;

	return (struct early_mapping_list *)&mappings->lists[place];
}

static void drop_first(struct early_mappings *mappings)
{
	struct early_mapping_list *first = list_at(mappings, 0);

	mapping_list_release(first->list);
	*first = (struct early_mapping_list){ 0 };
	mappings->first = (mappings->first + 1) % EARLY_MAPPINGS_MAX;
	mappings->count--;
}

void early_mappings_clear(struct early_mappings *mappings)
{
	while (mappings->count)
		drop_first(mappings);
}

/* After a while exec has failed, or its event was lost. */
static bool is_unclaimed(const struct early_mapping_list *list, uint64_t now_ns)
{
	return list->pid && now_ns - list->begun_ns < UNCLAIMED_MAX_NS;
}

struct mapping_list *early_mappings_begin(struct early_mappings *mappings, uint32_t pid,
					  enum early_event event, uint64_t now_ns)
{
	while (mappings->count && !is_unclaimed(list_at(mappings, 0), now_ns))
		drop_first(mappings);
	if (mappings->count == EARLY_MAPPINGS_MAX)
		drop_first(mappings);
	struct early_mapping_list *last = list_at(mappings, mappings->count++);
	*last = (struct early_mapping_list){
		.pid = pid,
		.event = event,
		.begun_ns = now_ns,
		.list = mapping_list_new(),
	};
	return last->list;
}

struct mapping_list *early_mappings_find(const struct early_mappings *mappings, uint32_t pid,
					 uint64_t now_ns)
{
	for (uint32_t at = mappings->count; at--;) {
		const struct early_mapping_list *list = list_at(mappings, at);

		if (list->pid == pid && is_unclaimed(list, now_ns))
			return list->list;
	}
	return NULL;
}

struct mapping_list *early_mappings_claim(struct early_mappings *mappings, uint32_t pid,
					  enum early_event event, uint64_t now_ns)
{
	for (uint32_t at = 0; at < mappings->count; at++) {
		struct early_mapping_list *list = list_at(mappings, at);

		if (list->pid != pid || list->event != event || !is_unclaimed(list, now_ns))
			continue;
		list->pid = 0;
		return take(list->list);
	}
	return NULL;
}
