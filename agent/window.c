// SPDX-License-Identifier: Apache-2.0
#include "agent/window.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "base/cleanup.h"

/* What the two sides of the border call the same thing has the same number. */
_Static_assert((int)FRAME_TAG_NATIVE == (int)FRAME_KIND_NATIVE, "frame kinds");
_Static_assert((int)FRAME_TAG_KERNEL == (int)FRAME_KIND_KERNEL, "frame kinds");
_Static_assert((int)FRAME_TAG_PYTHON == (int)FRAME_KIND_PYTHON, "frame kinds");
_Static_assert((int)FRAME_TAG_JIT == (int)FRAME_KIND_JIT, "frame kinds");
_Static_assert((int)END_TAG_COMPLETE == (int)STACK_END_COMPLETE, "ends of stacks");
_Static_assert((int)END_TAG_DEPTH == (int)STACK_END_DEPTH, "ends of stacks");
_Static_assert((int)END_TAG_FAULT == (int)STACK_END_FAULT, "ends of stacks");
_Static_assert((int)END_TAG_NO_FRAME_POINTER == (int)STACK_END_NO_FRAME_POINTER, "ends of stacks");
_Static_assert((int)END_TAG_NO_TABLE == (int)STACK_END_NO_TABLE, "ends of stacks");
_Static_assert((int)END_TAG_NO_REGISTERS == (int)STACK_END_NO_REGISTERS, "ends of stacks");
_Static_assert((int)END_TAG_COMPAT == (int)STACK_END_COMPAT, "ends of stacks");
_Static_assert((int)END_TAG_NO_MAPPING == (int)STACK_END_NO_MAPPING, "ends of stacks");
_Static_assert((int)END_TAG_BAD_FRAME == (int)STACK_END_BAD_FRAME, "ends of stacks");
_Static_assert((int)END_TAG_UNSUPPORTED == (int)STACK_END_UNSUPPORTED, "ends of stacks");
_Static_assert(STACK_DEPTH_MAX + KERNEL_DEPTH_MAX <= STACK_FRAMES_MAX, "both parts fit a stack");

int window_init(struct window *window, const struct window_sources *sources, uint64_t slot_ns,
		uint64_t from_ns)
{
	*window = (struct window){ .sources = *sources };
	window->profile = profile_new(slot_ns);
	if (!window->profile)
		return -ENOMEM;
	window->profile->from_ns = from_ns;
	location_table_begin_profile(sources->frames.locations);
	return 0;
}

void window_deinit(struct window *window)
{
	profile_free(window->profile);
	free(window->threads);
	hash_table_deinit(&window->thread_index);
	*window = (struct window){ 0 };
}

struct profile *window_finish(struct window *window, uint64_t to_ns)
{
	window->profile->to_ns = to_ns;
	profile_sort_samples(window->profile);
	return take(window->profile);
}

// ---- whose ----------------------------------------------------------------------------------

static bool thread_equals(const void *context, uint32_t item, const void *key)
{
	const struct window *window = context;
	const struct window_thread *thread = &window->threads[item], *wanted = key;

	return !memcmp(&thread->process, &wanted->process, sizeof(thread->process)) &&
	       !memcmp(thread->thread_name, wanted->thread_name, sizeof(thread->thread_name));
}

static int add_series(struct window *window, const struct process *process, const char *thread_name,
		      uint32_t *ret_series)
{
	char text[THREAD_NAME_BYTES + 1] = { 0 };
	struct labels labels = { 0 };
	int rc = labels_copy(&process->labels, &labels);

	memcpy(text, thread_name, THREAD_NAME_BYTES);
	utf8_clean(text);
	// -E2BIG: a process with so many labels does without this one.
	if (!rc && labels_set(&labels, LABEL_THREAD, text) == -ENOMEM)
		rc = -ENOMEM;
	if (!rc)
		rc = profile_add_series(window->profile, &labels, PROFILE_TYPE_CPU, ret_series);
	labels_deinit(&labels);
	return rc;
}

static int grow_threads(struct window *window)
{
	uint32_t capacity = window->thread_capacity ? window->thread_capacity * 2 : 256;
	struct window_thread *threads = reallocarray(window->threads, capacity, sizeof(*threads));

	if (!threads)
		return -ENOMEM;
	window->threads = threads;
	window->thread_capacity = capacity;
	return 0;
}

// The labels of a thread are built once a window, however many samples it has.
static int find_series(struct window *window, const struct process *process,
		       const struct count_key *key, uint32_t *ret_series)
{
	struct window_thread thread = { .process = key->process };

	memcpy(thread.thread_name, key->thread_name, sizeof(thread.thread_name));
	uint64_t hash = hash64_of(&thread, offsetof(struct window_thread, series));
	uint32_t at = hash_table_find(&window->thread_index, hash, thread_equals, window, &thread);

	if (at != HASH_TABLE_NONE) {
		*ret_series = window->threads[at].series;
		return 0;
	}
	int rc = add_series(window, process, key->thread_name, &thread.series);
	if (!rc && window->thread_count == window->thread_capacity)
		rc = grow_threads(window);
	if (!rc)
		rc = hash_table_add(&window->thread_index, hash, window->thread_count);
	if (rc)
		return rc;
	window->threads[window->thread_count++] = thread;
	*ret_series = thread.series;
	return 0;
}

// ---- where ----------------------------------------------------------------------------------

static int append(struct window *window, uint32_t location)
{
	if (location == HASH_TABLE_NONE)
		return -ENOMEM;
	return location_table_put(window->sources.frames.locations, location, window->profile,
				  &window->positions[window->position_count++]);
}

// The callers of one part of the stack, and why it ended.
static int append_callers(struct window *window, const struct stack_hash *hash, uint64_t now_ns,
			  enum stack_end *ret_end)
{
	const struct known_stack *stack = stack_table_find(window->sources.stacks, hash, now_ns);
	int rc = 0;

	if (!stack) {
		*ret_end = STACK_END_LOST;
		window->stacks_lost++;
		return 0;
	}
	*ret_end = stack->end;
	for (uint32_t i = 0; i < stack->count && !rc; i++)
		rc = append(window, stack->locations[i]);
	return rc;
}

static int append_kernel_part(struct window *window, const struct count_key *key, uint64_t now_ns,
			      enum stack_end *ret_end)
{
	struct raw_frame leaf = { .address = key->kernel_leaf, .tag = FRAME_TAG_KERNEL };
	int rc = 0;

	if (key->kernel_leaf)
		rc = append(window, frame_locate_leaf(&window->sources.frames, NULL, &leaf));
	return rc ? rc : append_callers(window, &key->kernel, now_ns, ret_end);
}

static int append_user_part(struct window *window, struct process *process,
			    const struct count_key *key, uint64_t now_ns, enum stack_end *ret_end)
{
	int rc = 0;

	if (key->user_leaf.tag)
		rc = append(window,
			    frame_locate_leaf(&window->sources.frames, process, &key->user_leaf));
	return rc ? rc : append_callers(window, &key->user, now_ns, ret_end);
}

static bool is_there(const struct stack_hash *hash)
{
	return hash->high || hash->low;
}

// Leaf first: what the kernel did for the thread, then who in the thread asked for it.
static int build_stack(struct window *window, struct process *process, const struct count_key *key,
		       uint64_t now_ns, uint32_t *ret_stack)
{
	enum stack_end kernel_end = STACK_END_COMPLETE, end = STACK_END_COMPLETE;
	int rc = 0;

	window->position_count = 0;
	if (is_there(&key->kernel))
		rc = append_kernel_part(window, key, now_ns, &kernel_end);
	if (!rc && is_there(&key->user))
		rc = append_user_part(window, process, key, now_ns, &end);
	if (rc)
		return rc;
	// The root is the user part's; a hole in the middle is told if the root is whole.
	if (end == STACK_END_COMPLETE)
		end = kernel_end;
	return profile_add_stack(window->profile, window->positions, window->position_count, end,
				 ret_stack);
}

int window_add(struct window *window, const struct count_key *key, const struct count *count,
	       uint64_t now_ns)
{
	struct process *process = process_table_get(window->sources.frames.processes, &key->process,
						    key->thread_name);
	uint32_t series, stack;
	int rc = process ? 0 : -ENOMEM;

	if (!rc)
		rc = find_series(window, process, key, &series);
	if (!rc)
		rc = build_stack(window, process, key, now_ns, &stack);
	if (!rc)
		rc = profile_add_sample(window->profile, series, stack, key->slot,
					(int64_t)count->value);
	return rc;
}
