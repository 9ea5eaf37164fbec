// SPDX-License-Identifier: GPL-2.0-only
// Counts calls of the CUDA driver and NCCL by the stack that makes them: launches, waits, copies, memory. The programs
// run at functions that the agent probes (agent/gpu/gpu_probes.h); the probe's cookie has the kind of call
// (gpu_call.h). When calls are frequent, one in n captures its stack, with weight n.

#include "base/time_span.h"
#include "bpf/gpu/gpu_calls.bpf.h"
#include "bpf/gpu/gpu_graph_calls.bpf.h"
#include "bpf/gpu/gpu_handles.bpf.h"
#include "bpf/gpu/gpu_sampled_launches.bpf.h"
#include "bpf/gpu/gpu_memory.bpf.h"
#include "bpf/gpu/nccl_calls.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Set before load. */
const volatile __u64 gpu_wait_ns_min = 10000; // in a shorter call the work was already done

/* ---- launches --------------------------------------------------------------------------------- */

/* Blocks by powers of two: 1 for one block, 2 for 2 and 3, 3 for 4 to 7 ... */
static __always_inline __u64 class_of_grid(const struct gpu_call_record *call)
{
	__u64 blocks = (__u64)call->grid[0] * call->grid[1] * call->grid[2];
	__u64 class = blocks != 0;

#pragma unroll
	for (__u32 bits = 32; bits; bits /= 2) {
		if (blocks >> bits) {
			blocks >>= bits;
			class += bits;
		}
	}
	return class;
}

static __always_inline void begin_launch(struct gpu_work *work, gpu_context *ctx, __u64 cookie,
					 __u64 now)
{
	begin_key(work, now);
	read_arguments(ctx, &work->arguments);
	read_call(ctx, cookie, &work->arguments, &work->call);
	keep_call(&work->call);
	work->device = frame_of_function(&work->key.process, work->call.handle);
	work->entry_pc = pc_of(ctx);
	set_registers(work, ctx, return_address_at_entry(ctx), true);
}

/* The launch runs nothing yet: it becomes a node of a CUDA graph. */
static __always_inline void capture_launch(gpu_context *ctx, __u64 cookie, __u64 now, __u64 graph)
{
	__u64 weight = choose_captured();
	struct gpu_work *work = weight ? claim_gpu_work() : NULL;

	if (!work)
		return;
	begin_launch(work, ctx, cookie, now);
	capture_gpu_stack(work->number, now);
	work->captured.graph = graph;
	keep_captured(work, weight);
	release_gpu_work(work);
}

/* A launch may have two probes: one for captured launches, one duty-cycled. */
SEC("uprobe")
int gpu_launch_begins(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now = bpf_ktime_get_ns(), stream;
	bool of_captures = gpu_cookie_flags(cookie) & GPU_CALL_CAPTURES;
	__u32 phase_weight = of_captures ? 1 : duty_cycle_weight(cookie, now), weight;
	struct gpu_work *work;
	int graph;

	count_hit(of_captures ? GPU_CALL_CAPTURED : cookie);
	if (!phase_weight || !is_wanted())
		return 0;
	stream = stream_of_launch((gpu_context *)ctx, cookie);
	graph = gpu_capture_of(stream, now);
	if (of_captures) {
		if (graph)
			capture_launch((gpu_context *)ctx, cookie, now, graph);
		return 0;
	}
	gpu_idle_enqueue(stream, now);
	if (graph)
		return 0;
	count(COUNTER_GPU_LAUNCHES);
	weight = choose_call(GPU_PACE_LAUNCHES);
	if (!weight)
		return 0;
	work = claim_gpu_work();
	if (!work)
		return 0;
	begin_launch(work, (gpu_context *)ctx, cookie, now);
	work->key.kernel_leaf = class_of_grid(&work->call);
	count_with_stack(work, now, SAMPLE_KIND_GPU_LAUNCH, (__u64)weight * phase_weight,
			 (__u64)weight * phase_weight);
	release_gpu_work(work);
	return 0;
}

/* ---- entries ---------------------------------------------------------------------------------- */

/* For calls of which the return adds nothing. */
static __always_inline void count_at_entry(struct gpu_work *work, gpu_context *ctx, __u64 now,
					   __u32 kind, __u64 value)
{
	__u64 weight = choose_call(GPU_PACE_OTHERS) * work->weight;

	if (!weight)
		return;
	work->entry_pc = pc_of(ctx);
	set_registers(work, ctx, return_address_at_entry(ctx), true);
	count_with_stack(work, now, kind, value * weight, weight);
}

/* Counted by the stack that captured the graph; of an unknown one by the stack that launches it. */
static __always_inline void launch_graph(struct gpu_work *work, gpu_context *ctx, __u64 now)
{
	const struct gpu_graph *graph =
		find_graph(&work->key.process, GPU_HANDLE_GRAPH_EXEC, work->call.handle);

	if (!graph) {
		count_at_entry(work, ctx, now, SAMPLE_KIND_GPU_GRAPH, 1);
		return;
	}
	count_graph_launch(graph, work->weight);
	work->key.kind = SAMPLE_KIND_GPU_GRAPH;
	work->key.user = graph->owner.user;
	work->key.user_leaf = graph->owner.leaf;
	add_count(&work->key, work->weight, work->weight);
}

static __always_inline void free_memory(struct gpu_work *work)
{
	struct gpu_key key = { work->key.process, work->call.to, GPU_HANDLE_MEMORY };

	free_allocation(&key);
	remove_range(&work->key.process, GPU_RANGE_DEVICE, key.handle);
}

/* On a captured stream the call only adds a node: it does not count. */
static __always_inline bool is_captured(const struct gpu_work *work, __u64 cookie, __u64 now)
{
	__u32 number = gpu_cookie_call(cookie), flags = gpu_cookie_flags(cookie);

	if (number != GPU_CALL_GRAPH_LAUNCH && number != GPU_CALL_LAUNCH_HOST_FUNC &&
	    !(is_copy(number) && flags & GPU_CALL_ASYNC))
		return false;
	return gpu_capture_of(stream_of_call(flags, work->call.stream, true), now);
}

/* Memory is removed at the entry of a free: by its return, another thread may have got the same address. */
static __always_inline void begin_call(struct gpu_work *work, gpu_context *ctx, __u64 cookie,
				       __u64 now)
{
	const struct process_key *process = &work->key.process;
	__u64 stream = stream_of_call(gpu_cookie_flags(cookie), work->call.stream, true);
	__u32 kind = 0;

	if (is_captured(work, cookie, now)) {
		leave_calls(ctx);
		return;
	}
	switch (work->call.call) {
	case GPU_CALL_GRAPH_LAUNCH:
		launch_graph(work, ctx, now);
		return;
	case GPU_CALL_LAUNCH_HOST_FUNC:
		count_at_entry(work, ctx, now, SAMPLE_KIND_GPU_LAUNCH, 1);
		return;
	case GPU_CALL_SAMPLED_LAUNCH:
		record_sampled_launch(work, ctx, now);
		return;
	case GPU_CALL_GRAPH_DESTROY:
		remove_graph(process, GPU_HANDLE_GRAPH, work->call.handle);
		return;
	case GPU_CALL_GRAPH_EXEC_DESTROY:
		remove_graph(process, GPU_HANDLE_GRAPH_EXEC, work->call.handle);
		return;
	case GPU_CALL_MODULE_UNLOAD:
		unload_module(process, work->call.handle);
		return;
	case GPU_CALL_CONTEXT:
		gpu_idle_context(work->call.handle);
		return;
	case GPU_CALL_ENQUEUE:
		return;
	case GPU_CALL_EVENT_RECORD:
		gpu_event_recorded(work->call.handle, stream, now);
		return;
	case GPU_CALL_EVENT_WAIT:
		join_capture(process, stream, work->arguments.at[1]);
		return;
	case GPU_CALL_EVENT_DESTROY:
		remove_event(process, work->call.handle);
		return;
	case GPU_CALL_STREAM_DESTROY:
		remove_stream(process, work->call.handle);
		return;
	case GPU_CALL_CAPTURE_END:
		work->arguments.at[2] = end_capture_of(process, stream, &work->arguments.at[3]);
		break;
	case GPU_CALL_HOST_FREE:
	case GPU_CALL_HOST_UNREGISTER:
		remove_range(process, GPU_RANGE_HOST, work->call.to);
		return;
	case GPU_CALL_MEM_UNMAP:
		unmap_physical(process, work->call.to, work->call.bytes);
		return;
	case GPU_CALL_MEM_RELEASE:
		release_physical(process, work->call.handle);
		return;
	case GPU_CALL_FREE:
		free_memory(work);
		break;
	}
	// By the cookie: reading the copy's structure may have changed work->call.call to another kind of copy.
	if (is_copy(gpu_cookie_call(cookie))) {
		kind = kind_of_copy(process, &work->call);
		if (work->call.flags & GPU_CALL_ASYNC && !may_wait(kind)) {
			leave_calls(ctx);
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
	__u32 weight = duty_cycle_weight(cookie, now);
	struct gpu_work *work;

	count_hit(cookie);
	if (!weight || !is_wanted())
		return 0;
	work = claim_gpu_work();
	if (!work) {
		gpu_idle_enqueue(GPU_STREAM_UNKNOWN, now); // the call may enqueue work
		gpu_capture_missed(gpu_cookie_call(cookie));
		note_missed_memory_call(gpu_cookie_call(cookie));
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

/* An interval: it counts from the slot in which it began. */
static __always_inline void count_time(struct gpu_work *work, __u64 began_ns, __u64 now, __u32 kind,
				       __u64 weight)
{
	__u64 last = work->key.slot;

	work->key.slot = (began_ns + shared.realtime_offset_ns) / slot_ns;
	work->key.more_slots = last > work->key.slot ? last - work->key.slot : 0;
	count_with_stack(work, now, kind, ns_between(began_ns, now) * weight, weight);
	work->key.slot = last;
	work->key.more_slots = 0;
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
	capture_owner(work, now, &allocation->owner);
	work->key.kind = SAMPLE_KIND_GPU_ALLOC;
	add_count(&work->key, call->bytes * call->weight, call->weight);
	// Memory in use needs all calls.
	if (!(gpu_cookie_flags(call->cookie) & GPU_CALL_DUTY_CYCLED))
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

static __always_inline void end_context(const struct open_call *call)
{
	__u64 context = 0;

	bpf_probe_read_user(&context, sizeof(context), (const void *)call->arguments[0]);
	gpu_idle_context(context);
}

static __always_inline void end_function(struct gpu_work *work, const struct open_call *call)
{
	__u64 handle = 0;

	bpf_probe_read_user(&handle, sizeof(handle), (const void *)call->arguments[0]);
	if (gpu_cookie_call(call->cookie) == GPU_CALL_GET_FUNCTION)
		name_function(work, handle, call->arguments[1], call->arguments[2]);
	else
		name_function_as(&work->key.process, handle, call->arguments[1]);
}

static __always_inline void end_well(struct gpu_work *work, const struct open_call *call, __u64 now)
{
	const struct process_key *process = &work->key.process;

	switch (gpu_cookie_call(call->cookie)) {
	case GPU_CALL_INIT: // only the first counts: libraries call it again
		if (is_watched(process) && gpu_idle_from_init())
			begin_ranges(process);
		break;
	case GPU_CALL_CONTEXT_MADE:
		end_context(call);
		break;
	case GPU_CALL_ALLOC:
	case GPU_CALL_ALLOC_PITCH:
		end_allocation(work, call, now, GPU_HANDLE_MEMORY);
		break;
	case GPU_CALL_MEM_CREATE:
		end_allocation(work, call, now, GPU_HANDLE_PHYSICAL);
		break;
	case GPU_CALL_MEM_MAP:
		map_physical(process, call->arguments[0], call->bytes, call->arguments[3]);
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
	}
}

/* The sample kind of the call's duration; 0: not counted by time. */
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

/* A wait, or a copy that waits: counts its time and its bytes with one stack. */
static __always_inline void end_timed(struct gpu_work *work, gpu_context *ctx,
				      const struct open_call *call, __u64 now, bool is_well)
{
	__u32 kind = kind_of_time(call);
	__u64 weight;
	bool is_long = kind && ns_between(call->began_ns, now) >= gpu_wait_ns_min;
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
	set_registers(work, ctx, call->return_address, false);
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
	if (!work) {
		note_missed_memory_call(gpu_cookie_call(cookie));
		return 0;
	}
	begin_key(work, now);
	work->entry_pc = call->entry_pc;
	set_registers(work, (gpu_context *)ctx, call->return_address, false);
	if (is_well) {
		note_wait(call->cookie, call->arguments[0], call->began_ns, now);
		end_well(work, call, now);
		end_graph_call(work, call, now);
	}
	end_timed(work, (gpu_context *)ctx, call, now, is_well);
	release_gpu_work(work);
	return 0;
}

/* ---- NCCL ------------------------------------------------------------------------------------- */

SEC("uprobe")
int nccl_call_begins(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now = bpf_ktime_get_ns();
	__u64 kept[4] = { 0, nccl_cookie_collective(cookie), 0, NCCL_RANK_UNKNOWN };
	__u32 weight = duty_cycle_weight(cookie, now);
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
	set_registers(work, (gpu_context *)ctx, call->return_address, false);
	if (is_well)
		end_nccl_call(work, call);
	count_nccl_call(work, call, now, is_well);
	release_gpu_work(work);
	return 0;
}
