/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// RSS of a process by the kernel's own counters. Read before and after a page fault, the difference is the
// fault's, as far as the kernel counts threads apart.
#pragma once

#include "bpf/kernel.h"
#include "bpf/memory/percpu_offset.bpf.h"

/* include/linux/mm_types_task.h */
#define MM_FILEPAGES  0
#define MM_ANONPAGES  1
#define MM_SHMEMPAGES 3
#define MM_COUNTERS   4

/* Minimum of percpu_counter_batch: the least that a CPU adds to the shared count. */
#define PERCPU_BATCH_MIN 32
/* Base pages of a huge page (x86-64, and aarch64 with 4 KiB pages). */
#define HUGE_PAGES 512

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Since 6.2: a CPU keeps what it adds until it is a batch. */
struct percpu_counter {
	__s64 count;
	__s32 *counters; // base pointer, see percpu_offset()
};

struct mm_struct___percpu {
	struct percpu_counter rss_stat[MM_COUNTERS];
};

/* Before 6.2: a thread keeps what it adds for 64 faults; huge pages are added at once. */
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

/* hugetlbfs pages are in none of these. In base pages. */
struct mm_struct___hugetlb {
	struct {
		__s64 counter;
	} hugetlb_usage;
};

#pragma clang attribute pop

/* In pages. RSS is shared + the local parts of all CPUs or threads. */
struct rss {
	__s64 shared;
	__s64 local; // of this CPU; before 6.2, of this thread
	__s64 hugetlb;
	__u32 cpu;
	__u32 is_known; // false: unknown kind of counters
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

/* The shared part: huge pages show up here at once. Cheap. */
static __always_inline __s64 read_shared_rss(struct task_struct *task)
{
	const struct mm_struct___percpu *percpu = (void *)task->mm;
	const struct mm_struct___atomic *atomic = (void *)task->mm;

	if (is_percpu_rss(task))
		return percpu->rss_stat[MM_FILEPAGES].count + percpu->rss_stat[MM_ANONPAGES].count +
		       percpu->rss_stat[MM_SHMEMPAGES].count;
	// By helper: 6.1's verifier does not see through the array's element type.
	if (is_atomic_rss(task))
		return BPF_CORE_READ(atomic, rss_stat.count[MM_FILEPAGES].counter) +
		       BPF_CORE_READ(atomic, rss_stat.count[MM_ANONPAGES].counter) +
		       BPF_CORE_READ(atomic, rss_stat.count[MM_SHMEMPAGES].counter);
	return 0;
}

/* The local part of this CPU, or before 6.2 of this thread. */
static __always_inline __s64 read_local_rss(struct task_struct *task)
{
	const struct mm_struct___percpu *mm = (void *)task->mm;
	const struct task_struct___rss *own = (void *)task;
	__u64 offset;

	// Written out: CO-RE relocates constant indices only.
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
 * Did this thread add the huge page to the shared part, or another thread of the process? This CPU's local
 * part is flushed together with it.
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
 * Pages that one fault of the current thread added; 0 if it only replaced some. Other threads add to the
 * shared part in batches meanwhile: an amount that no fault can add is theirs.
 */
static __always_inline __s64 rss_growth(const struct rss *before, const struct rss *after,
					bool is_alone)
{
	__s64 shared = after->shared - before->shared, local = after->local - before->local;
	__s64 sum = shared + local;

	if (after->hugetlb > before->hugetlb)
		return after->hugetlb - before->hugetlb;
	if (before->cpu != after->cpu)
		// The other CPU's local part is out of reach.
		return shared >= HUGE_PAGES / 2 ? HUGE_PAGES : 1;
	if (is_alone)
		return sum > 0 ? sum : 0;
	if (local > 0)
		return local;
	if (sum >= HUGE_PAGES)
		return HUGE_PAGES;
	if (!local)
		return 0;
	// This CPU's local part was flushed just now; others' may have been, too.
	return sum > 0 && sum < PERCPU_BATCH_MIN ? sum : 1;
}
