// SPDX-License-Identifier: Apache-2.0
// The profile types that `cairn top` and `cairn record` measure in-process.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/contract/profile_types.h"
#include "base/error.h"
#include "base/profile/profile.h"

struct recorded_type {
	const char *type; // five parts
	uint32_t sources; // enum source_bit: sources that it needs
};

/**
 * The type that --type @text asks for: a word (base/contract/profile_type.h) or its five parts.
 * Returns 0, or -EINVAL and @err when there is none such, or it is not measured in-process.
 */
int recorded_type_find(const char *text, const struct recorded_type **ret_type, struct error *err);

/** What the contract says of it. */
const struct profile_type_spec *recorded_type_spec(const struct recorded_type *type);
/** Do its series have the label "wait", and so waits of idle workers? */
bool recorded_type_has_idle(const struct recorded_type *type);

/** The short words of all: for --help. */
#define RECORDED_TYPE_WORDS "cpu, off-cpu, off-wake, run-queue, wall or memory"

/** Off-wake time is measured for a process or service (@is_narrow) only. Returns 0 or -EINVAL. */
int recorded_type_check_scope(const struct recorded_type *type, bool is_narrow, struct error *err);

/** Are samples of @series its own, or does recorded_type_finish() need them? */
bool recorded_type_needs(const struct recorded_type *type, const struct profile *profile,
			 const struct series *series);

/** Are they waits of idle workers? */
bool recorded_type_is_idle(const struct series *series);

/** Of all selected intervals, merged: leave the type's samples only. Returns 0 or -ENOMEM. */
int recorded_type_finish(const struct recorded_type *type, struct profile *profile);

/** The sum of the type's samples in @profile, in its unit. */
int64_t recorded_type_total(const struct recorded_type *type, const struct profile *profile);

/** How many stacks its samples have. Returns 0 or -ENOMEM. */
int recorded_type_stacks(const struct recorded_type *type, const struct profile *profile,
			 uint32_t *ret_count);

/** Why a profile of the type may be empty, and what to do; @had_idle: idle time was removed. */
const char *recorded_type_zero_hint(const struct recorded_type *type, bool had_idle);
