// SPDX-License-Identifier: Apache-2.0
// What a blocked thread waited for, as far as the functions on its stack tell: where the kernel put
// it to sleep, and who in the thread asked for that. Names come from processes and may lie; a class
// is a label for people, never a decision.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/profile.h"

enum wait_class {
	WAIT_CLASS_OTHER,
	WAIT_CLASS_LOCK,
	WAIT_CLASS_GIL,
	WAIT_CLASS_DISK,
	WAIT_CLASS_NETWORK,
	WAIT_CLASS_POLL, // for one of several descriptors, not in an event loop
	WAIT_CLASS_SLEEP,
	WAIT_CLASS_PIPE,
	WAIT_CLASS_PAGE_FAULT,
	WAIT_CLASS_GPU,
	WAIT_CLASS_CHILD, // for a process's or a thread's end
	WAIT_CLASS_STOPPED,
	WAIT_CLASS_IDLE, // a worker, or an event loop, without work
	WAIT_CLASS_COUNT,
};

/** "lock", "gil": the value of the label "wait". */
const char *wait_class_name(enum wait_class class);

/** One function on a stack. */
struct wait_frame {
	enum frame_kind kind;
	const char *name;   // demangled; "": not known
	const char *file;   // of source; "": not known
	const char *module; // path of the executable or library, "[kernel]", "[nvidia]"
};

/** The class of a stack of @count functions, the leaf first. */
enum wait_class wait_class_of(const struct wait_frame *frames, uint32_t count);

/** The class of a stack of @profile, by the names that its locations have there. */
enum wait_class wait_class_of_stack(const struct profile *profile, const struct stack *stack);

/**
 * Does CPython take the GIL in this native function? A wait for a condition right below it is one
 * for the GIL then. @name without the underscores that it may begin with; "": not known.
 */
bool wait_takes_gil(const char *name, const char *module);

/** Classes of stacks, kept over windows. One thread. */
struct wait_class_cache;

enum {
	WAIT_CLASSES_MAX = 1 << 16, // 24 bytes each; the whole memo is forgotten when it is full
};

struct wait_class_cache *wait_class_cache_new(void);
void wait_class_cache_free(struct wait_class_cache *memo);
/** As wait_class_of_stack(), but looked up, unless the stack has more names than it had then. */
enum wait_class wait_class_cache_find(struct wait_class_cache *memo, const struct profile *profile,
				      const struct stack *stack);
