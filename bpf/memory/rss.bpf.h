/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// How many pages a process has in memory, as the kernel keeps it, read twice around something that
// one of its threads does: the difference is that thread's, as far as the kernel keeps it apart.
#pragma once

#include "bpf/kernel.h"
#include "bpf/memory/percpu_offset.bpf.h"

/* include/linux/mm_types_task.h: pages of files, anonymous ones, swapped-out ones, shared memory. */
#define MM_FILEPAGES  0
#define MM_ANONPAGES  1
#define MM_SHMEMPAGES 3
#define MM_COUNTERS   4

/* The smallest amount that a counter's CPU hands on to all (percpu_counter_batch's minimum). */
#define PERCPU_BATCH_MIN 32
/* Base pages of a huge page (x86-64, and aarch64 with pages of 4 KiB). */
#define HUGE_PAGES 512

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Since 6.2: what a CPU added lies on that CPU until it is a batch. */
struct percpu_counter {
	__s64 count;
	__s32 *counters; // see percpu_offset()
};

struct mm_struct___percpu {
	struct percpu_counter rss_stat[MM_COUNTERS];
};

/* Before: what a thread added lies with that thread until it has had 64 faults; huge pages do not. */
struct mm_rss_stat {
	struct {
		__s64 counter;
	} count[MM_COUNTERS];
};

struct mm_struct___atomic {
	struct mm_rss_stat rss_stat;
};

struct task_rss_stat {
	int count[MM_COUNTERS];
};

struct task_struct___rss {
	struct task_rss_stat rss_stat;
};

/* Pages of hugetlbfs are in none of these; in base pages. */
struct mm_struct___hugetlb {
	struct {
		__s64 counter;
	} hugetlb_usage;
};

#pragma clang attribute pop

/* In pages. The process has shared + the local parts of all its CPUs or threads. */
struct rss {
	__s64 shared;
	__s64 local; // of this CPU; before 6.2 of this thread
	__s64 hugetlb;
	__u32 cpu;
	__u32 is_known; // false: this kernel keeps it in a way that we do not know
};

static __always_inline __s64 read_local(__s32 *const *counters, __u64 offset)
{
	__s32 *of_no_cpu = NULL, value = 0;

	bpf_probe_read_kernel(&of_no_cpu, sizeof(of_no_cpu), counters);
	bpf_probe_read_kernel(&value, sizeof(value), (const void *)of_no_cpu + offset);
	return value;
}

static __always_inline bool is_percpu_rss(struct task_struct *task)
{
	const struct mm_struct___percpu *mm = (void *)task->mm;

	return bpf_core_field_exists(mm->rss_stat[0].count);
}

static __always_inline bool is_atomic_rss(struct task_struct *task)
{
	const struct mm_struct___atomic *mm = (void *)task->mm;

	return bpf_core_field_exists(mm->rss_stat.count);
}

/* Pages that the process has for sure: what huge pages add is here at once. Takes no time. */
static __always_inline __s64 read_shared_rss(struct task_struct *task)
{
	const struct mm_struct___percpu *percpu = (void *)task->mm;
	const struct mm_struct___atomic *atomic = (void *)task->mm;

	if (is_percpu_rss(task))
		return percpu->rss_stat[MM_FILEPAGES].count + percpu->rss_stat[MM_ANONPAGES].count +
		       percpu->rss_stat[MM_SHMEMPAGES].count;
	// By the helper: 6.1's verifier does not look through the name of an array's elements.
	if (is_atomic_rss(task))
		return BPF_CORE_READ(atomic, rss_stat.count[MM_FILEPAGES].counter) +
		       BPF_CORE_READ(atomic, rss_stat.count[MM_ANONPAGES].counter) +
		       BPF_CORE_READ(atomic, rss_stat.count[MM_SHMEMPAGES].counter);
	return 0;
}

/* Pages that lie with this CPU, or before 6.2 with this thread. */
static __always_inline __s64 read_local_rss(struct task_struct *task)
{
	const struct mm_struct___percpu *mm = (void *)task->mm;
	const struct task_struct___rss *own = (void *)task;
	__u64 offset;

	// Each place is spelled out: only a constant index is moved to where the kernel has it.
	if (is_percpu_rss(task)) {
		offset = percpu_offset();
		if (!offset)
			return 0;
		return read_local(&mm->rss_stat[MM_FILEPAGES].counters, offset) +
		       read_local(&mm->rss_stat[MM_ANONPAGES].counters, offset) +
		       read_local(&mm->rss_stat[MM_SHMEMPAGES].counters, offset);
	}
	if (bpf_core_field_exists(own->rss_stat))
		return own->rss_stat.count[MM_FILEPAGES] + own->rss_stat.count[MM_ANONPAGES] +
		       own->rss_stat.count[MM_SHMEMPAGES];
	return 0;
}

/* @task is the current one, and has an mm. */
static __always_inline struct rss read_rss(struct task_struct *task)
{
	const struct mm_struct___hugetlb *hugetlb = (void *)task->mm;
	struct rss rss = {
		.shared = read_shared_rss(task),
		.local = read_local_rss(task),
		.cpu = bpf_get_smp_processor_id(),
		.is_known = is_percpu_rss(task) || is_atomic_rss(task),
	};

	if (bpf_core_field_exists(hugetlb->hugetlb_usage))
		rss.hugetlb = BPF_CORE_READ(hugetlb, hugetlb_usage.counter);
	return rss;
}

/*
 * Was it this thread that made the shared part grow by a huge page, or another one of the process?
 * What this CPU had for itself was handed on together with it.
 */
static __always_inline bool is_own_huge_page(struct task_struct *task, bool is_alone)
{
	const struct mm_struct___percpu *mm = (void *)task->mm;
	__u64 offset;

	if (is_alone || !is_percpu_rss(task))
		return true;
	offset = percpu_offset();
	return !offset || !read_local(&mm->rss_stat[MM_ANONPAGES].counters, offset);
}

/*
 * Pages that came into memory between the two, by one page fault of the current thread; 0 if it only
 * changed what was there. Other threads add to the shared part meanwhile, but in batches: an amount
 * that no fault can have is theirs.
 */
static __always_inline __s64 rss_growth(const struct rss *before, const struct rss *after,
					bool is_alone)
{
	__s64 shared = after->shared - before->shared, local = after->local - before->local;
	__s64 sum = shared + local;

	if (after->hugetlb > before->hugetlb)
		return after->hugetlb - before->hugetlb;
	if (before->cpu != after->cpu)
		// What lies on the other CPU is out of reach.
		return shared >= HUGE_PAGES / 2 ? HUGE_PAGES : 1;
	if (is_alone)
		return sum > 0 ? sum : 0;
	if (local > 0)
		return local;
	if (sum >= HUGE_PAGES)
		return HUGE_PAGES;
	if (!local)
		return 0;
	// This CPU's part was handed on just now, and others' may have been, too.
	return sum > 0 && sum < PERCPU_BATCH_MIN ? sum : 1;
}
