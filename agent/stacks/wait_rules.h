// SPDX-License-Identifier: Apache-2.0
// What functions on a blocked stack tell of the wait: one table for the kernel's, one for those of
// programs. agent/stacks/wait_class.c reads stacks by them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/contract/frame_kinds.h"

/** One function on a stack. */
struct wait_frame {
	enum frame_kind kind;
	const char *name;   // demangled; "": not known
	const char *file;   // of source; "": not known
	const char *module; // path of the executable or library, "[kernel]", "[nvidia]"
};

/** Where a thread lies in the kernel. */
enum wait_cause {
	CAUSE_UNKNOWN,
	CAUSE_LOCK,        // of the program: futex, semaphore, lock on a file
	CAUSE_KERNEL_LOCK, // told by who takes it, further down the stack, if by anything
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
	const char *name; // a trailing '*': any that begins so
	uint8_t cause;
	bool decides; // wherever it is on the stack, even if a rule fits nearer to the leaf
};

/** The rule for the kernel's function @name of @module, or NULL. Suffixes of compilers are ignored. */
const struct kernel_rule *kernel_rule_find(const char *name, const char *module);

/** What a function of a program means for a wait somewhere above it on the stack. */
enum wait_role {
	ROLE_UNKNOWN, // someone's own code
	ROLE_THROUGH, // waits on behalf of its caller: look further
	ROLE_TARGET,  // the same, but a thread's target function that calls it is a worker's loop
	ROLE_LIKELY,  // a loop, unless a caller is known to wait for one answer
	ROLE_LOOP,    // the place where a worker or an event loop waits for work
	ROLE_RUNS,    // hands work to someone's code: whose loop it is does not matter above it
	ROLE_CLASS,   // what was waited for is sure
};

struct user_rule {
	const char *name;  // "a*": begins so, "~a": contains it, "": any
	const char *place; // native: the file's name begins so; Python: the path ends so; NULL: any
	bool is_python;
	uint8_t role;
	uint8_t class;   // of ROLE_CLASS
	uint32_t causes; // bits of enum wait_cause; 0: all
};

/** The first rule that fits @frame in a wait for @cause, or NULL. */
const struct user_rule *user_rule_find(const struct wait_frame *frame, enum wait_cause cause);

/** Where the thread would lie in the kernel by what it called: for stacks without kernel frames. */
enum wait_cause wait_cause_of_call(const char *name);

/** Is @module a library whose threads wait for work as long as nobody else's code is on their stacks? */
bool wait_is_pool_library(const char *module);
/** Is @module the C or C++ library, or Python's: what waits in it waits for its caller? */
bool wait_is_system_library(const char *module);
/**
 * Is @name what @pattern says: the same, or "a*" for those that begin so, "~a" for those that have it,
 * "" for any? A name may go on with arguments, template parameters, a version, or what the compiler
 * added: "(", "<", "@", ".constprop.0", "[abi:cxx11]".
 */
bool wait_name_matches(const char *pattern, const char *name);
/** Does the file's name of @module begin so? */
bool wait_module_begins(const char *module, const char *beginning);
/** @name without the underscores that C libraries begin its aliases with. */
const char *wait_plain_name(const char *name);
