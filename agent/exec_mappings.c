// SPDX-License-Identifier: Apache-2.0
#include "exec_mappings.h"

#include "base/cleanup.h"
#include "base/clock.h"

/* From the first mapping of a program to the end of exec: a slow disk may have to be read. */
#define BEGUN_MAX_NS (2 * NS_PER_SECOND)

static struct begun_exec *exec_at(const struct exec_mappings *mappings, uint32_t at)
{
	uint32_t place = (mappings->first + at) % EXEC_MAPPINGS_MAX;

	return (struct begun_exec *)&mappings->execs[place];
}

static void drop_first(struct exec_mappings *mappings)
{
	struct begun_exec *exec = exec_at(mappings, 0);

	mapping_list_release(exec->list);
	*exec = (struct begun_exec){ 0 };
	mappings->first = (mappings->first + 1) % EXEC_MAPPINGS_MAX;
	mappings->count--;
}

void exec_mappings_clear(struct exec_mappings *mappings)
{
	while (mappings->count)
		drop_first(mappings);
}

/* False if it was taken, or nobody takes it any more: exec failed, or its end went unheard. */
static bool is_going_on(const struct begun_exec *exec, uint64_t now_ns)
{
	return exec->pid && now_ns - exec->begun_ns < BEGUN_MAX_NS;
}

void exec_mappings_begin(struct exec_mappings *mappings, uint32_t pid, uint64_t now_ns)
{
	while (mappings->count && !is_going_on(exec_at(mappings, 0), now_ns))
		drop_first(mappings);
	if (mappings->count == EXEC_MAPPINGS_MAX)
		drop_first(mappings);
	*exec_at(mappings, mappings->count++) = (struct begun_exec){
		.pid = pid,
		.begun_ns = now_ns,
		.list = mapping_list_new(), // NULL: nobody gets anything
	};
}

struct mapping_list *exec_mappings_find(const struct exec_mappings *mappings, uint32_t pid,
					uint64_t now_ns)
{
	for (uint32_t at = mappings->count; at--;) {
		const struct begun_exec *exec = exec_at(mappings, at);

		if (exec->pid == pid && is_going_on(exec, now_ns))
			return exec->list;
	}
	return NULL;
}

struct mapping_list *exec_mappings_take(struct exec_mappings *mappings, uint32_t pid,
					uint64_t now_ns)
{
	for (uint32_t at = 0; at < mappings->count; at++) {
		struct begun_exec *exec = exec_at(mappings, at);

		if (exec->pid != pid || !is_going_on(exec, now_ns))
			continue;
		exec->pid = 0;
		return take(exec->list);
	}
	return NULL;
}
