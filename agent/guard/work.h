// SPDX-License-Identifier: Apache-2.0
// Work that a process makes for the agent: reading and analysing its memory, its files, its code. What is read is
// hostile, so it may not decide how much work it makes: each process has a budget of CPU time per export interval.
// When it is spent, the process's analysis is put off to later intervals, which is counted and reported.
//
//	struct work work;
//	if (!work_begin(&work, &process->budget, "reading Python thread states"))
//		return -EDQUOT; // put off
//	... process_memory_read() fails with -EDQUOT as soon as the budget is spent ...
//	work_end(&work);
//
// Works nest; each pays for itself only. The watchdog (watchdog.h) names the innermost one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/guard/shares.h"
#include "agent/guard/watchdog.h"
#include "base/event_log.h"

/* CPU time for one process in an export interval: 5 % of a core with intervals of 5 s. What is more is a debt to the next ones. */
#define WORK_PROCESS_NS_MAX (250ULL * 1000000)
/* The same where one process and its children are asked for: somebody waits for their stacks. */
#define WORK_ASKED_NS_MAX (1000ULL * 1000000)
/*
 * For all processes: past it, each has WORK_SHARE_NS_MAX only, so that many that cost much do not starve the others. A
 * payer's processes together leave half of it.
 */
#define WORK_TOTAL_NS_MAX (2ULL * 1000000000)
#define WORK_SHARE_NS_MAX (10ULL * 1000000)

enum {
	WORK_READS_MAX = 1 << 16, // of foreign memory by one work, whatever they cost: a walk ends
};

/** What the budgets of all processes share. One thread. */
struct work_pool {
	uint64_t process_ns, total_ns, share_ns; // 0: the limits above
	uint64_t spent_ns;                       // in this export interval
	struct shares shares;                    // of that, by payer
	uint32_t interval;                       // its number
	bool is_reported;                        // a process was put off in this interval
	uint64_t put_off;                        // processes, once in each interval, so far
	struct event_log *events;                // may be NULL
	const struct hung_processes *hung;       // processes to leave alone; NULL: none
	uint64_t (*cpu_ns)(void);                // NULL: the thread's CPU clock
	bool (*is_over)(void *context);          // there is no time left for any work; NULL: never
	void *context;
};

/** Of one process. */
struct work_budget {
	struct work_pool *pool;
	pid_t pid;
	uint64_t spent_ns;
	uint32_t interval; // when it was last renewed
	uint32_t put_off_interval;
	bool is_put_off;    // in put_off_interval
	bool is_left_alone; // nothing is read for it
	uint64_t payer;     // who pays for what its files cost later on (shares.h)
};

/** A work in progress. */
struct work {
	struct work_budget *budget; // NULL: no limit of time
	struct work *outer;         // NULL: none
	const char *stage;
	bool has_begun;
	struct watchdog_stage stage_before; // the watchdog's
	uint64_t began_ns;                  // CPU time
	uint64_t inner_ns;                  // of that, in works within it
	uint32_t reads;
	bool is_spent;
};

/**
 * Begin to do @stage, a constant. Returns false if the budget is spent: then nothing began and the analysis is put
 * off; so it is when pool->is_over(). A NULL @budget is without limit of time.
 */
bool work_begin(struct work *work, struct work_budget *budget, const char *stage);
/** Ends what work_begin() began, or does nothing if that was nothing. */
void work_end(struct work *work);

/**
 * May the thread's innermost work read foreign memory once more? False when its budget or WORK_READS_MAX is spent.
 * True outside of any work.
 */
bool work_may_read(void);
/** The same before a step that computes: the clock is read each time. */
bool work_may_go_on(void);
/** Did the innermost work run out? Then what was read is incomplete, and says nothing about the process. */
bool work_is_spent(void);

/** The budget of the process @pid that started at @start_ns. */
void work_budget_init(struct work_budget *budget, struct work_pool *pool, uint32_t pid,
		      uint64_t start_ns);

/** A payer by what all of a container, pod or unit have in common, or by a process. */
uint64_t work_payer_of(const void *bytes, size_t size);
/** Who pays for the innermost work; 0 outside of any. */
uint64_t work_payer(void);

/** @budget is of a child or successor of @former's process: it takes over what that one has spent. */
void work_budget_inherit(struct work_budget *budget, const struct work_budget *former);

/** A new export interval begins. */
void work_pool_renew(struct work_pool *pool);
