// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/off_wake_stack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"

#define WOKEN_BY "[woken by "

enum {
	// Leaf and callers of both parts.
	PART_FRAMES_MAX = STACK_DEPTH_MAX + KERNEL_DEPTH_MAX + 2,
	MARKER_BYTES = 64,
};
_Static_assert((int)PART_FRAMES_MAX < (int)STACK_FRAMES_MAX,
	       "the blocked part and the marker always fit");

static bool is_there(const struct stack_hash *hash)
{
	return hash->high || hash->low;
}

// ---- one of the two stacks ------------------------------------------------------------------

struct part {
	uint32_t locations[PART_FRAMES_MAX]; // the leaf first
	uint32_t count;
	enum stack_end end;
};

static int add(struct part *part, uint32_t location)
{
	if (location == HASH_TABLE_NONE || part->count == PART_FRAMES_MAX)
		return -ENOMEM;
	part->locations[part->count++] = location;
	return 0;
}

static int add_callers(struct part *part, struct stack_table *stacks, const struct stack_hash *hash,
		       uint64_t now_ns)
{
	const struct known_stack *stack = stack_table_find(stacks, hash, now_ns);
	int rc = 0;

	if (!stack)
		return -ENOENT;
	for (uint32_t i = 0; i < stack->count && !rc; i++)
		rc = add(part, stack->locations[i]);
	part->end = stack->end;
	return rc;
}

static int add_kernel(struct part *part, const struct frame_resolver *locator,
		      struct stack_table *stacks, const struct wake_stack *stack, uint64_t now_ns)
{
	const struct raw_frame leaf = { .address = stack->kernel_leaf, .tag = FRAME_TAG_KERNEL };
	int rc = 0;

	if (!is_there(&stack->kernel))
		return 0;
	if (stack->kernel_leaf)
		rc = add(part, frame_resolve_leaf(locator, NULL, &leaf));
	return rc ? rc : add_callers(part, stacks, &stack->kernel, now_ns);
}

static int add_user(struct part *part, const struct frame_resolver *locator,
		    struct stack_table *stacks, const struct wake_stack *stack,
		    const char name[THREAD_NAME_BYTES], uint64_t now_ns)
{
	struct process *process;
	int rc = 0;

	if (!is_there(&stack->user))
		return 0;
	process = process_table_get(locator->processes, &stack->process, name);
	if (!process)
		return -ENOMEM;
	if (stack->user_leaf.tag)
		rc = add(part, frame_resolve_leaf(locator, process, &stack->user_leaf));
	return rc ? rc : add_callers(part, stacks, &stack->user, now_ns);
}

static int build(struct part *part, const struct frame_resolver *locator,
		 struct stack_table *stacks, const struct wake_stack *stack,
		 const char name[THREAD_NAME_BYTES], uint64_t now_ns)
{
	enum stack_end kernel_end;
	int rc;

	part->count = 0;
	part->end = STACK_END_COMPLETE;
	rc = add_kernel(part, locator, stacks, stack, now_ns);
	kernel_end = part->end;
	part->end = STACK_END_COMPLETE;
	if (!rc)
		rc = add_user(part, locator, stacks, stack, name, now_ns);
	// As in window.c: a hole in the middle is told if the root is whole.
	if (part->end == STACK_END_COMPLETE)
		part->end = kernel_end;
	return rc;
}

// ---- both -----------------------------------------------------------------------------------

// Of a kernel's thread without its number or CPU: "kworker/3:1" is as good as any other of them.
static void cut_number(char *name)
{
	name[strcspn(name, "/")] = 0;
}

static uint32_t locate_marker(const struct frame_resolver *locator,
			      const struct wake_record *record)
{
	char name[THREAD_NAME_BYTES + 1] = { 0 }, text[MARKER_BYTES];

	memcpy(name, record->waker_name, THREAD_NAME_BYTES);
	utf8_clean(name);
	switch (record->waker_kind) {
	case WAKER_INTERRUPT:
		snprintf(text, sizeof(text), WOKEN_BY "an interrupt]");
		break;
	case WAKER_KERNEL_THREAD:
		cut_number(name);
		snprintf(text, sizeof(text), WOKEN_BY "the kernel's %s]", name);
		break;
	default:
		snprintf(text, sizeof(text), WOKEN_BY "%s]", name);
	}
	return location_table_add_marker(locator->locations, text);
}

static bool is_marker(const struct profile *profile, const struct location *location)
{
	const struct line *line = &profile->lines[location->first_line];

	return location->kind == FRAME_KIND_UNKNOWN && location->line_count == 1 &&
	       !strncmp(profile_string(profile, line->name), WOKEN_BY, strlen(WOKEN_BY));
}

int off_wake_stack_join(const struct frame_resolver *locator, struct stack_table *stacks,
			const struct wake_record *record, uint64_t now_ns,
			struct off_wake_stack_frames *ret_frames)
{
	static const char unnamed[THREAD_NAME_BYTES];
	struct part waker, blocked;
	uint32_t marker, room, count = 0;
	int rc = build(&waker, locator, stacks, &record->waker, record->waker_name, now_ns);

	if (!rc)
		rc = build(&blocked, locator, stacks, &record->blocked, unnamed, now_ns);
	if (rc)
		return rc;
	marker = locate_marker(locator, record);
	if (marker == HASH_TABLE_NONE)
		return -ENOMEM;
	room = STACK_FRAMES_MAX - 1 - blocked.count;
	for (uint32_t i = waker.count < room ? waker.count : room; i-- > 0;)
		ret_frames->locations[count++] = waker.locations[i];
	ret_frames->locations[count++] = marker;
	memcpy(ret_frames->locations + count, blocked.locations,
	       blocked.count * sizeof(*blocked.locations));
	ret_frames->count = count + blocked.count;
	ret_frames->end = blocked.end;
	return 0;
}

struct stack off_wake_stack_blocked_part(const struct profile *profile, const struct stack *stack)
{
	struct stack part = *stack;

	for (uint32_t i = 0; i < stack->location_count; i++) {
		uint32_t at = profile->stack_locations[stack->first_location + i];

		if (!is_marker(profile, &profile->locations[at]))
			continue;
		part.first_location += i + 1;
		part.location_count -= i + 1;
		break;
	}
	return part;
}
