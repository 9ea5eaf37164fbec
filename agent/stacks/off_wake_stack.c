// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/off_wake_stack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"

#define WAKER_PREFIX "[waker: "

enum { MARKER_BYTES = 64 };

static int join_parts(const struct frame_resolver *resolver, struct stack_table *stacks,
		      const struct wake_stack *stack, const char name[THREAD_NAME_BYTES],
		      uint64_t now_ns, struct joined_stack *ret_stack)
{
	struct stack_parts parts = { .kernel_leaf = stack->kernel_leaf,
				     .kernel = stack->kernel,
				     .user_leaf = stack->user_leaf,
				     .user = stack->user };

	if (stack_hash_is_set(&stack->user)) {
		parts.process = process_table_get(resolver->processes, &stack->process, name);
		if (!parts.process)
			return -ENOMEM;
	}
	int rc = stack_parts_join(&parts, resolver, stacks, now_ns, ret_stack);
	return !rc && ret_stack->lost_parts ? -ENOENT : rc;
}

static uint32_t find_waker_frame(const struct frame_resolver *resolver,
				 const struct wake_record *record)
{
	char name[THREAD_NAME_BYTES + 1] = { 0 }, text[MARKER_BYTES];

	memcpy(name, record->waker_name, THREAD_NAME_BYTES);
	utf8_clean(name);
	switch (record->waker_kind) {
	case WAKER_INTERRUPT:
		snprintf(text, sizeof(text), WAKER_PREFIX "interrupt]");
		break;
	case WAKER_KERNEL_THREAD:
		// One frame for all workers of a kind: "kworker/3:1" without its CPU and number.
		name[strcspn(name, "/")] = 0;
		snprintf(text, sizeof(text), WAKER_PREFIX "kernel thread %s]", name);
		break;
	default:
		snprintf(text, sizeof(text), WAKER_PREFIX "%s]", name);
	}
	return location_table_add_marker(resolver->locations, text);
}

static bool is_waker_frame(const struct profile *profile, const struct location *location)
{
	const struct line *line = &profile->lines[location->first_line];

	return location->kind == FRAME_KIND_UNKNOWN && location->line_count == 1 &&
	       text_begins_with(profile_string(profile, line->name), WAKER_PREFIX);
}

int off_wake_stack_join(const struct frame_resolver *resolver, struct stack_table *stacks,
			const struct wake_record *record, uint64_t now_ns,
			struct joined_stack *ret_stack)
{
	static const char unnamed[THREAD_NAME_BYTES];
	struct joined_stack waker, blocked;
	int rc = join_parts(resolver, stacks, &record->waker, record->waker_name, now_ns, &waker);

	if (!rc)
		rc = join_parts(resolver, stacks, &record->blocked, unnamed, now_ns, &blocked);
	if (rc)
		return rc;
	uint32_t waker_frame = find_waker_frame(resolver, record);
	if (waker_frame == HASH_TABLE_NONE || blocked.count == STACK_FRAMES_MAX)
		return -ENOMEM;
	uint32_t room = STACK_FRAMES_MAX - 1 - blocked.count, count = 0;
	for (uint32_t i = waker.count < room ? waker.count : room; i-- > 0;)
		ret_stack->locations[count++] = waker.locations[i];
	ret_stack->locations[count++] = waker_frame;
	memcpy(ret_stack->locations + count, blocked.locations,
	       blocked.count * sizeof(*blocked.locations));
	ret_stack->count = count + blocked.count;
	ret_stack->end = blocked.end; // the root is the blocked thread's
	ret_stack->lost_parts = 0;
	return 0;
}

struct stack off_wake_stack_blocked_part(const struct profile *profile, const struct stack *stack)
{
	struct stack part = *stack;

	for (uint32_t i = 0; i < stack->location_count; i++) {
		uint32_t at = profile->stack_locations[stack->first_location + i];

		if (!is_waker_frame(profile, &profile->locations[at]))
			continue;
		part.first_location += i + 1;
		part.location_count -= i + 1;
		break;
	}
	return part;
}
