/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Steal time: a hypervisor ran somebody else on this CPU. A timer sees it as time of the running thread; the
// scheduler leaves it out of a thread's CPU time, and so does top.
#pragma once

#include "bpf/kernel.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* kernel/sched/sched.h. update_rq_clock_task() updates the three clocks together. */
struct rq {
	__u64 clock;
	__u64 clock_task;    // without steal time, and without interrupts where these are counted
	__u64 prev_irq_time; // the part left out for interrupts, with CONFIG_IRQ_TIME_ACCOUNTING
};

/* With CONFIG_FAIR_GROUP_SCHED. Every task has one, whatever its class. */
struct cfs_rq {
	struct rq *rq;
};

#pragma clang attribute pop

/*
 * Steal time of the CPU of @task (the current one) so far, in ns, as of the scheduler's last update some ms
 * ago. Only differences mean something. 0 where the kernel does not count it.
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
