// SPDX-License-Identifier: Apache-2.0
#include "agent/guard/work.h"

#include <stddef.h>

#include "base/clock.h"
#include "base/id128.h"

enum { READS_PER_CHECK = 16 }; // of the clock, which costs a fraction of a read

static _Thread_local struct work *innermost;

static uint64_t cpu_ns(const struct work_budget *budget)
{
	return budget && budget->pool->cpu_ns ? budget->pool->cpu_ns() : clock_thread_cpu_ns();
}

static uint64_t limit_or(uint64_t limit_ns, uint64_t default_ns)
{
	return limit_ns ? limit_ns : default_ns;
}

static bool has_room(const struct work_budget *budget)
{
	const struct work_pool *pool = budget->pool;

	return shares_may_take(&pool->shares, budget->payer, pool->spent_ns,
			       limit_or(pool->total_ns, WORK_TOTAL_NS_MAX));
}

static uint64_t limit_of(const struct work_budget *budget)
{
	const struct work_pool *pool = budget->pool;

	if (has_room(budget))
		return limit_or(pool->process_ns, WORK_PROCESS_NS_MAX);
	return limit_or(pool->share_ns, WORK_SHARE_NS_MAX);
}

// Each interval since pays one budget of what was spent.
static void renew(struct work_budget *budget)
{
	const struct work_pool *pool = budget->pool;
	uint64_t paid_ns = (uint64_t)(pool->interval - budget->interval) *
			   limit_or(pool->process_ns, WORK_PROCESS_NS_MAX);

	budget->interval = pool->interval;
	budget->spent_ns -= paid_ns < budget->spent_ns ? paid_ns : budget->spent_ns;
}

// Once for each process and interval; one line of the log for all of an interval.
static void put_off(struct work_budget *budget, const char *stage, uint64_t spent_ns)
{
	struct work_pool *pool = budget->pool;

	if (budget->is_put_off && budget->put_off_interval == pool->interval)
		return;
	budget->is_put_off = true;
	budget->put_off_interval = pool->interval;
	pool->put_off++;
	if (pool->is_reported)
		return;
	pool->is_reported = true;
	event_warn(pool->events, "processes",
		   "put off the analysis of process %d: CPU time for %s spent (%llu ms, limit %llu "
		   "ms per export interval); its new functions stay unnamed meanwhile",
		   budget->pid, stage, (unsigned long long)(spent_ns / NS_PER_MS),
		   (unsigned long long)(limit_of(budget) / NS_PER_MS));
}

static bool is_over(const struct work_pool *pool)
{
	return pool->is_over && pool->is_over(pool->context);
}

bool work_begin(struct work *work, struct work_budget *budget, const char *stage)
{
	*work = (struct work){ 0 };
	if (budget && (budget->is_left_alone || is_over(budget->pool))) {
		work->is_spent = true;
		return false;
	}
	if (budget) {
		renew(budget);
		if (budget->spent_ns >= limit_of(budget)) {
			put_off(budget, stage, budget->spent_ns);
			work->is_spent = true;
			return false;
		}
	}
	*work = (struct work){
		.budget = budget,
		.outer = innermost,
		.stage_before = watchdog_enter(stage, budget ? budget->pid : 0),
		.began_ns = cpu_ns(budget),
		.stage = stage,
		.has_begun = true,
	};
	innermost = work;
	return true;
}

static uint64_t taken_ns(const struct work *work)
{
	uint64_t taken_ns = cpu_ns(work->budget) - work->began_ns;

	return taken_ns > work->inner_ns ? taken_ns - work->inner_ns : 0;
}

// What a payer's processes spend past its share is theirs alone: it takes no room of others.
static void take_of_pool(const struct work_budget *budget, uint64_t ns)
{
	struct work_pool *pool = budget->pool;

	if (!has_room(budget))
		return;
	pool->spent_ns += ns;
	shares_take(&pool->shares, budget->payer, ns);
}

void work_end(struct work *work)
{
	if (!work->has_begun)
		return;
	uint64_t own_ns = taken_ns(work);

	work->has_begun = false;
	innermost = work->outer;
	if (work->outer)
		work->outer->inner_ns += own_ns + work->inner_ns;
	watchdog_leave(work->stage_before);
	if (!work->budget)
		return;
	work->budget->spent_ns += own_ns;
	take_of_pool(work->budget, own_ns);
	if (work->is_spent)
		put_off(work->budget, work->stage, work->budget->spent_ns);
}

static bool has_run_out(const struct work *work)
{
	return work->budget->spent_ns + taken_ns(work) >= limit_of(work->budget) ||
	       is_over(work->budget->pool);
}

bool work_may_go_on(void)
{
	struct work *work = innermost;

	if (work && work->budget && !work->is_spent)
		work->is_spent = has_run_out(work);
	return !work_is_spent();
}

bool work_may_read(void)
{
	struct work *work = innermost;

	if (!work || work->is_spent)
		return !work;
	if (++work->reads > WORK_READS_MAX)
		work->is_spent = true;
	else if (work->budget && work->reads % READS_PER_CHECK == 0)
		work->is_spent = has_run_out(work);
	return !work->is_spent;
}

bool work_is_spent(void)
{
	return innermost && innermost->is_spent;
}

uint64_t work_payer_of(const void *bytes, size_t size)
{
	uint64_t payer = hash64_of(bytes, size);

	return payer && payer != SHARES_SEVERAL ? payer : 1;
}

uint64_t work_payer(void)
{
	return innermost && innermost->budget ? innermost->budget->payer : 0;
}

void work_budget_init(struct work_budget *budget, struct work_pool *pool, uint32_t pid,
		      uint64_t start_ns)
{
	const uint64_t itself[] = { pid, start_ns };

	*budget = (struct work_budget){ .pool = pool,
					.pid = (pid_t)pid,
					.payer = work_payer_of(itself, sizeof(itself)),
					.is_left_alone =
						hung_processes_has(pool->hung, pid, start_ns) };
}

void work_budget_inherit(struct work_budget *budget, const struct work_budget *former)
{
	budget->spent_ns = former->spent_ns;
	budget->interval = former->interval;
	budget->payer = former->payer;
}

void work_pool_renew(struct work_pool *pool)
{
	pool->interval++;
	pool->spent_ns = 0;
	pool->shares.count = 0;
	pool->is_reported = false;
}
