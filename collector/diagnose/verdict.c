// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/verdict.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/saturating.h"

/* Below these there is no demand, only a health check now and then. */
#define DEMAND_RUNNING 0.02 // of one core
#define DEMAND_ACTIVE  0.10 // of one thread's time

/* If the second share is at least this part of the largest, both classes are named. */
#define AMBIGUOUS_SHARE 0.8

#define SURE_RANGE_NS (30 * NS_PER_SECOND) // a shorter range gives low confidence
#define SURE_TIMES    2.0  // high confidence: the share is so many times its threshold,
#define SURE_SHARE    0.75 // or at least this

#define HOLDER_ADVICE                                                                              \
	"`cairn dump PID` shows the current holder. Agents with --wakers record the threads that " \
	"released it: the profile type Off-wake (wakers)."

/* The stacks with this LABEL_WAIT show the class. */
#define WAIT(class) .has_wait = true, .wait = WAIT_CLASS_##class

/*
 * Thresholds are from experience. That of locks is above the GIL's: an unknown idle loop of a worker pool
 * looks like a lock. That of the network is above both: a thread waits for replies while another service
 * does the work.
 */
static const struct {
	const char *name;
	const char *title;
	double threshold;
	const char *type; // of the profile that shows the stacks
	bool has_wait;    // only those with:
	enum wait_class wait;
	const char *advice[4];
} classes[VERDICT_CLASS_COUNT] = {
	[VERDICT_NO_DATA] = {
		.name = "no_data",
		.title = "No data",
		.advice = { "Check the selector and the range.",
			    "/api/v1/status shows how many agents report." },
	},
	[VERDICT_NO_DEMAND] = {
		.name = "no_demand",
		.title = "No demand: threads are idle",
		.advice = { "Diagnose the service that calls this one: the threads here wait for its requests." },
	},
	[VERDICT_NONE] = {
		.name = "none",
		.title = "No bottleneck stands out",
		.advice = { "Compare with a time when the service was faster.",
			    "For a spike, select its seconds only: a minute averages it away." },
	},
	[VERDICT_AMBIGUOUS] = {
		.name = "ambiguous",
		.title = "More than one bottleneck",
		.advice = { "Check each: their shares are too close to name one." },
	},
	[VERDICT_THROTTLED] = {
		.name = "throttled",
		.title = "CPU throttling: the quota is used up",
		.threshold = 0.05,
		.type = PROFILE_TYPE_SCHED_DELAY,
		.advice = { "Raise or remove the container's CPU limit; a CPU request alone guarantees a "
			    "share.",
			    "Or run fewer threads at a time: a burst uses up the quota of a period at "
			    "once." },
	},
	[VERDICT_RUN_QUEUE] = {
		.name = "run_queue",
		.title = "Run queue: high run-queue latency",
		.threshold = 0.25,
		.type = PROFILE_TYPE_SCHED_DELAY,
		.advice = { "Limit the services that use the CPUs, or move them to another node.",
			    "Run fewer threads than CPUs, request more CPU, or use nodes with more CPUs." },
	},
	[VERDICT_GIL] = {
		.name = "gil",
		.title = "GIL: threads wait for Python's global interpreter lock",
		.threshold = 0.10,
		.type = PROFILE_TYPE_OFF_CPU,
		WAIT(GIL),
		.advice = { "Find functions with much CPU time that do not release the GIL, and optimize those.",
			    "Use processes instead of threads, or native code that releases the GIL.",
			    HOLDER_ADVICE },
	},
	[VERDICT_LOCK] = {
		.name = "lock",
		.title = "Lock contention: threads wait for locks",
		.threshold = 0.20,
		.type = PROFILE_TYPE_OFF_CPU,
		WAIT(LOCK),
		.advice = { "Hold the lock for less time, or split it: the stacks show who takes it.",
			    HOLDER_ADVICE },
	},
	[VERDICT_DISK] = {
		.name = "disk",
		.title = "Storage: threads wait for I/O",
		.threshold = 0.20,
		.type = PROFILE_TYPE_OFF_CPU,
		WAIT(DISK),
		.advice = { "Read ahead, or cache in memory what is read again.",
			    "Batch writes that wait for fsync." },
	},
	[VERDICT_NETWORK] = {
		.name = "network",
		.title = "Network: threads wait for replies",
		.threshold = 0.40,
		.type = PROFILE_TYPE_OFF_CPU,
		WAIT(NETWORK),
		.advice = { "Diagnose the called service for the same time.",
			    "Send requests in parallel, or request more at once." },
	},
	[VERDICT_OTHER_PROCESS] = {
		.name = "other_process",
		.title = "Other process: threads wait on pipes",
		.threshold = 0.30,
		.type = PROFILE_TYPE_OFF_CPU,
		WAIT(PIPE),
		.advice = { "Diagnose the process at the other end of the pipe.",
			    "Agents with --wakers record its stacks: the profile type Off-wake (wakers)." },
	},
	[VERDICT_CPU_PYTHON] = {
		.name = "cpu_python",
		.title = "CPU: Python code",
		.threshold = 0.50,
		.type = PROFILE_TYPE_CPU,
		.advice = { "Move its inner loop to native code (NumPy, Cython), or cache its result.",
			    "`cairn record --pid PID` shows its lines: what is hot within it?" },
	},
	[VERDICT_CPU_NATIVE] = {
		.name = "cpu_native",
		.title = "CPU: native code",
		.threshold = 0.50,
		.type = PROFILE_TYPE_CPU,
		.advice = { "Use a library built for this CPU, a smaller data type, or an algorithm that "
			    "does less.",
			    "Compare with a version or a day on which it was cheaper." },
	},
	[VERDICT_CPU_KERNEL] = {
		.name = "cpu_kernel",
		.title = "CPU: kernel code",
		.threshold = 0.50,
		.type = PROFILE_TYPE_CPU,
		.advice = { "Make fewer and larger system calls: the stacks show which.",
			    "For page faults, reuse memory instead of freeing and allocating it again." },
	},
	[VERDICT_OTHER_WAIT] = {
		.name = "other_wait",
		.title = "Other blocked time",
		.threshold = 0.50,
		.type = PROFILE_TYPE_OFF_CPU,
		WAIT(OTHER),
		.advice = { "Find out what the innermost frames wait for: a device, a driver, another process.",
			    "If the threads wait for work there, nothing is wrong." },
	},
};

// ---- shares ---------------------------------------------------------------------------------

/*
 * Blocked time without work to do. What a polling thread waits for is unknown; a thread that waits for
 * children or threads is most often the parent of a worker pool.
 */
static const bool is_idle[WAIT_CLASS_COUNT] = {
	[WAIT_CLASS_IDLE] = true, [WAIT_CLASS_STOPPED] = true, [WAIT_CLASS_SLEEP] = true,
	[WAIT_CLASS_POLL] = true, [WAIT_CLASS_CHILD] = true,
};

// Time in which threads had work to do.
static int64_t active_of(const struct verdict_figures *figures)
{
	int64_t active_ns = add_saturating(figures->running_ns, figures->queued_ns);

	for (int i = 0; i < WAIT_CLASS_COUNT; i++) {
		if (!is_idle[i])
			add_to_saturating(&active_ns, figures->wait_ns[i]);
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
		add_to_saturating(&sum, figures->cpu_ns[i]);
	return sum;
}

// All running time is one share, of the largest user by samples: a Python service that calls native
// code has one bottleneck, not two.
static void add_cpu_share(struct verdict *verdict, const struct verdict_figures *figures)
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
	add_share(verdict, VERDICT_DISK,
		  add_saturating(wait_ns[WAIT_CLASS_DISK], wait_ns[WAIT_CLASS_PAGE_FAULT]),
		  active_ns);
	add_share(verdict, VERDICT_NETWORK, wait_ns[WAIT_CLASS_NETWORK], active_ns);
	add_share(verdict, VERDICT_OTHER_PROCESS, wait_ns[WAIT_CLASS_PIPE], active_ns);
	add_share(verdict, VERDICT_OTHER_WAIT, wait_ns[WAIT_CLASS_OTHER], active_ns);
	add_cpu_share(verdict, figures);
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

// A cause shows in several figures: drop its effects.
static void leave_out_effects(struct verdict *verdict)
{
	// A throttled thread is runnable.
	if (has_passed(verdict, VERDICT_THROTTLED))
		leave_out(verdict, VERDICT_RUN_QUEUE);
	// The holder of the GIL runs Python code.
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

	if (!figures->has_wall_clock || figures->range_ns < SURE_RANGE_NS)
		return CONFIDENCE_LOW;
	if (verdict->class == VERDICT_NO_DEMAND)
		return CONFIDENCE_HIGH;
	if (!share) // ambiguous, or none
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
		return VERDICT_THROTTLED; // certain, whatever the other shares
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

// ---- names and texts ------------------------------------------------------------------------

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
