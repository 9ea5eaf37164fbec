// SPDX-License-Identifier: Apache-2.0
// What a blocked thread waited for, as far as the functions on its stack tell: where the kernel put
// it to sleep, and who in the thread asked for that. Names come from processes and may lie; a class
// is a label for people, never a decision.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/contract/wait_classes.h"
#include "base/profile.h"

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
