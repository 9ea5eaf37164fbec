// SPDX-License-Identifier: Apache-2.0
// The kinds of lanes: what sources.c does with each, in terms of the module that does the work.
#pragma once

#include "agent/sources.h"

/** A kind of lane. What it does not need is NULL. */
struct source_kind {
	const char *name; // as in messages: "wall"
	uint32_t bit;     // enum source_bit
	uint32_t needs;   // of lanes that come before: it is closed and opened with them
	int (*open)(const struct source_setup *setup, void **ret_lane, struct error *err);
	void (*close)(void *source);
	/**
	 * Stop, to cost nothing, or go on, without being loaded anew: a kernel takes a second of CPU to
	 * check a large program. What was set stays so. NULL: it is closed, and opened again.
	 */
	int (*set_running)(void *source, bool on);
	/** The count maps are about to be swapped: count what is due. Returns 0 or a negative errno. */
	int (*before_drain)(void *source);
	/** All counts are in @window, which ends now: add what is not counted by the kernel. */
	int (*after_drain)(void *source, struct export_interval *interval);
	/** Each count that is drained. */
	void (*take_count)(void *source, const struct count_key *key, const struct count *count);
	/** From now on a quarter of the stacks at each step; 0: all. What has no stacks stays exact. */
	int (*set_step)(void *source, uint32_t step);
	/** What costs most is not done for this process, or again. Returns 0 or a negative errno. */
	int (*set_process)(void *source, uint32_t pid, bool on);
	/** Some 50 times a second: it must cost next to nothing when nothing is due. */
	void (*tick)(void *source, uint64_t now_ns);
	void (*read_cost)(const void *source, struct source_cost *ret_cost);
};

enum { SOURCE_KINDS = 7 };

/** In the order in which they are opened; they are closed in the opposite one. */
extern const struct source_kind source_kinds[SOURCE_KINDS];
