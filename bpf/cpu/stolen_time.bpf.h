/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Time in which a hypervisor let somebody else have this CPU. It looks like time of whichever thread
// was running; the scheduler leaves it out of what threads have run, and so out of what top shows.
#pragma once

#include "bpf/kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* A CPU's queue, kernel/sched/sched.h. update_rq_clock_task() in core.c moves the three on, together. */
struct rq {
	__u64 clock;
	__u64 clock_task;    // the same without interrupts, where they are counted, and stolen time
	__u64 prev_irq_time; // what was left out for interrupts, with CONFIG_IRQ_TIME_ACCOUNTING
};

/* With CONFIG_FAIR_GROUP_SCHED. Every task has one, whatever class it is of. */
struct cfs_rq {
	struct rq *rq;
};

#pragma clang attribute pop

/*
 * What was stolen so far from the CPU that @task, the current one, runs on, in ns, as of the scheduler's
 * last look: some ms ago at most. Only differences mean something. 0 where the kernel does not say.
 */
static __always_inline __u64 stolen_ns(struct task_struct *task)
{
	struct rq *rq;
	__u64 stolen;

	if (!bpf_core_field_exists(task->se.cfs_rq) || !bpf_core_field_exists(struct cfs_rq, rq))
		return 0;
	rq = task->se.cfs_rq->rq;
	stolen = rq->clock - rq->clock_task;
	if (bpf_core_field_exists(rq->prev_irq_time))
		stolen -= rq->prev_irq_time;
	return stolen;
}
