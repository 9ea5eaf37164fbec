// SPDX-License-Identifier: Apache-2.0
// Runs sources: opens, drains, stops and closes them. A source that the kernel refuses posts an event;
// the others run. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/sources/source.h"
#include "agent/stacks/export_interval.h"
#include "base/error.h"

enum { SOURCES_MAX = 16 };

struct sources;

/**
 * Open those of @table (its end is NULL) whose bits are in @bits; a failure of one is an event. Returns
 * 0, or -ENOMEM and @err.
 */
int sources_open(const struct source *const *table, uint32_t bits, const struct source_setup *setup,
		 struct sources **ret_sources, struct error *err);
/** Let those begin that source_setup.begins_later held; a failure is an event. */
void sources_begin(struct sources *sources);
/** NULL is allowed here, and in all of these that run sources. */
void sources_close(struct sources *sources);

/**
 * Open more sources while the others run: those of @bits that were not asked for. Returns the set of those that opened; a
 * failure is an event.
 */
uint32_t sources_add(struct sources *sources, uint32_t bits);
/** Services for SOURCE_WAKERS when it is opened; borrowed until the next call. */
void sources_set_wakers(struct sources *sources, const char *services);
/** Close those that sources_add() has opened. */
void sources_remove(struct sources *sources, uint32_t bits);

/**
 * Stop all sources but the governor, whatever else stops or starts them meanwhile, or let them go on. A failure is an
 * event.
 */
void sources_set_stopped(struct sources *sources, bool stopped);

/** The set of those that are open, or were until something stopped them. */
uint32_t sources_open_bits(const struct sources *sources);
/** The set of enum source_bit of those that run. */
uint32_t sources_running(const struct sources *sources);

int sources_before_drain(struct sources *sources);
int sources_after_drain(struct sources *sources, struct export_interval *interval);
void sources_tick(struct sources *sources, uint64_t now_ns);
void sources_take_count(struct sources *sources, const struct count_key *key,
			const struct count *count);
void sources_take_process(struct sources *sources, const struct process_record *record);

/** What open() of the source of this bit returned; NULL: it is not open. */
void *sources_find(const struct sources *sources, enum source_bit bit);
const struct source_setup *sources_setup(const struct sources *sources);

/** Is a source of this bit open, though it may be stopped, that can be turned down so? */
bool sources_can_step(const struct sources *sources, enum source_bit bit);
bool sources_can_set_process(const struct sources *sources, enum source_bit bit);
/** Turn the sources of a bit down, or up. Returns 0 or a negative errno: -EOPNOTSUPP if none can be. */
int sources_set_step(struct sources *sources, enum source_bit bit, uint32_t step);
int sources_set_process(struct sources *sources, enum source_bit bit, uint32_t pid, bool on);
/**
 * Stop the sources of a bit, or start them again. One that has to be closed for that loses its settings;
 * one that never ran stays so. Returns 0 or a negative errno.
 */
int sources_set_running(struct sources *sources, enum source_bit bit, bool on);
