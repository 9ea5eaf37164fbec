/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Captures the stack of a thread that loses its CPU while it is still current. The kernel part starts
// below this program and the scheduler.
#pragma once

#include "bpf/stacks/kernel_stack.bpf.h"
#include "bpf/stacks/pending_returns.bpf.h"
#include "bpf/stacks/registers.h"
#include "bpf/switch/stack_cache.bpf.h"

/* The scheduler's functions: their frames are skipped. Set before load. */
#define SCHEDULER_FUNCTIONS 12

const volatile __u64 scheduler_start[SCHEDULER_FUNCTIONS] = {};
const volatile __u64 scheduler_bytes[SCHEDULER_FUNCTIONS] = {};

/* Leaf frames among which the tracepoint's and the scheduler's are looked for. */
#define SCHEDULER_FRAMES 16

/* One per CPU: switches do not nest. */
struct switch_stack {
	struct count_key key;        // only the thread and its stack
	struct count_key totals_key; // only the thread
	struct switch_context context;
	struct kernel_addresses kernel;
	__u32 kernel_depth;
	__u32 kernel_first; // first frame below the scheduler
	__u64 kernel_words[STACK_CACHE_KERNEL_WORDS];
	struct kernel_return kernel_before[STACK_CACHE_KERNEL_RETURNS]; // of the cache before
	struct stack_work work; // last: it ends in the stack's frames
};

static __always_inline bool is_scheduler(__u64 address)
{
	bool found = false;

#pragma unroll
	for (__u32 i = 0; i < SCHEDULER_FUNCTIONS; i++)
		found |= address - scheduler_start[i] < scheduler_bytes[i];
	return found;
}

/* Leaves in walk->first the frame after the scheduler's last one. */
static long skip_scheduler_frame(__u32 index, struct kernel_walk *walk)
{
	if (index >= SCHEDULER_FRAMES)
		return 1;
	if (is_scheduler(walk->addresses->at[index]))
		walk->first = index + 1;
	return 0;
}

/* Inlined: the verifier knows the context in the program itself only. */
static __always_inline void capture_kernel_addresses(void *ctx, struct switch_stack *stack)
{
	long size = bpf_get_stack(ctx, stack->kernel.at,
				  KERNEL_DEPTH_MAX * sizeof(stack->kernel.at[0]), 0);

	stack->kernel_depth = size > 0 ? (__u32)size / sizeof(stack->kernel.at[0]) : 0;
}

static __always_inline void capture_kernel_stack(struct switch_stack *stack, __u64 now)
{
	struct kernel_walk walk = { .addresses = &stack->kernel };
	__u32 depth = stack->kernel_depth;
	__u32 end = depth == KERNEL_DEPTH_MAX ? STACK_END_DEPTH : STACK_END_COMPLETE;
	__u32 first;

	if (depth > KERNEL_DEPTH_MAX) // for the verifier
		return;
	count_many(COUNTER_KERNEL_FRAMES, depth);
	bpf_loop(depth < SCHEDULER_FRAMES ? depth : SCHEDULER_FRAMES, skip_scheduler_frame, &walk,
		 0);
	stack->kernel_first = first = walk.first;
	if (first >= depth || first > SCHEDULER_FRAMES) {
		stack->key.kernel_leaf = 0;
		stack->key.kernel = (struct stack_hash){};
		return;
	}
	stack->key.kernel_leaf = stack->kernel.at[first];
	stack->key.kernel =
		record_kernel_stack(&stack->work, now, &stack->kernel, stack->key.kernel_leaf,
				    first + 1, depth - first - 1, end);
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct switch_stack);
} switch_stacks SEC(".maps");

_Static_assert(sizeof(struct switch_stack) <= 32768, "the largest value of a per-CPU map");

static __always_inline struct switch_stack *switch_stack_of_cpu(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&switch_stacks, &zero);
}

/* ---- user ------------------------------------------------------------------------------------- */

/* For the verifier: kernel_search_step() knows no size. */
static long find_kernel_word(__u32 index, struct kernel_search *search)
{
	return index < STACK_CACHE_KERNEL_WORDS ? kernel_search_step(index, search) : 1;
}

/* Finds frame @frame's return address on the kernel stack, from word @from up. Returns the next word. */
static __always_inline __u64 cache_kernel_return(struct switch_stack *stack,
						 struct kernel_return *ret_at,
						 const struct kernel_return *before, __u32 frame,
						 __u64 from)
{
	struct kernel_search search = { .words = stack->kernel_words,
					.word_count = STACK_CACHE_KERNEL_WORDS };
	__u64 address = frame < stack->kernel_depth && frame < KERNEL_DEPTH_MAX
				? stack->kernel.at[frame]
				: 0;

	if (!address)
		return from;
	kernel_search_begin(&search, address, before, from);
	bpf_loop(STACK_CACHE_KERNEL_WORDS, find_kernel_word, &search, 0);
	if (!search.next && search.from != from) { // it came here another way
		search.from = from;
		bpf_loop(STACK_CACHE_KERNEL_WORDS, find_kernel_word, &search, 0);
	}
	if (!search.next)
		return from;
	ret_at->address = address;
	ret_at->word = search.next - 1;
	return search.next;
}

/* The cache is empty. A return address that a tracer has replaced is not found and not compared. */
__attribute__((noinline)) int cache_kernel_returns(struct stack_cache *cache)
{
	struct switch_stack *stack = switch_stack_of_cpu();
	__u64 from = 0;

	if (!cache || !stack ||
	    bpf_probe_read_kernel(stack->kernel_words, sizeof(stack->kernel_words),
				  (const void *)stack->context.kernel_at))
		return 0;
#pragma unroll
	for (__u32 i = 0; i < STACK_CACHE_KERNEL_RETURNS; i++)
		from = cache_kernel_return(stack, &cache->kernel[i], &stack->kernel_before[i],
					   stack->kernel_first + i, from);
	return 0;
}

struct caching_walk {
	struct unwind *unwind;
	struct stack_cache *cache;
	__u64 sp;
	__u64 has_python;
};

static long walk_and_cache(__u32 index, struct caching_walk *walk)
{
	long rc = unwind_step(walk->unwind);

	stack_cache_add_return(walk->cache, walk->sp, walk->unwind->registers[REGISTER_SP]);
	walk->has_python |= walk->unwind->in_python;
	return rc;
}

/* Short: a truncated stack may be complete as soon as a table is loaded. */
#define STACK_CACHE_TRUNCATED_NS 200000000ULL
/* Well below STACK_IDLE_NS, after which the agent evicts a stack that is not counted. */
#define STACK_CACHE_NS 20000000000ULL

/* Truncated stacks captured so far: the agent starts a sleepers' pass when it grows. */
__u64 truncated_stacks = 0;

/* With Python, one native stack has many Python stacks: those are compared, too. */
static __always_inline void fill_stack_cache(struct stack_cache *cache,
					     struct switch_context *context,
					     const struct unwind *unwind, bool has_python,
					     __u64 now)
{
	bool is_whole = unwind->end == STACK_END_COMPLETE || unwind->end == STACK_END_DEPTH;

	cache->until_ns = 0;
	cache->is_truncated = !is_whole;
	truncated_stacks += cache->is_truncated;
	if (!context->call || !read_stack_words(context, STACK_CACHE_WORDS))
		return;
	if (has_python) {
		if (!find_python_frames(&context->python, unwind))
			return;
		cache->python = context->python.of;
	}
	cache->pc = context->pc;
	cache->sp = context->sp;
	cache->fp = context->fp;
	cache->call = context->call;
	cache->exec_id = unwind->process.key.exec_id;
	cache->returns = hash_returns(cache, context);
	cache->until_ns = now + (is_whole ? STACK_CACHE_NS : STACK_CACHE_TRUNCATED_NS);
}

static __always_inline void capture_user_stack(struct switch_stack *stack,
					       struct stack_cache *cache, struct task_struct *task,
					       __u64 now)
{
	struct unwind *unwind = &stack->work.unwind;
	struct caching_walk walk = { .unwind = unwind, .cache = cache, .sp = stack->context.sp };
	bool is_64_bit;

	stack_cache_clear(cache);
	find_unwind_process(unwind, &stack->key.process);
	unwind->thread_pointer = thread_pointer_of(task);
	note_pending_returns(unwind, task);
	is_64_bit = registers_of_user(unwind, task);
	if (begin_user_stack(unwind, is_64_bit))
		bpf_loop(UNWIND_STEPS_MAX, walk_and_cache, &walk, 0);
	end_user_stack(unwind);
	record_user_stack(&stack->work, now, task->group_leader->comm, &stack->key);
	fill_stack_cache(cache, &stack->context, unwind, walk.has_python, now);
	// The ring was full: the next capture sends the stack again.
	if (!stack_is_sent(&stack->key.user) || !stack_is_sent(&stack->key.kernel))
		cache->until_ns = 0;
}

static __always_inline void key_of_thread(struct task_struct *task, struct count_key *key)
{
	struct task_struct *leader = task->group_leader;

	key->process.pid = task->tgid;
	key->process.exec_id = leader->self_exec_id;
	key->process.start_ns = leader->start_boottime;
	bpf_probe_read_kernel(key->thread_name, sizeof(key->thread_name), task->comm);
}

/* Leaves the current thread's stack in switch_stack_of_cpu()->key. Kernel addresses are captured. */
__attribute__((noinline)) int capture_stack(struct stack_cache *cache, __u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct switch_stack *stack = switch_stack_of_cpu();

	if (!cache || !stack)
		return 0;
	key_of_thread(task, &stack->key);
	capture_kernel_stack(stack, now);
#pragma unroll
	for (__u32 i = 0; i < STACK_CACHE_KERNEL_RETURNS; i++)
		stack->kernel_before[i] = cache->kernel[i];
	capture_user_stack(stack, cache, task, now);
	cache_kernel_returns(cache);
	return 0;
}
