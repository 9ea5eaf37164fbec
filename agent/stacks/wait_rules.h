// SPDX-License-Identifier: Apache-2.0
// What a function on a blocked stack says about the wait: one table of rules for the kernel's functions
// (wait_kernel_rules.c), one for programs and their libraries (wait_user_rules.c). wait_class.c walks stacks
// by them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/contract/frame_kinds.h"

/** One function on a stack. */
struct wait_frame {
	enum frame_kind kind;
	const char *name;   // demangled; "": unknown
	const char *file;   // of source; "": unknown
	const char *module; // path of the executable or library, "[kernel]", "[nvidia]"
};

/** How the kernel put a thread to sleep. */
enum wait_cause {
	CAUSE_UNKNOWN,
	CAUSE_LOCK,        // of the program: futex, semaphore, file lock
	CAUSE_KERNEL_LOCK, // a function further from the leaf may know what the lock is for
	CAUSE_EPOLL,
	CAUSE_POLL,
	CAUSE_RING, // io_uring
	CAUSE_NETWORK,
	CAUSE_PIPE,
	CAUSE_SLEEP,
	CAUSE_DISK,
	CAUSE_PAGE_FAULT,
	CAUSE_GPU,
	CAUSE_CHILD,
	CAUSE_STOPPED,
	CAUSE_WORK, // for work: accept(), pause(), a terminal
	CAUSE_COUNT,
};

struct kernel_rule {
	const char *name; // "a*": any that begins so
	uint8_t cause;
	bool decides; // anywhere on the stack, over rules nearer to the leaf
};

/** The rule for the kernel's function @name of @module, or NULL. Compilers' suffixes are ignored. */
const struct kernel_rule *kernel_rule_find(const char *name, const char *module);

/** What a program's function means for a wait in its callees. */
enum wait_role {
	ROLE_UNKNOWN, // the program's own code
	ROLE_THROUGH, // waits on behalf of its caller: walk on
	ROLE_TARGET,  // the same; called by a thread's target function, it is a worker's loop
	ROLE_LIKELY,  // a work loop, unless a caller waits for one answer
	ROLE_LOOP,    // a worker or an event loop, waiting for work
	ROLE_RUNS,    // runs work given to it: loops below it have no part in the wait
	ROLE_CLASS,   // sets the wait class
};

struct user_rule {
	const char *name; // "a*": begins so, "~a": contains it, "": any
	const char *file; // native: its name begins so; Python: its path ends so; NULL: any
	bool is_python;
	uint8_t role;
	uint8_t class;   // of ROLE_CLASS
	uint32_t causes; // bits of enum wait_cause; 0: all
};

/** The first rule that matches @frame in a wait for @cause, or NULL. */
const struct user_rule *user_rule_find(const struct wait_frame *frame, enum wait_cause cause);

/** The cause by the C library's function that was called: for stacks without kernel frames. */
enum wait_cause wait_cause_of_call(const char *name);

/** Is @module a library with threads of its own, which wait for work if no other code is on their stacks? */
bool wait_is_pool_library(const char *module);
/** Is @module the C, C++ or Python library? It waits on behalf of its caller. */
bool wait_is_system_library(const char *module);
/**
 * Does @name match @pattern: equal, "a*" begins so, "~a" contains it, "" any? Behind an equal name there may
 * be arguments, template parameters, a version or a compiler's suffix: "(", "<", "@", ".constprop.0",
 * "[abi:cxx11]".
 */
bool wait_name_matches(const char *pattern, const char *name);
/** Does the file name of @module begin so? */
bool wait_module_begins(const char *module, const char *prefix);
/** @name without leading underscores, which C libraries' aliases have. */
const char *wait_plain_name(const char *name);
