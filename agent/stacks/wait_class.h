// SPDX-License-Identifier: Apache-2.0
// The wait class of a blocked thread, from the functions on its stack: the kernel's say how it sleeps, the
// program's say why. Names come from processes and may lie: a class is a label for people, and nothing is
// decided by it. The rules are in agent/stacks/wait_rules.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/stacks/wait_rules.h"
#include "base/contract/wait_classes.h"
#include "base/profile/profile.h"

/** The class of a stack of @count functions, the leaf first. */
enum wait_class wait_class_of(const struct wait_frame *frames, uint32_t count);

/** The class of a stack of @profile. */
enum wait_class wait_class_of_stack(const struct profile *profile, const struct stack *stack);

/**
 * Does CPython take the GIL in this native function? Then a condition wait that it calls waits for the GIL.
 * @name without leading underscores; "": unknown.
 */
bool wait_takes_gil(const char *name, const char *module);
