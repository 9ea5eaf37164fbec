// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/verdict.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* Below these nobody waits for the service: a health check now and then. */
#define DEMAND_RUNNING 0.02 // of one core
#define DEMAND_ACTIVE  0.10 // of one thread's time

/* Two classes nearer to each other than this are both named, never one of them picked silently. */
#define AMBIGUOUS_SHARE 0.8

#define SURE_RANGE_NS (30 * NS_PER_SECOND) // shorter ranges show moments
#define SURE_TIMES    2.0                  // a share this many times its threshold is no accident
#define SURE_SHARE    0.75                 // nor is this one, where there cannot be twice as much

/* The profile shows it where LABEL_WAIT is this. */
#define WAIT(class) .has_wait = true, .wait = WAIT_CLASS_##class

/*
 * Starting thresholds. A lock's is above the GIL's because condition variables of worker pools look
 * like locks where their idle loops are not known; a network's above both because waiting for an answer
 * is what a service's thread does while its work is done elsewhere.
 */
static const struct {
	const char *name;
	const char *title;
	double threshold;
	const char *type; // of the profile that shows where
	bool has_wait;    // only a part of it:
	enum wait_class wait;
	const char *advice[4];
} classes[VERDICT_CLASS_COUNT] = {
	[VERDICT_NO_DATA] = {
		.name = "no_data",
		.title = "Nothing was recorded",
		.advice = { "Check the selector and the range.",
			    "/api/v1/status lists the agents that report." },
	},
	[VERDICT_NO_DEMAND] = {
		.name = "no_demand",
		.title = "Nothing to do",
		.advice = { "The threads wait for work: look at who should send it." },
	},
	[VERDICT_NONE] = {
		.name = "none",
		.title = "Nothing stands out",
		.advice = { "Compare with a time when it was faster.",
			    "Select the moment of the spike only: a minute's mean hides it." },
	},
	[VERDICT_AMBIGUOUS] = {
		.name = "ambiguous",
		.title = "More than one thing holds it up",
		.advice = { "Look at each: they are too near to each other to name one." },
	},
	[VERDICT_THROTTLED] = {
		.name = "throttled",
		.title = "Throttled by its CPU quota",
		.threshold = 0.05,
		.type = PROFILE_TYPE_SCHED_DELAY,
		.advice = { "Raise or remove the container's CPU limit; requests alone guarantee a share.",
			    "Or run fewer threads at a time: a burst of many threads uses up a period's "
			    "quota at once." },
	},
	[VERDICT_RUN_QUEUE] = {
		.name = "run_queue",
		.title = "Threads wait for a CPU",
		.threshold = 0.25,
		.type = PROFILE_TYPE_SCHED_DELAY,
		.advice = { "Services that used the CPUs meanwhile: give them less, or another node.",
			    "Fewer runnable threads than CPUs, a CPU request that is larger, or nodes with "
			    "more CPUs." },
	},
	[VERDICT_GIL] = {
		.name = "gil",
		.title = "Threads wait for Python's global interpreter lock",
		.threshold = 0.10,
		.type = PROFILE_TYPE_OFF_CPU,
		WAIT(GIL),
		.advice = { "The Python functions with the most CPU time hold it: make those faster first.",
			    "Processes instead of threads, or native code that releases the lock.",
			    "`cairn dump PID` shows the holder; an agent with --wakers records who released "
			    "it: the profile type Off-wake (wakers)." },
	},
	[VERDICT_LOCK] = {
		.name = "lock",
		.title = "Threads wait for locks",
		.threshold = 0.20,
		.type = PROFILE_TYPE_OFF_CPU,
		WAIT(LOCK),
		.advice = { "The stacks say which lock: hold it for less, or split it.",
			    "`cairn dump PID` shows the holder; an agent with --wakers records who released "
			    "it: the profile type Off-wake (wakers)." },
	},
	[VERDICT_DISK] = {
		.name = "disk",
		.title = "Threads wait for storage",
		.threshold = 0.20,
		.type = PROFILE_TYPE_OFF_CPU,
		WAIT(DISK),
		.advice = { "Read ahead, or keep what is read again in memory.",
			    "Writes that wait for fsync: batch them." },
	},
	[VERDICT_NETWORK] = {
		.name = "network",
		.title = "Threads wait for answers from the network",
		.threshold = 0.40,
		.type = PROFILE_TYPE_OFF_CPU,
		WAIT(NETWORK),
		.advice = { "Look at the service that is asked: its own verdict for the same time.",
			    "Ask in parallel, or ask for more at once." },
	},
	[VERDICT_OTHER_PROCESS] = {
		.name = "other_process",
		.title = "Threads wait for another process",
		.threshold = 0.30,
		.type = PROFILE_TYPE_OFF_CPU,
		WAIT(PIPE),
		.advice = { "The process at the other end of the pipe is the one to look at.",
			    "An agent with --wakers records its stacks: the profile type Off-wake (wakers)." },
	},
	[VERDICT_CPU_PYTHON] = {
		.name = "cpu_python",
		.title = "Python code uses the CPU",
		.threshold = 0.50,
		.type = PROFILE_TYPE_CPU,
		.advice = { "The functions shown are where the time goes.",
			    "Move inner loops to native code, or do them once." },
	},
	[VERDICT_CPU_NATIVE] = {
		.name = "cpu_native",
		.title = "Native code uses the CPU",
		.threshold = 0.50,
		.type = PROFILE_TYPE_CPU,
		.advice = { "The functions shown are where the time goes." },
	},
	[VERDICT_CPU_KERNEL] = {
		.name = "cpu_kernel",
		.title = "The kernel uses the CPU on the service's behalf",
		.threshold = 0.50,
		.type = PROFILE_TYPE_CPU,
		.advice = { "The stacks say which system calls: fewer and larger ones.",
			    "Page faults: memory that is given back and asked for again." },
	},
	[VERDICT_OTHER_WAIT] = {
		.name = "other_wait",
		.title = "Threads wait for something that has no name here",
		.threshold = 0.50,
		.type = PROFILE_TYPE_OFF_CPU,
		WAIT(OTHER),
		.advice = { "The innermost calls of the stacks say for what: a device, a driver, "
			    "another process.",
			    "Where that is a place to wait for work, nothing is wrong." },
	},
};

// ---- shares ---------------------------------------------------------------------------------

/*
 * What is no sign of work: a thread that polls waits for it is unknown what, and one that waits for a child
 * or a thread to end is most often a pool's parent, for as long as the pool is there.
 */
static const bool is_rest[WAIT_CLASS_COUNT] = {
	[WAIT_CLASS_IDLE] = true, [WAIT_CLASS_STOPPED] = true, [WAIT_CLASS_SLEEP] = true,
	[WAIT_CLASS_POLL] = true, [WAIT_CLASS_CHILD] = true,
};

// Time with something to do.
static int64_t active_of(const struct verdict_figures *figures)
{
	int64_t active_ns = figures->running_ns + figures->queued_ns;

	for (int i = 0; i < WAIT_CLASS_COUNT; i++) {
		if (!is_rest[i])
			active_ns += figures->wait_ns[i];
	}
	return active_ns;
}

static void add_share(struct verdict *verdict, enum verdict_class class, int64_t part,
		      int64_t whole)
{
	verdict->shares[verdict->share_count++] = (struct verdict_share){
		.class = class,
		.share = whole > 0 ? (double)part / (double)whole : 0,
		.threshold = classes[class].threshold,
	};
}

static int64_t sampled_cpu_of(const struct verdict_figures *figures)
{
	int64_t sum = 0;

	for (int i = 0; i < CPU_USE_COUNT; i++)
		sum += figures->cpu_ns[i];
	return sum;
}

// The exact running time, divided as the samples divide.
static void add_cpu_shares(struct verdict *verdict, const struct verdict_figures *figures)
{
	static const enum verdict_class class_of_use[CPU_USE_COUNT] = {
		[CPU_USE_PYTHON] = VERDICT_CPU_PYTHON,
		[CPU_USE_NATIVE] = VERDICT_CPU_NATIVE,
		[CPU_USE_KERNEL] = VERDICT_CPU_KERNEL,
	};
	int64_t sampled_ns = sampled_cpu_of(figures);
	int largest = 0;

	for (int i = 1; i < CPU_USE_COUNT; i++) {
		if (figures->cpu_ns[i] > figures->cpu_ns[largest])
			largest = i;
	}
	// All of the CPU's time is the largest user's verdict: that Python calls native code does not make
	// two bottlenecks of one.
	if (sampled_ns)
		add_share(verdict, class_of_use[largest], figures->running_ns, verdict->active_ns);
}

static void add_shares(struct verdict *verdict, const struct verdict_figures *figures)
{
	const int64_t *wait_ns = figures->wait_ns;
	int64_t active_ns = verdict->active_ns;

	add_share(verdict, VERDICT_THROTTLED, figures->throttled_ns,
		  figures->throttled_of_ns ? figures->throttled_of_ns : (int64_t)figures->range_ns);
	add_share(verdict, VERDICT_RUN_QUEUE, figures->queued_ns, active_ns);
	add_share(verdict, VERDICT_GIL, wait_ns[WAIT_CLASS_GIL], active_ns);
	add_share(verdict, VERDICT_LOCK, wait_ns[WAIT_CLASS_LOCK], active_ns);
	add_share(verdict, VERDICT_DISK, wait_ns[WAIT_CLASS_DISK] + wait_ns[WAIT_CLASS_PAGE_FAULT],
		  active_ns);
	add_share(verdict, VERDICT_NETWORK, wait_ns[WAIT_CLASS_NETWORK], active_ns);
	add_share(verdict, VERDICT_OTHER_PROCESS, wait_ns[WAIT_CLASS_PIPE], active_ns);
	add_share(verdict, VERDICT_OTHER_WAIT, wait_ns[WAIT_CLASS_OTHER], active_ns);
	add_cpu_shares(verdict, figures);
}

static bool passes(const struct verdict_share *share)
{
	return share->share >= share->threshold;
}

static int by_falling_share(const void *a, const void *b)
{
	const struct verdict_share *x = a, *y = b;

	if (passes(x) != passes(y))
		return passes(x) ? -1 : 1;
	return (x->share < y->share) - (x->share > y->share);
}

static const struct verdict_share *share_of(const struct verdict *verdict, enum verdict_class class)
{
	for (uint32_t i = 0; i < verdict->share_count; i++) {
		if (verdict->shares[i].class == class)
			return &verdict->shares[i];
	}
	return NULL;
}

static bool has_passed(const struct verdict *verdict, enum verdict_class class)
{
	const struct verdict_share *share = share_of(verdict, class);

	return share && passes(share);
}

static void leave_out(struct verdict *verdict, enum verdict_class class)
{
	for (uint32_t i = 0; i < verdict->share_count; i++) {
		if (verdict->shares[i].class != class)
			continue;
		verdict->shares[i] = verdict->shares[--verdict->share_count];
		return;
	}
}

// One cause shows in more than one figure: only the cause is named.
static void leave_out_effects(struct verdict *verdict)
{
	// A throttled thread is runnable all the while.
	if (has_passed(verdict, VERDICT_THROTTLED))
		leave_out(verdict, VERDICT_RUN_QUEUE);
	// Whoever holds the GIL runs Python code.
	if (has_passed(verdict, VERDICT_GIL))
		leave_out(verdict, VERDICT_CPU_PYTHON);
}

// ---- judging --------------------------------------------------------------------------------

static bool has_demand(const struct verdict *verdict, const struct verdict_figures *figures)
{
	return (double)figures->running_ns >= DEMAND_RUNNING * (double)figures->range_ns ||
	       (double)verdict->active_ns >= DEMAND_ACTIVE * (double)figures->range_ns;
}

static enum verdict_confidence confidence_of(const struct verdict *verdict,
					     const struct verdict_figures *figures)
{
	const struct verdict_share *share = share_of(verdict, verdict->class);

	if (!figures->has_waits || figures->range_ns < SURE_RANGE_NS)
		return CONFIDENCE_LOW;
	if (verdict->class == VERDICT_NO_DEMAND)
		return CONFIDENCE_HIGH;
	if (!share) // ambiguous, or nothing stands out
		return CONFIDENCE_LOW;
	double sure = share->threshold * SURE_TIMES;
	return share->share >= (sure < SURE_SHARE ? sure : SURE_SHARE) ? CONFIDENCE_HIGH
								       : CONFIDENCE_MEDIUM;
}

static enum verdict_class class_of(const struct verdict *verdict,
				   const struct verdict_figures *figures)
{
	if (verdict->active_ns <= 0 && !figures->wait_ns[WAIT_CLASS_IDLE])
		return VERDICT_NO_DATA;
	if (has_passed(verdict, VERDICT_THROTTLED))
		return VERDICT_THROTTLED; // a certain cause, whatever else there is
	if (!has_demand(verdict, figures))
		return VERDICT_NO_DEMAND;
	if (!verdict->passed_count)
		return VERDICT_NONE;
	if (verdict->passed_count > 1 &&
	    verdict->shares[1].share >= AMBIGUOUS_SHARE * verdict->shares[0].share)
		return VERDICT_AMBIGUOUS;
	return verdict->shares[0].class;
}

struct verdict verdict_of(const struct verdict_figures *figures)
{
	struct verdict verdict = { .active_ns = active_of(figures) };

	add_shares(&verdict, figures);
	leave_out_effects(&verdict);
	qsort(verdict.shares, verdict.share_count, sizeof(verdict.shares[0]), by_falling_share);
	while (verdict.passed_count < verdict.share_count &&
	       passes(&verdict.shares[verdict.passed_count]))
		verdict.passed_count++;
	verdict.class = class_of(&verdict, figures);
	verdict.confidence = confidence_of(&verdict, figures);
	return verdict;
}

// ---- words ----------------------------------------------------------------------------------

const char *verdict_class_name(enum verdict_class class)
{
	return classes[class].name;
}

const char *verdict_class_title(enum verdict_class class)
{
	return classes[class].title;
}

const char *const *verdict_class_advice(enum verdict_class class)
{
	_Static_assert(ARRAY_SIZE(classes[0].advice) == 4, "three sentences and the end");

	return classes[class].advice;
}

const char *verdict_confidence_name(enum verdict_confidence confidence)
{
	static const char *const names[] = { "low", "medium", "high" };

	return names[confidence];
}

const char *verdict_class_profile(enum verdict_class class, const char **ret_wait)
{
	*ret_wait = classes[class].has_wait ? wait_class_name(classes[class].wait) : NULL;
	return classes[class].type;
}
