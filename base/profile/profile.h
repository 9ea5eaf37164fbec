// SPDX-License-Identifier: Apache-2.0
// The profile model: what the agent drains, what the wire carries, what the collector stores and
// what the exporters write. Samples refer to series (whose, and what was measured) and to stacks;
// stacks refer to locations; locations to lines. All references are positions in the profile's
// own arrays.
//
// Identities outlive names. A location's id is a hash of what it is (module identity and offset,
// or qualified name, file and line when interpreted), a stack's id is a hash of its locations'
// ids; both are equal on every host and after every restart. Names may come later.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/contract/frame_kinds.h"
#include "base/contract/profile_types.h"
#include "base/contract/stack_ends.h"
#include "base/error.h"
#include "base/hash_table.h"
#include "base/id128.h"
#include "base/labels.h"
#include "base/string_table.h"

enum {
	STACK_FRAMES_MAX = 1024, // user and kernel together; the agent sends at most 512
	LOCATION_LINES_MAX = 64, // inlined calls at one address
	PROFILE_LOCATIONS_MAX = 1 << 22,
	PROFILE_STACKS_MAX = 1 << 22,
	PROFILE_SERIES_MAX = 1 << 20,
	PROFILE_SAMPLES_MAX = 1 << 26,
};

/** A source line, or just a function if file is 0. Numbers refer to the profile's strings. */
struct line {
	uint32_t name;   // function, demangled; qualified if interpreted
	uint32_t file;   // source file, 0: unknown
	uint32_t number; // 1-based, 0: unknown
};

/** One frame of code. */
struct location {
	struct id128 id;
	enum frame_kind kind;
	uint32_t module;   // string: path of the executable or library, "[kernel]", a module's name
	uint32_t build_id; // string: GNU build id or file hash in hex, 0: none
	uint64_t offset;   // within the module's file, in bytes
	uint32_t first_line; // into profile->lines, innermost (inlined) first
	uint32_t line_count; // 0: not symbolized
};

struct stack {
	struct id128 id;
	enum stack_end end;
	uint32_t first_location; // into profile->stack_locations, leaf first
	uint32_t location_count;
	bool defined; // false: only the id is known here (the collector has the locations)
};

struct series {
	struct labels labels;
	uint32_t type;   // string: five-part profile type
	struct id128 id; // of labels and type
};

struct sample {
	uint32_t series;
	uint32_t stack;
	uint64_t slot; // Unix time / profile->slot_ns; 0 in a merged profile
	int64_t value; // in the type's unit
	// An interval: so many slots after the first are covered too, and the value is spread evenly.
	uint32_t more_slots;
};

/** One thread at a time. Fields are for reading; writing goes through the functions below. */
struct profile {
	uint64_t slot_ns;
	uint64_t from_ns; // Unix time covered, [from, to)
	uint64_t to_ns;
	struct string_table strings;
	struct line *lines;
	uint32_t line_count, line_capacity;
	struct location *locations;
	uint32_t location_count, location_capacity;
	uint32_t *stack_locations;
	uint32_t stack_location_count, stack_location_capacity;
	struct stack *stacks;
	uint32_t stack_count, stack_capacity;
	struct series *series;
	uint32_t series_count, series_capacity;
	struct sample *samples;
	uint32_t sample_count, sample_capacity;
	struct hash_table location_index, stack_index, series_index;
	uint32_t other_owners; // profile_share()
};

/** An empty profile with slots of @slot_ns, or NULL when out of memory. */
struct profile *profile_new(uint64_t slot_ns);
void profile_free(struct profile *profile);
/** One owner more, who frees it, too. From then on all of them only read, in any thread. Returns @profile. */
struct profile *profile_share(struct profile *profile);
void profile_freep(struct profile **profile);

/** Make room for so many more stacks and samples. Returns 0; -ENOMEM; -E2BIG at their limits. */
int profile_reserve(struct profile *profile, uint32_t stacks, uint32_t samples);

/**
 * The number of @string in the profile's table. Returns 0, -ENOMEM or -E2BIG.
 */
int profile_add_string(struct profile *profile, const char *string, uint32_t *ret_number);
const char *profile_string(const struct profile *profile, uint32_t number);

/**
 * Add a location, or find the one with the same id. @location's id, kind, module, build_id and
 * offset are taken; its lines are @lines (copied). A location found takes them if they say more:
 * names where there were none, source files where there were names only.
 * Returns 0; -ENOMEM; -E2BIG at PROFILE_LOCATIONS_MAX or LOCATION_LINES_MAX.
 */
int profile_add_location(struct profile *profile, const struct location *location,
			 const struct line *lines, uint32_t line_count, uint32_t *ret_location);
/** How much a location's lines say: 0 nothing, 1 names, 2 source files, too. */
uint32_t location_detail(const struct profile *profile, const struct location *location);
/** The position of the location with @id, or HASH_TABLE_NONE. */
uint32_t profile_find_location(const struct profile *profile, struct id128 id);

/**
 * Add a stack of @count positions of locations, leaf first, or find the equal one. Its id is
 * stack_id_of() of the locations' ids. Returns 0; -ENOMEM; -E2BIG at PROFILE_STACKS_MAX or
 * STACK_FRAMES_MAX; -EINVAL if there is no such location.
 */
int profile_add_stack(struct profile *profile, const uint32_t *locations, uint32_t count,
		      enum stack_end end, uint32_t *ret_stack);
/** Add a stack of which only the id is known, or find it. Errors as above. */
int profile_add_stack_id(struct profile *profile, struct id128 id, uint32_t *ret_stack);
/**
 * Give a stack added by profile_add_stack_id() its locations. Returns 0; -EBADMSG if the id is
 * not the one of these locations; otherwise as profile_add_stack().
 */
int profile_define_stack(struct profile *profile, uint32_t stack, const uint32_t *locations,
			 uint32_t count, enum stack_end end);

/**
 * Add a series, or find the equal one. @labels are copied.
 * Returns 0; -ENOMEM; -E2BIG at PROFILE_SERIES_MAX.
 */
int profile_add_series(struct profile *profile, const struct labels *labels, const char *type,
		       uint32_t *ret_series);
struct id128 series_id_of(const struct labels *labels, const char *type);

/**
 * Append a sample; equal (series, stack, slot) are not joined here. Returns 0; -ENOMEM; -E2BIG at
 * PROFILE_SAMPLES_MAX; -EINVAL if there is no such series or stack.
 */
int profile_add_sample(struct profile *profile, uint32_t series, uint32_t stack, uint64_t slot,
		       int64_t value);
/** The same for one that covers @more_slots slots after its first, too. */
int profile_add_interval(struct profile *profile, uint32_t series, uint32_t stack, uint64_t slot,
			 uint32_t more_slots, int64_t value);
/** Sort samples by (series, slot, stack, more_slots) and join equal ones by adding their values. */
void profile_sort_samples(struct profile *profile);

/** Leave the frames of @kind out of all stacks, whose ids stay. */
void profile_drop_frames(struct profile *profile, enum frame_kind kind);

/**
 * Leave the samples out of whose series @keep says no. Series and stacks stay. Returns the sum of the
 * values left out.
 */
int64_t profile_keep_samples(struct profile *profile,
			     bool (*keep)(void *context, const struct profile *profile,
					  const struct series *series),
			     void *context);

/**
 * Identity of a location in a binary: @module_id is the build id or file hash (for the kernel:
 * its release and the symbol's name), @offset is in the file (for the kernel: in the symbol).
 */
struct id128 location_id_of_offset(enum frame_kind kind, const char *module_id, uint64_t offset);
/** Identity of an interpreted frame. */
struct id128 location_id_of_line(enum frame_kind kind, const char *name, const char *file,
				 uint32_t line);
/** Identity of a stack: its locations' ids, leaf first, and why it ended. */
struct id128 stack_id_of(const struct id128 *location_ids, uint32_t count, enum stack_end end);

/**
 * What a frame is called wherever names are shown: "name", for Python "name (file.py:line)",
 * for the kernel "name_[k]", and "module+0xoffset" when unresolved. @line is a position in the
 * location's lines (0: innermost); it is ignored when there are none. The result is cut to
 * @size and cleaned by frame_name_clean().
 */
void location_display_name(const struct profile *profile, const struct location *location,
			   uint32_t line, char *ret_name, size_t size);

/**
 * Make a name fit to be a frame of a collapsed stack, in place: ';' becomes ':', newlines and other
 * control characters become spaces, bytes that are not UTF-8 become '?'.
 */
void frame_name_clean(char *name);
