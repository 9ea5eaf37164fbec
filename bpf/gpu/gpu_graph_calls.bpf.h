/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Returns of successful calls on CUDA graphs: captures, clones, child graphs, nodes added one by one, executable graphs.
// The state is in gpu_graphs.bpf.h.
#pragma once

#include "bpf/gpu/gpu_graphs.bpf.h"
#include "bpf/gpu/gpu_handles.bpf.h"

static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	return bpf_probe_read_user(to, size, (const void *)address);
}

/* ---- captures ---------------------------------------------------------------------------------- */

/* Duty-cycled probes may miss its end, and then all later launches would count as captured: ignore it. */
static __always_inline void begin_seen_capture(const struct process_key *process,
					       const struct open_call *call, __u64 now)
{
	__u32 flags = gpu_cookie_flags(call->cookie);

	if (!(flags & GPU_CALL_DUTY_CYCLED))
		begin_capture(process, stream_of_call(flags, call->arguments[0], true),
			      gpu_cookie_call(call->cookie) == GPU_CALL_CAPTURE_TO_GRAPH, now);
}

static __always_inline void end_capture(struct gpu_work *work, const struct open_call *call,
					__u64 now)
{
	const struct process_key *process = &work->key.process;
	__u64 handle = 0;

	bpf_probe_read_user(&handle, sizeof(handle), (const void *)call->arguments[1]);
	capture_owner(work, now, &work->graph.owner);
	work->graph.number = number_captured(call->arguments[2], call->arguments[3],
					     find_graph(process, GPU_HANDLE_GRAPH, handle));
	work->graph.flags = 0;
	keep_graph(process, GPU_HANDLE_GRAPH, handle, &work->graph);
}

/* ---- graphs ------------------------------------------------------------------------------------ */

static __always_inline void end_creation(struct gpu_work *work, const struct open_call *call)
{
	__u64 handle = 0;

	bpf_probe_read_user(&handle, sizeof(handle), (const void *)call->arguments[0]);
	__builtin_memset(&work->graph, 0, sizeof(work->graph));
	work->graph.number = number_graph();
	keep_graph(&work->key.process, GPU_HANDLE_GRAPH, handle, &work->graph);
}

static __always_inline void end_clone(struct gpu_work *work, const struct open_call *call)
{
	const struct process_key *process = &work->key.process;
	const struct gpu_graph *graph = seal_graph(process, call->arguments[1]);
	__u64 handle = 0;

	bpf_probe_read_user(&handle, sizeof(handle), (const void *)call->arguments[0]);
	if (!graph) {
		remove_graph(process, GPU_HANDLE_GRAPH, handle); // what had this handle before
		return;
	}
	work->graph = *graph;
	keep_graph(process, GPU_HANDLE_GRAPH, handle, &work->graph);
}

/* ---- executable graphs ------------------------------------------------------------------------- */

/* An executable graph has the graph's current number. The owner of one that was not captured is this call's stack. */
static __always_inline void end_instantiation(struct gpu_work *work, __u64 exec, __u64 handle,
					      __u64 now)
{
	const struct process_key *process = &work->key.process;
	const struct gpu_graph *graph = seal_graph(process, handle);

	if (graph && graph->owner.process.pid)
		work->graph.owner = graph->owner;
	else
		capture_owner(work, now, &work->graph.owner);
	work->graph.number = number_of(graph);
	work->graph.flags = 0;
	keep_graph(process, GPU_HANDLE_GRAPH_EXEC, exec, &work->graph);
}

static __always_inline void end_new_exec(struct gpu_work *work, const struct open_call *call,
					 __u64 now)
{
	__u64 exec = 0;

	bpf_probe_read_user(&exec, sizeof(exec), (const void *)call->arguments[0]);
	end_instantiation(work, exec, call->arguments[1], now);
}

/* ---- nodes ------------------------------------------------------------------------------------- */

/* A GPU kernel node that is added by a call counts like a captured launch. */
static __always_inline void end_kernel_node(struct gpu_work *work, const struct open_call *call,
					    __u64 function, __u64 now)
{
	__u64 number = number_to_add_to(work, call->arguments[1]);
	__u64 weight = number ? choose_captured() : 0;

	if (!weight)
		return;
	work->device = frame_of_function(&work->key.process, function);
	work->may_hand_over = 0;
	capture_gpu_stack(work->number, now);
	work->captured.graph = number;
	keep_captured(work, weight);
}

/* CUDA_KERNEL_NODE_PARAMS: from its second version on a CUkernel may replace the CUfunction. */
static __always_inline __u64 function_of_node(__u64 parameters)
{
	__u64 function = 0;

	read_user(&function, sizeof(function), parameters);
	if (!function)
		read_user(&function, sizeof(function), parameters + 56);
	return function;
}

static __always_inline void end_child_node(struct gpu_work *work, const struct open_call *call,
					   __u64 child)
{
	add_child(work, call->arguments[1], number_of(seal_graph(&work->key.process, child)));
}

/* CUgraphNodeParams: the type, and from offset 16 on its parameters. */
enum node_type { NODE_KERNEL = 0, NODE_GRAPH = 4, NODE_CONDITIONAL = 13 };

static __always_inline void end_node(struct gpu_work *work, const struct open_call *call, __u64 now)
{
	__u64 parameters = call->bytes, child = 0;
	__u32 type = ~0U;

	read_user(&type, sizeof(type), parameters);
	if (type == NODE_KERNEL) {
		end_kernel_node(work, call, function_of_node(parameters + 16), now);
	} else if (type == NODE_GRAPH) {
		read_user(&child, sizeof(child), parameters + 16);
		end_child_node(work, call, child);
	} else if (type == NODE_CONDITIONAL) {
		add_child(work, call->arguments[1], 0); // 0: only the GPU knows how often it runs
	}
}

/* ---- all calls --------------------------------------------------------------------------------- */

static __always_inline void end_graph_call(struct gpu_work *work, const struct open_call *call,
					   __u64 now)
{
	switch (gpu_cookie_call(call->cookie)) {
	case GPU_CALL_CAPTURE_BEGIN:
	case GPU_CALL_CAPTURE_TO_GRAPH:
		begin_seen_capture(&work->key.process, call, now);
		break;
	case GPU_CALL_CAPTURE_END:
		end_capture(work, call, now);
		break;
	case GPU_CALL_GRAPH_CREATE:
		end_creation(work, call);
		break;
	case GPU_CALL_GRAPH_CLONE:
		end_clone(work, call);
		break;
	case GPU_CALL_GRAPH_ADD_CHILD:
		end_child_node(work, call, call->bytes);
		break;
	case GPU_CALL_GRAPH_ADD_KERNEL:
		end_kernel_node(work, call, function_of_node(call->bytes), now);
		break;
	case GPU_CALL_GRAPH_ADD_NODE:
		end_node(work, call, now);
		break;
	case GPU_CALL_GRAPH_INSTANTIATE:
		end_new_exec(work, call, now);
		break;
	case GPU_CALL_GRAPH_EXEC_UPDATE:
		end_instantiation(work, call->arguments[0], call->arguments[1], now);
		break;
	}
}
