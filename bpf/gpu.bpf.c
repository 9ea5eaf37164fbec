// SPDX-License-Identifier: GPL-2.0-only
// Calls of a GPU's driver, by the stack that makes them: kernels and graphs launched, waits, copies, memory.
// The programs run at the driver's functions, which the agent finds and probes (agent/gpu_probes.h); a
// probe's cookie says which function it is (gpu_call.h). In a storm of calls every n-th is counted for
// those before it.

#include "gpu_handles.bpf.h"
#include "gpu_idle_state.bpf.h"
#include "gpu_kernels.bpf.h"
#include "gpu_memory.bpf.h"
#include "gpu_stack.bpf.h"
#include "nccl.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before load. */
const volatile __u64 gpu_wait_ns_min = 10000; // a shorter wait is none: the work was done already
const volatile bool gpu_keep_calls = false;   // for tests

/*
 * Set at any time, of probes that are always there: GPU_CALL_GENERATION or 0. Before some are taken away all that
 * stay are attached a second time, and hardly a call is missed or counted twice meanwhile.
 */
__u32 gpu_generation = 0;

static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	return bpf_probe_read_user(to, size, (const void *)address);
}

/* What the last probe has read of its call. For tests. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gpu_call_record);
} gpu_last_call SEC(".maps");

static __always_inline void keep_call(const struct gpu_call_record *record)
{
	__u32 zero = 0;

	if (gpu_keep_calls)
		bpf_map_update_elem(&gpu_last_call, &zero, record, BPF_ANY);
}

/* ---- which calls are counted ------------------------------------------------------------------ */

enum gpu_pace { GPU_PACE_LAUNCHES, GPU_PACE_OTHERS, GPU_PACE_COUNT };

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, GPU_PACE_COUNT);
	__type(key, __u32);
	__type(value, struct pace);
} gpu_paces SEC(".maps");

/* For how many calls the stack of this one stands; 0: it is not to be taken. */
static __always_inline __u32 choose_call(__u32 which)
{
	struct pace *pace = bpf_map_lookup_elem(&gpu_paces, &which);

	return pace ? pace_choose(pace, gpu_stacks_per_second, COUNTER_GPU_UNCHARGED) : 0;
}

static __always_inline bool is_wanted(void)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	return !only_followed || bpf_map_lookup_elem(&followed, &pid);
}

/* How often programs ran for each kind of call, entries and returns: what the probes cost. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, GPU_CALL_COUNT);
	__type(key, __u32);
	__type(value, __u64);
} gpu_hits SEC(".maps");

static __always_inline void count_hit(__u64 cookie)
{
	__u32 call = gpu_cookie_call(cookie);
	__u64 *hits = bpf_map_lookup_elem(&gpu_hits, &call);

	if (hits)
		*hits += 1;
}

/*
 * For how many calls one of this probe stands; 0: it came outside of the window, or there is another probe
 * at the same place that counts.
 */
static __always_inline __u32 window_weight(__u64 cookie, __u64 now)
{
	const volatile struct gpu_window *window = &gpu_window;
	__u32 generation = *(const volatile __u32 *)&gpu_generation;
	__u32 flags = gpu_cookie_flags(cookie), call = gpu_cookie_call(cookie);

	if (!(flags & GPU_CALL_WINDOWED))
		return (call >= GPU_CALL_STEADY_FIRST && call <= GPU_CALL_STEADY_LAST) ||
		       (flags & GPU_CALL_GENERATION) == generation;
	return now >= window->begin_ns && now < window->end_ns ? window->weight : 0;
}

/* ---- counting --------------------------------------------------------------------------------- */

static __always_inline void begin_key(struct gpu_work *work, __u64 now)
{
	struct count_key *key = &work->key;

	__builtin_memset(key, 0, sizeof(*key));
	key_of_current(bpf_get_current_task_btf(), now, key);
	work->device.tag = 0;
	work->may_hand_over = 0;
}

/* With its stack, of which the registers are there. */
static __always_inline void count_with_stack(struct gpu_work *work, __u64 now, __u32 kind,
					     __u64 value, __u64 samples)
{
	work->key.kind = kind;
	work->value = value;
	work->may_hand_over = 1;
	if (!take_gpu_stack(work->number, now))
		add_count(&work->key, value, samples);
}

static __always_inline void own_stack(const struct gpu_work *work, struct gpu_owner *owner)
{
	owner->process = work->key.process;
	__builtin_memcpy(owner->thread_name, work->key.thread_name, sizeof(owner->thread_name));
	owner->user = work->key.user;
	owner->leaf = work->key.user_leaf;
}

/* ---- launches --------------------------------------------------------------------------------- */

static __always_inline void launch(struct gpu_work *work, gpu_context *ctx, __u64 cookie, __u64 now,
				   __u64 weight)
{
	begin_key(work, now);
	read_arguments(ctx, &work->arguments);
	read_call(ctx, cookie, &work->arguments, &work->call);
	keep_call(&work->call);
	work->device = frame_of_function(&work->key.process, work->call.handle);
	work->entry_pc = pc_of(ctx);
	take_registers(work, ctx, return_address_at_entry(ctx), true);
	count_with_stack(work, now, SAMPLE_KIND_GPU_LAUNCH, weight, weight);
}

SEC("uprobe")
int gpu_launch_begins(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now = bpf_ktime_get_ns();
	__u32 of_window = window_weight(cookie, now), weight;
	struct gpu_work *work;

	count_hit(cookie);
	if (!of_window || !is_wanted())
		return 0;
	count(COUNTER_GPU_LAUNCHES);
	gpu_idle_enqueue(stream_of_launch((gpu_context *)ctx, cookie), now);
	weight = choose_call(GPU_PACE_LAUNCHES);
	if (!weight)
		return 0;
	work = claim_gpu_work();
	if (!work)
		return 0;
	launch(work, (gpu_context *)ctx, cookie, now, (__u64)weight * of_window);
	release_gpu_work(work);
	return 0;
}

/* ---- calls that are followed to their end ----------------------------------------------------- */

#define GPU_CALLS_WITHIN 4

/* A call that has not returned. */
struct open_call {
	__u64 place; // of its return address; on aarch64 sp at its entry
	__u64 began_ns;
	__u64 cookie;
	__u64 entry_pc;
	__u64 return_address;
	__u64 arguments[4];
	__u64 bytes;
	__u64 kind;   // of a copy: enum sample_kind
	__u64 weight; // calls that it stands for
};

struct open_calls {
	__u64 count;
	struct open_call at[GPU_CALLS_WITHIN]; // the outermost first
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct open_calls);
} gpu_open_calls SEC(".maps");

static __always_inline struct open_calls *open_calls_of_thread(__u64 flags)
{
	return bpf_task_storage_get(&gpu_open_calls, bpf_get_current_task_btf(), NULL, flags);
}

/* Those that lie deeper have ended otherwise: an exception, a longjmp(). */
static __always_inline void drop_left_calls(struct open_calls *calls, __u64 place)
{
	__u64 left = 0;

#pragma unroll
	for (__u32 i = 0; i < GPU_CALLS_WITHIN; i++)
		left += i < calls->count && calls->at[i].place > place;
	calls->count = left;
}

static __always_inline void open_call(struct gpu_work *work, gpu_context *ctx, __u64 cookie,
				      __u64 now, __u32 kind)
{
	struct open_calls *calls = open_calls_of_thread(BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u64 place = GPU_STACK(ctx), at;
	struct open_call *call;

	if (!calls)
		return;
	drop_left_calls(calls, place);
	at = calls->count;
	if (at >= GPU_CALLS_WITHIN) {
		count(COUNTER_GPU_NESTED);
		return;
	}
	call = &calls->at[at];
	call->place = place;
	call->began_ns = now;
	call->cookie = cookie;
	call->entry_pc = pc_of(ctx);
	call->return_address = return_address_at_entry(ctx);
	__builtin_memcpy(call->arguments, work->arguments.at, sizeof(call->arguments));
	call->bytes = work->call.bytes;
	call->kind = kind;
	call->weight = work->weight;
	calls->count = at + 1;
}

/* The one that returns now; NULL: its beginning was not seen. */
static __always_inline struct open_call *close_call(gpu_context *ctx)
{
	struct open_calls *calls = open_calls_of_thread(0);
	struct open_call *found = NULL;
	__u64 place = GPU_STACK(ctx);

#if defined(__TARGET_ARCH_x86)
	place -= sizeof(place);
#endif
	if (!calls)
		return NULL;
	for (__u32 i = 0; i < GPU_CALLS_WITHIN; i++) {
		if (i >= calls->count || calls->at[i].place != place)
			continue;
		found = &calls->at[i];
		calls->count = i;
		break;
	}
	return found;
}

/* ---- entries ---------------------------------------------------------------------------------- */

/* Told at once: nothing of it is known later that is not known now. */
static __always_inline void count_at_entry(struct gpu_work *work, gpu_context *ctx, __u64 now,
					   __u32 kind, __u64 value)
{
	__u64 weight = choose_call(GPU_PACE_OTHERS) * work->weight;

	if (!weight)
		return;
	work->entry_pc = pc_of(ctx);
	take_registers(work, ctx, return_address_at_entry(ctx), true);
	count_with_stack(work, now, kind, value * weight, weight);
}

/* By the stack that captured the graph: it has launched what is launched again now. */
static __always_inline void launch_graph(struct gpu_work *work, gpu_context *ctx, __u64 now)
{
	const struct gpu_owner *owner =
		find_graph(&work->key.process, GPU_HANDLE_GRAPH_EXEC, work->call.handle);

	if (!owner) {
		count_at_entry(work, ctx, now, SAMPLE_KIND_GPU_GRAPH, 1);
		return;
	}
	work->key.kind = SAMPLE_KIND_GPU_GRAPH;
	work->key.user = owner->user;
	work->key.user_leaf = owner->leaf;
	add_count(&work->key, work->weight, work->weight);
}

static __always_inline void free_memory(struct gpu_work *work)
{
	struct gpu_key key = { work->key.process, work->call.to, GPU_HANDLE_MEMORY };

	free_allocation(&key);
	remove_range(&work->key.process, GPU_RANGE_DEVICE, key.handle);
}

/* What is freed is freed before the call returns: another thread may be given it by then. */
static __always_inline void begin_call(struct gpu_work *work, gpu_context *ctx, __u64 cookie,
				       __u64 now)
{
	const struct process_key *process = &work->key.process;
	__u32 kind = 0;

	switch (work->call.call) {
	case GPU_CALL_GRAPH_LAUNCH:
		launch_graph(work, ctx, now);
		return;
	case GPU_CALL_LAUNCH_HOST_FUNC:
		count_at_entry(work, ctx, now, SAMPLE_KIND_GPU_LAUNCH, 1);
		return;
	case GPU_CALL_TOLD_LAUNCH:
		keep_told_launch(work, ctx, now);
		return;
	case GPU_CALL_GRAPH_EXEC_DESTROY:
		forget_graph(process, work->call.handle);
		return;
	case GPU_CALL_CONTEXT:
		gpu_idle_context(work->call.handle);
		return;
	case GPU_CALL_ENQUEUE:
		return;
	case GPU_CALL_HOST_FREE:
	case GPU_CALL_HOST_UNREGISTER:
		remove_range(process, GPU_RANGE_HOST, work->call.to);
		return;
	case GPU_CALL_MEM_UNMAP:
		unmap_physical(process, work->call.to);
		remove_range(process, GPU_RANGE_DEVICE, work->call.to);
		return;
	case GPU_CALL_MEM_RELEASE:
		release_physical(process, work->call.handle);
		return;
	case GPU_CALL_FREE:
		free_memory(work);
		break;
	}
	// After its structure was read a copy may be of another kind.
	if (is_copy(gpu_cookie_call(cookie))) {
		kind = kind_of_copy(process, &work->call);
		if (work->call.flags & GPU_CALL_ASYNC) {
			count_at_entry(work, ctx, now, kind, work->call.bytes);
			return;
		}
	}
	if (work->call.call == GPU_CALL_FREE && work->call.flags & GPU_CALL_ASYNC)
		return;
	open_call(work, ctx, cookie, now, kind);
}

SEC("uprobe")
int gpu_call_begins(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now = bpf_ktime_get_ns();
	__u32 weight = window_weight(cookie, now);
	struct gpu_work *work;

	count_hit(cookie);
	if (!weight || !is_wanted())
		return 0;
	work = claim_gpu_work();
	if (!work) {
		gpu_idle_enqueue(GPU_STREAM_UNKNOWN, now); // it may have been one
		return 0;
	}
	count(COUNTER_GPU_CALLS);
	begin_key(work, now);
	work->weight = weight;
	read_arguments((gpu_context *)ctx, &work->arguments);
	read_call((gpu_context *)ctx, cookie, &work->arguments, &work->call);
	keep_call(&work->call);
	note_enqueue(cookie, work->call.stream, now);
	begin_call(work, (gpu_context *)ctx, cookie, now);
	release_gpu_work(work);
	return 0;
}

/* ---- returns ---------------------------------------------------------------------------------- */

/* An interval, which is told in the slot that it began in. */
static __always_inline void count_time(struct gpu_work *work, __u64 began_ns, __u64 now, __u32 kind,
				       __u64 weight)
{
	__u64 last = work->key.slot;

	work->key.slot = (began_ns + shared.realtime_offset_ns) / slot_ns;
	work->key.more_slots = last > work->key.slot ? last - work->key.slot : 0;
	count_with_stack(work, now, kind, (now - began_ns) * weight, weight);
	work->key.slot = last;
	work->key.more_slots = 0;
}

/* Its own stack if it is one of those that are taken; else only what it is is counted. */
static __always_inline void take_owner(struct gpu_work *work, __u64 now, struct gpu_owner *owner)
{
	work->may_hand_over = 0;
	if (choose_call(GPU_PACE_OTHERS))
		take_gpu_stack(work->number, now);
	own_stack(work, owner);
}

static __always_inline void end_allocation(struct gpu_work *work, const struct open_call *call,
					   __u64 now, __u64 kind)
{
	struct gpu_key key = { work->key.process, 0, kind };
	struct gpu_allocation *allocation = &work->made;

	if (bpf_probe_read_user(&key.handle, sizeof(key.handle), (const void *)call->arguments[0]))
		return;
	allocation->bytes = call->bytes;
	allocation->mappings = allocation->released = 0;
	take_owner(work, now, &allocation->owner);
	work->key.kind = SAMPLE_KIND_GPU_ALLOC;
	add_count(&work->key, call->bytes * call->weight, call->weight);
	// What is live is known only where nothing is missed.
	if (!(gpu_cookie_flags(call->cookie) & GPU_CALL_WINDOWED))
		add_allocation(&key, allocation);
	if (kind == GPU_HANDLE_MEMORY)
		add_range(&work->key.process, GPU_RANGE_DEVICE, key.handle, call->bytes);
}

static __always_inline void end_host_allocation(struct gpu_work *work, const struct open_call *call)
{
	__u64 address = call->arguments[0];

	if (gpu_cookie_call(call->cookie) == GPU_CALL_HOST_ALLOC &&
	    bpf_probe_read_user(&address, sizeof(address), (const void *)call->arguments[0]))
		return;
	add_range(&work->key.process, GPU_RANGE_HOST, address, call->bytes);
}

static __always_inline void end_capture(struct gpu_work *work, const struct open_call *call,
					__u64 now)
{
	struct gpu_owner *owner = &work->made.owner;
	__u64 graph = 0;

	bpf_probe_read_user(&graph, sizeof(graph), (const void *)call->arguments[1]);
	take_owner(work, now, owner);
	keep_graph(&work->key.process, GPU_HANDLE_GRAPH, graph, owner);
}

/* A graph that was put together node by node belongs to the stack that instantiates it. */
static __always_inline void end_instantiation(struct gpu_work *work, const struct open_call *call,
					      __u64 now)
{
	const struct gpu_owner *captured =
		find_graph(&work->key.process, GPU_HANDLE_GRAPH, call->arguments[1]);
	struct gpu_owner *owner = &work->made.owner;
	__u64 exec = 0;

	bpf_probe_read_user(&exec, sizeof(exec), (const void *)call->arguments[0]);
	if (captured)
		*owner = *captured;
	else
		take_owner(work, now, owner);
	keep_graph(&work->key.process, GPU_HANDLE_GRAPH_EXEC, exec, owner);
}

static __always_inline void end_function(struct gpu_work *work, const struct open_call *call)
{
	__u64 handle = 0;

	bpf_probe_read_user(&handle, sizeof(handle), (const void *)call->arguments[0]);
	if (gpu_cookie_call(call->cookie) == GPU_CALL_GET_FUNCTION)
		name_function(work, handle, call->arguments[2]);
	else
		name_function_as(&work->key.process, handle, call->arguments[1]);
}

static __always_inline void end_well(struct gpu_work *work, const struct open_call *call, __u64 now)
{
	const struct process_key *process = &work->key.process;

	switch (gpu_cookie_call(call->cookie)) {
	case GPU_CALL_INIT:
		begin_ranges(process);
		break;
	case GPU_CALL_ALLOC:
	case GPU_CALL_ALLOC_PITCH:
		end_allocation(work, call, now, GPU_HANDLE_MEMORY);
		break;
	case GPU_CALL_MEM_CREATE:
		end_allocation(work, call, now, GPU_HANDLE_PHYSICAL);
		break;
	case GPU_CALL_MEM_MAP:
		map_physical(process, call->arguments[0], call->arguments[3]);
		add_range(process, GPU_RANGE_DEVICE, call->arguments[0], call->bytes);
		break;
	case GPU_CALL_HOST_ALLOC:
	case GPU_CALL_HOST_REGISTER:
		end_host_allocation(work, call);
		break;
	case GPU_CALL_GET_FUNCTION:
	case GPU_CALL_KERNEL_GET_FUNCTION:
		end_function(work, call);
		break;
	case GPU_CALL_CAPTURE_END:
		end_capture(work, call, now);
		break;
	case GPU_CALL_GRAPH_INSTANTIATE:
		end_instantiation(work, call, now);
		break;
	}
}

/* The kind of its time; 0: nobody asks how long it took. */
static __always_inline __u32 kind_of_time(const struct open_call *call)
{
	__u32 number = gpu_cookie_call(call->cookie);

	if (number == GPU_CALL_MODULE_LOAD)
		return SAMPLE_KIND_GPU_LOAD;
	if (is_copy(number) || number == GPU_CALL_FREE || number == GPU_CALL_SYNC_STREAM ||
	    number == GPU_CALL_SYNC_EVENT || number == GPU_CALL_SYNC_CONTEXT)
		return SAMPLE_KIND_GPU_WAIT;
	return 0;
}

/* A wait, a copy that waits: one stack serves both, but for the registers that unwinding has used up. */
static __always_inline void end_timed(struct gpu_work *work, gpu_context *ctx,
				      const struct open_call *call, __u64 now, bool is_well)
{
	__u32 kind = kind_of_time(call);
	__u64 weight;
	bool is_long = kind && now - call->began_ns >= gpu_wait_ns_min;
	bool has_bytes = call->kind && is_well;

	if (!is_long && !has_bytes)
		return;
	weight = choose_call(GPU_PACE_OTHERS) * call->weight;
	if (!weight)
		return;
	if (is_long)
		count_time(work, call->began_ns, now, kind, weight);
	if (!has_bytes)
		return;
	if (is_long && (work->key.user.high || work->key.user.low)) {
		work->key.kind = call->kind;
		add_count(&work->key, call->bytes * weight, weight);
		return;
	}
	take_registers(work, ctx, call->return_address, false);
	count_with_stack(work, now, call->kind, call->bytes * weight, weight);
}

SEC("uretprobe")
int gpu_call_returns(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns();
	struct open_call *call = close_call((gpu_context *)ctx);
	__u64 cookie = bpf_get_attach_cookie(ctx);
	bool is_well = (__u32)GPU_RESULT((gpu_context *)ctx) == 0; // CUDA_SUCCESS
	struct gpu_work *work;

	count_hit(cookie);
	if (!call)
		return 0;
	work = claim_gpu_work();
	if (!work)
		return 0;
	begin_key(work, now);
	work->entry_pc = call->entry_pc;
	take_registers(work, (gpu_context *)ctx, call->return_address, false);
	if (is_well) {
		note_wait(call->cookie, call->arguments[0], call->began_ns, now);
		end_well(work, call, now);
	}
	end_timed(work, (gpu_context *)ctx, call, now, is_well);
	release_gpu_work(work);
	return 0;
}

/* ---- NCCL ------------------------------------------------------------------------------------- */

/* What a call that moves data says of itself. */
static __always_inline void begin_collective(struct gpu_work *work, gpu_context *ctx, __u64 cookie,
					     __u64 now, __u64 kept[4])
{
	__u32 collective = nccl_cookie_collective(cookie);
	__u64 count = argument_at(&work->arguments, gpu_cookie_size_at(cookie));
	__u64 type = argument_at(&work->arguments, nccl_cookie_type_at(cookie));
	struct nccl_communicator *communicator;

	work->call.handle = nccl_argument(ctx, &work->arguments, gpu_cookie_stream_at(cookie));
	work->call.bytes = nccl_bytes(count, type);
	communicator = nccl_find_communicator(&work->key.process, work->call.handle);
	if (!communicator)
		return;
	kept[NCCL_KEPT_IDENTITY] = communicator->identity;
	kept[NCCL_KEPT_RANKS] = communicator->rank | (__u64)communicator->ranks << 32;
	if (gpu_cookie_flags(cookie) & GPU_CALL_WINDOWED)
		nccl_call_missed();
	if (nccl_is_collective(collective))
		kept[NCCL_KEPT_POINTER] =
			nccl_lag(communicator, nccl_mix(collective | type << 8, count), now);
}

/* Of another communicator, which only its ranks' own question tells. */
static __always_inline void begin_split(struct gpu_work *work, __u64 kept[4])
{
	const __u64 *arguments = work->arguments.at;
	struct nccl_communicator *communicator =
		nccl_find_communicator(&work->key.process, arguments[0]);

	kept[NCCL_KEPT_POINTER] = arguments[3];
	if (!communicator || !communicator->identity)
		return;
	kept[NCCL_KEPT_IDENTITY] = nccl_mix(
		nccl_mix(communicator->identity, __sync_fetch_and_add(&communicator->splits, 1)),
		(__u32)arguments[1]);
}

/* Who it was is not known any more when the call returns. */
static __always_inline void begin_end(struct gpu_work *work, __u64 kept[4])
{
	__u64 handle = work->arguments.at[0];
	struct nccl_communicator *communicator = nccl_find_communicator(&work->key.process, handle);

	if (!communicator)
		return;
	kept[NCCL_KEPT_IDENTITY] = communicator->identity;
	kept[NCCL_KEPT_RANKS] = communicator->rank | (__u64)communicator->ranks << 32;
	nccl_forget_communicator(&work->key.process, handle);
}

static __always_inline void begin_nccl_call(struct gpu_work *work, gpu_context *ctx, __u64 cookie,
					    __u64 now, __u64 kept[4])
{
	const __u64 *arguments = work->arguments.at;

	switch (gpu_cookie_call(cookie)) {
	case GPU_CALL_NCCL_COLLECTIVE:
		begin_collective(work, ctx, cookie, now, kept);
		break;
	case GPU_CALL_NCCL_INIT:
		nccl_read_init(work, ctx, kept);
		break;
	case GPU_CALL_NCCL_INIT_SCALABLE:
		kept[NCCL_KEPT_POINTER] = arguments[0];
		kept[NCCL_KEPT_IDENTITY] = nccl_identity(work, arguments[4]);
		kept[NCCL_KEPT_RANKS] = (__u32)arguments[2] | arguments[1] << 32;
		break;
	case GPU_CALL_NCCL_INIT_ALL:
		kept[NCCL_KEPT_POINTER] = arguments[0];
		kept[NCCL_KEPT_RANKS] = NCCL_RANK_UNKNOWN | arguments[1] << 32;
		break;
	case GPU_CALL_NCCL_SPLIT:
		begin_split(work, kept);
		break;
	case GPU_CALL_NCCL_RANK:
	case GPU_CALL_NCCL_RANKS:
		kept[NCCL_KEPT_POINTER] = arguments[1];
		kept[NCCL_KEPT_IDENTITY] = arguments[0];
		break;
	case GPU_CALL_NCCL_END:
		begin_end(work, kept);
		break;
	}
}

SEC("uprobe")
int nccl_call_begins(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now = bpf_ktime_get_ns();
	__u64 kept[4] = { 0, nccl_cookie_collective(cookie), 0, NCCL_RANK_UNKNOWN };
	__u32 weight = window_weight(cookie, now);
	struct gpu_work *work;

	count_hit(cookie);
	if (!weight || !is_wanted())
		return 0;
	work = claim_gpu_work();
	if (!work) {
		nccl_call_missed();
		return 0;
	}
	count(COUNTER_GPU_CALLS);
	begin_key(work, now);
	work->weight = weight;
	read_arguments((gpu_context *)ctx, &work->arguments);
	__builtin_memset(&work->call, 0, sizeof(work->call));
	work->call.call = gpu_cookie_call(cookie);
	work->call.flags = gpu_cookie_flags(cookie);
	begin_nccl_call(work, (gpu_context *)ctx, cookie, now, kept);
	work->call.grid[0] = nccl_cookie_collective(cookie);
	work->call.grid[1] = kept[NCCL_KEPT_RANKS];
	work->call.grid[2] = kept[NCCL_KEPT_RANKS] >> 32;
	work->call.to = kept[NCCL_KEPT_IDENTITY];
	work->call.from = kept[NCCL_KEPT_POINTER];
	keep_call(&work->call);
	__builtin_memcpy(work->arguments.at, kept, sizeof(kept));
	open_call(work, (gpu_context *)ctx, cookie, now, 0);
	release_gpu_work(work);
	return 0;
}

/* A communicator that is made without waiting is there already: ncclInProgress. */
#define NCCL_IN_PROGRESS 7

static __always_inline void end_nccl_call(struct gpu_work *work, const struct open_call *call)
{
	const struct process_key *process = &work->key.process;
	__u64 pointer = call->arguments[NCCL_KEPT_POINTER], handle = 0;
	struct nccl_communicator *communicator;
	__u32 number = gpu_cookie_call(call->cookie), value = 0;

	switch (number) {
	case GPU_CALL_NCCL_INIT:
	case GPU_CALL_NCCL_INIT_SCALABLE:
	case GPU_CALL_NCCL_SPLIT:
		if (!bpf_probe_read_user(&handle, sizeof(handle), (const void *)pointer))
			nccl_keep_communicator(process, handle, call->arguments[NCCL_KEPT_IDENTITY],
					       call->arguments[NCCL_KEPT_RANKS]);
		break;
	case GPU_CALL_NCCL_INIT_ALL:
		nccl_keep_all(work, pointer, call->arguments[NCCL_KEPT_RANKS] >> 32);
		break;
	case GPU_CALL_NCCL_RANK:
	case GPU_CALL_NCCL_RANKS:
		handle = call->arguments[NCCL_KEPT_IDENTITY];
		communicator = nccl_find_communicator(process, handle);
		if (!communicator) { // older than us
			nccl_keep_communicator(process, handle, 0, NCCL_RANK_UNKNOWN);
			communicator = nccl_find_communicator(process, handle);
		}
		if (!communicator ||
		    bpf_probe_read_user(&value, sizeof(value), (const void *)pointer))
			break;
		if (number == GPU_CALL_NCCL_RANK)
			communicator->rank = value;
		else
			communicator->ranks = value;
		break;
	}
}

/* Its time, what it moved, and how late it was: by one stack. */
static __always_inline void count_nccl_call(struct gpu_work *work, const struct open_call *call,
					    __u64 now, bool is_well)
{
	__u64 weight, lag = call->arguments[NCCL_KEPT_POINTER], last = work->key.slot;
	struct count_key *key = &work->key;

	if (!call->arguments[NCCL_KEPT_COLLECTIVE])
		return;
	weight = choose_call(GPU_PACE_OTHERS) * call->weight;
	if (!weight)
		return;
	work->may_hand_over = 0;
	take_gpu_stack(work->number, now);
	key->kernel.high = call->arguments[NCCL_KEPT_IDENTITY];
	key->kernel.low = call->arguments[NCCL_KEPT_RANKS];
	key->kernel_leaf = call->arguments[NCCL_KEPT_COLLECTIVE];
	key->slot = (call->began_ns + shared.realtime_offset_ns) / slot_ns;
	key->more_slots = last > key->slot ? last - key->slot : 0;
	key->kind = SAMPLE_KIND_NCCL_ENQUEUE;
	add_count(key, (now - call->began_ns) * weight, weight);
	if (gpu_cookie_call(call->cookie) != GPU_CALL_NCCL_COLLECTIVE || !is_well)
		return;
	key->more_slots = 0;
	if (call->bytes) {
		key->kind = SAMPLE_KIND_NCCL_BYTES;
		add_count(key, call->bytes * weight, weight);
	}
	if (lag) {
		key->kind = SAMPLE_KIND_NCCL_LAG;
		add_count(key, lag * weight, weight);
	}
}

SEC("uretprobe")
int nccl_call_returns(struct pt_regs *ctx)
{
	__u64 now = bpf_ktime_get_ns(), cookie = bpf_get_attach_cookie(ctx);
	struct open_call *call = close_call((gpu_context *)ctx);
	__u32 result = GPU_RESULT((gpu_context *)ctx);
	bool is_well = result == 0 || result == NCCL_IN_PROGRESS;
	struct gpu_work *work;

	count_hit(cookie);
	if (!call)
		return 0;
	work = claim_gpu_work();
	if (!work)
		return 0;
	begin_key(work, now);
	work->entry_pc = call->entry_pc;
	take_registers(work, (gpu_context *)ctx, call->return_address, false);
	if (is_well)
		end_nccl_call(work, call);
	count_nccl_call(work, call, now, is_well);
	release_gpu_work(work);
	return 0;
}
