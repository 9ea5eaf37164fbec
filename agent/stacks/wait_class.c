// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/wait_class.h"

#include <string.h>

#include "agent/stacks/wait_rules.h"
#include "base/cleanup.h"
#include "base/text.h"

enum {
	FRAMES_MAX = 512, // of one stack that are read, from the leaf: rules match near it
};

/* Where no rule for the program's functions matches. */
static const enum wait_class classes[CAUSE_COUNT] = {
	[CAUSE_UNKNOWN] = WAIT_CLASS_OTHER,
	[CAUSE_LOCK] = WAIT_CLASS_LOCK,
	[CAUSE_KERNEL_LOCK] = WAIT_CLASS_LOCK,
	[CAUSE_EPOLL] = WAIT_CLASS_IDLE,
	[CAUSE_POLL] = WAIT_CLASS_POLL,
	[CAUSE_RING] = WAIT_CLASS_DISK,
	[CAUSE_NETWORK] = WAIT_CLASS_NETWORK,
	[CAUSE_PIPE] = WAIT_CLASS_PIPE,
	[CAUSE_SLEEP] = WAIT_CLASS_SLEEP,
	[CAUSE_DISK] = WAIT_CLASS_DISK,
	[CAUSE_PAGE_FAULT] = WAIT_CLASS_PAGE_FAULT,
	[CAUSE_GPU] = WAIT_CLASS_GPU,
	[CAUSE_CHILD] = WAIT_CLASS_CHILD,
	[CAUSE_STOPPED] = WAIT_CLASS_STOPPED,
	[CAUSE_WORK] = WAIT_CLASS_IDLE,
};

// ---- the GIL --------------------------------------------------------------------------------

/*
 * CPython takes the GIL in take_gil(), which compilers inline into its callers (Python/ceval_gil.h,
 * ceval_gil.c). In an interpreter without symbols every condition wait is taken for one for the GIL.
 */
bool wait_takes_gil(const char *name, const char *module)
{
	static const char *const takers[] = {
		"take_gil",
		"drop_gil",
		"PyEval_RestoreThread",
		"PyEval_AcquireThread",
		"PyEval_AcquireLock",
		"PyEval_EvalFrame",
		"PyEval_TakeGIL",
		"Py_HandlePending",
		"eval_frame_handle_pending",
		"PyThreadState_Attach",
		"PyGILState_Ensure",
	};

	for (size_t i = 0; i < ARRAY_SIZE(takers); i++)
		if (text_begins_with(name, takers[i]))
			return true;
	return !*name &&
	       (wait_module_begins(module, "libpython3") || wait_module_begins(module, "python3"));
}

// If a callee of @frame waits for a condition: is that the GIL? A Python frame stands for the interpreter
// loop, which waits for no other condition.
static bool is_for_gil(const struct wait_frame *frame)
{
	return frame->kind == FRAME_KIND_PYTHON ||
	       wait_takes_gil(wait_plain_name(frame->name), frame->module);
}

// ---- in the kernel --------------------------------------------------------------------------

static uint32_t count_kernel(const struct wait_frame *frames, uint32_t count)
{
	uint32_t kernel = 0;

	while (kernel < count && frames[kernel].kind == FRAME_KIND_KERNEL)
		kernel++;
	return kernel;
}

static enum wait_cause cause_in_kernel(const struct wait_frame *frames, uint32_t count)
{
	enum wait_cause cause = CAUSE_UNKNOWN;

	for (uint32_t i = 0; i < count; i++) {
		const struct kernel_rule *rule = kernel_rule_find(frames[i].name, frames[i].module);

		if (!rule)
			continue;
		if (rule->decides)
			return rule->cause;
		if (cause == CAUSE_UNKNOWN || cause == CAUSE_KERNEL_LOCK)
			cause = rule->cause;
	}
	return cause;
}

// Without kernel frames, by the first functions of the C library.
static enum wait_cause cause_of_calls(const struct wait_frame *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count && frames[i].kind == FRAME_KIND_NATIVE; i++) {
		enum wait_cause cause = wait_cause_of_call(frames[i].name);

		if (cause != CAUSE_UNKNOWN || !wait_is_system_library(frames[i].module))
			return cause;
	}
	return CAUSE_UNKNOWN;
}

// ---- in the program -------------------------------------------------------------------------

// Can the program's functions refine the cause?
static bool is_open(enum wait_cause cause)
{
	switch (cause) {
	case CAUSE_UNKNOWN:
	case CAUSE_LOCK:
	case CAUSE_EPOLL:
	case CAUSE_POLL:
	case CAUSE_RING:
	case CAUSE_NETWORK:
	case CAUSE_PIPE:
	case CAUSE_SLEEP:
		return true;
	default:
		return false;
	}
}

// A thread that a library started for itself, with no other code on its stack.
static bool is_library_thread(const struct wait_frame *frames, uint32_t count)
{
	bool is_pool = false;

	for (uint32_t i = 0; i < count; i++) {
		if (wait_is_pool_library(frames[i].module))
			is_pool = true;
		else if (frames[i].kind != FRAME_KIND_NATIVE ||
			 !wait_is_system_library(frames[i].module))
			return false;
	}
	return is_pool;
}

static const struct wait_frame *next_python(const struct wait_frame *frames, uint32_t count,
					    uint32_t *at)
{
	while (*at < count && frames[*at].kind != FRAME_KIND_PYTHON)
		++*at;
	return *at < count ? &frames[(*at)++] : NULL;
}

// Is the Python function that calls frame @at its thread's target? Then a loop in it is the thread's work loop.
static bool is_thread_target(const struct wait_frame *frames, uint32_t count, uint32_t at)
{
	static const char *const starters[] = { "run", "_bootstrap_inner" };
	const struct wait_frame *starter;

	at++;
	if (!next_python(frames, count, &at))
		return false;
	starter = next_python(frames, count, &at);
	if (!starter)
		return false;
	const char *dot = strrchr(starter->name, '.');

	if (strcmp(path_base_name(starter->file), "threading.py"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(starters); i++)
		if (!strcmp(dot ? dot + 1 : starter->name, starters[i]))
			return true;
	return false;
}

static const char *const thread_starts[] = { "start_thread", "clone3", "clone", "start" };

static bool is_thread_start(const struct wait_frame *frame)
{
	for (size_t i = 0; i < ARRAY_SIZE(thread_starts); i++)
		if (!strcmp(wait_plain_name(frame->name), thread_starts[i]))
			return true;
	return false;
}

/*
 * Is more known of the stack than that it is in the C library? Only the program's functions tell a lock from the GIL, or
 * from a worker without work.
 */
static bool shows_program(const struct wait_frame *frames, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (!wait_is_system_library(frames[i].module) || is_thread_start(&frames[i]))
			return true;
	return false;
}

// Is the caller of frame @at the C library's thread start?
static bool is_called_by_start(const struct wait_frame *frames, uint32_t count, uint32_t at)
{
	return at + 1 < count && frames[at + 1].kind == FRAME_KIND_NATIVE &&
	       wait_is_system_library(frames[at + 1].module) && is_thread_start(&frames[at + 1]);
}

struct walk {
	enum wait_cause cause;
	const char *unnamed; // the file of an unnamed function that was passed
	bool is_condition;   // the callee waits for a condition
	bool is_mutex;       // the callee waits for a mutex
	bool has_condition;  // a function nearer to the leaf did
	enum wait_class class;
};

// An unnamed function may be part of its file's own loop: only functions of one file are passed.
static bool pass_unnamed(struct walk *walk, const struct wait_frame *frame)
{
	if (*frame->name || (walk->unnamed && strcmp(walk->unnamed, frame->module)))
		return false;
	walk->unnamed = frame->module;
	return true;
}

// Match one function, walking from the leaf to the root. False: the walk ends here.
static bool step(struct walk *walk, const struct wait_frame *frames, uint32_t count, uint32_t at)
{
	const struct wait_frame *frame = &frames[at];
	const struct user_rule *rule;

	// The GIL has a mutex of its own: where many wait for the one, they also wait for the other.
	if ((walk->is_condition || walk->is_mutex) && is_for_gil(frame)) {
		walk->class = WAIT_CLASS_GIL;
		return false;
	}
	walk->is_condition = text_begins_with(wait_plain_name(frame->name), "pthread_cond_");
	walk->is_mutex = text_begins_with(wait_plain_name(frame->name), "pthread_mutex_lock");
	walk->has_condition |= walk->is_condition;
	rule = user_rule_find(frame, walk->cause);
	switch (rule ? rule->role : ROLE_UNKNOWN) {
	case ROLE_THROUGH:
		return true;
	case ROLE_TARGET:
		if (!is_thread_target(frames, count, at))
			return true;
		walk->class = WAIT_CLASS_IDLE;
		return false;
	case ROLE_LIKELY:
		walk->class = WAIT_CLASS_IDLE;
		return true;
	case ROLE_LOOP:
		if (!walk->unnamed || !strcmp(walk->unnamed, frame->module))
			walk->class = WAIT_CLASS_IDLE;
		return false;
	case ROLE_CLASS:
		walk->class = rule->class;
		return false;
	case ROLE_RUNS:
		return false;
	}
	if (frame->kind == FRAME_KIND_PYTHON)
		return false;
	// A thread's first function that waits for a condition itself is a worker without work.
	if (walk->has_condition && is_called_by_start(frames, count, at))
		walk->class = WAIT_CLASS_IDLE;
	return wait_is_system_library(frame->module) || pass_unnamed(walk, frame);
}

static enum wait_class class_in_program(enum wait_cause cause, const struct wait_frame *frames,
					uint32_t count)
{
	struct walk walk = { .cause = cause, .class = classes[cause] };

	if (!is_open(cause))
		return classes[cause];
	if (is_library_thread(frames, count))
		return WAIT_CLASS_IDLE;
	for (uint32_t i = 0; i < count && step(&walk, frames, count, i); i++)
		;
	return walk.class;
}

// ---- whole stacks ---------------------------------------------------------------------------

enum wait_class wait_class_of(const struct wait_frame *frames, uint32_t count)
{
	uint32_t kernel = count_kernel(frames, count);
	enum wait_cause cause = cause_in_kernel(frames, kernel);

	if (cause == CAUSE_UNKNOWN)
		cause = cause_of_calls(frames + kernel, count - kernel);
	if (cause == CAUSE_LOCK && !shows_program(frames + kernel, count - kernel))
		return WAIT_CLASS_OTHER;
	return class_in_program(cause, frames + kernel, count - kernel);
}

static uint32_t add_location(const struct profile *profile, const struct location *location,
			     struct wait_frame *frames, uint32_t room)
{
	const char *module = profile_string(profile, location->module);
	uint32_t count = 0;

	if (!location->line_count && room) {
		frames[0] = (struct wait_frame){ location->kind, "", "", module };
		return 1;
	}
	for (; count < location->line_count && count < room; count++) {
		const struct line *line = &profile->lines[location->first_line + count];

		frames[count] = (struct wait_frame){
			.kind = location->kind,
			.name = profile_string(profile, line->name),
			.file = profile_string(profile, line->file),
			.module = module,
		};
	}
	return count;
}

enum wait_class wait_class_of_stack(const struct profile *profile, const struct stack *stack)
{
	struct wait_frame frames[FRAMES_MAX];
	uint32_t count = 0;

	for (uint32_t i = 0; i < stack->location_count && count < FRAMES_MAX; i++) {
		uint32_t at = profile->stack_locations[stack->first_location + i];

		count += add_location(profile, &profile->locations[at], frames + count,
				      FRAMES_MAX - count);
	}
	return wait_class_of(frames, count);
}
