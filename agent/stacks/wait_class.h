// SPDX-License-Identifier: Apache-2.0
// What a blocked thread waited for, as far as the functions on its stack tell: where the kernel put
// it to sleep, and who in the thread asked for that. Names come from processes and may lie; a class
// is a label for people, never a decision.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/stacks/wait_rules.h"
#include "base/contract/wait_classes.h"
#include "base/profile.h"

/** The class of a stack of @count functions, the leaf first. */
enum wait_class wait_class_of(const struct wait_frame *frames, uint32_t count);

/** The class of a stack of @profile, by the names that its locations have there. */
enum wait_class wait_class_of_stack(const struct profile *profile, const struct stack *stack);

/**
 * Does CPython take the GIL in this native function? A wait for a condition right below it is one
 * for the GIL then. @name without the underscores that it may begin with; "": not known.
 */
bool wait_takes_gil(const char *name, const char *module);
