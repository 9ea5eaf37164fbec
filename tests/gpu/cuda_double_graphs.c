// SPDX-License-Identifier: Apache-2.0
// Test equipment: graphs of the double of libcuda.so.1, and stream capture. A graph has the number, kinds and total time of its
// nodes.
#include "tests/gpu/cuda_double.h"

#include "tests/gpu/cuda_double_export.h"
#include "tests/gpu/cuda_double_state.h"

enum { CAPTURE_MODES = 3, INSTANTIATE_FLAGS = 0xf };

// ---- nodes ----------------------------------------------------------------------------------

void add_node(struct graph *graph, uint64_t kind, uint64_t busy_ns)
{
	graph->busy_ns += busy_ns;
	graph->nodes++;
	graph->shape = (graph->shape ^ (kind + 1)) * 0x100000001b3ULL;
}

static bool is_graph(CUgraph graph)
{
	return graph >= driver.graphs && graph < driver.graphs + GRAPHS_MAX && graph->is_open;
}

static bool is_whole_graph(CUgraph graph)
{
	return is_graph(graph) && !graph->is_captured;
}

/* The graph's number, and from 1 on the node's. */
static CUgraphNode last_node(const struct graph *graph)
{
	return (CUgraphNode)(uintptr_t)((uint64_t)(graph - driver.graphs + 1) << 32 | graph->nodes);
}

static bool is_node_of(CUgraphNode node, const struct graph *graph)
{
	uint64_t handle = (uintptr_t)node;

	return handle >> 32 == (uint64_t)(graph - driver.graphs + 1) && (uint32_t)handle &&
	       (uint32_t)handle <= graph->nodes;
}

/* Are these different nodes of one graph? */
static bool are_dependencies(const struct graph *graph, const CUgraphNode *nodes, size_t count)
{
	if (count && !nodes)
		return false;
	for (size_t i = 0; i < count; i++) {
		if (!is_node_of(nodes[i], graph))
			return false;
		for (size_t j = 0; j < i; j++) {
			if (nodes[i] == nodes[j])
				return false;
		}
	}
	return true;
}

static CUresult add(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
		    uint64_t kind, uint64_t busy_ns)
{
	if (!node || !is_graph(graph) || !are_dependencies(graph, dependencies, count))
		return CUDA_ERROR_INVALID_VALUE;
	add_node(graph, kind, busy_ns);
	*node = last_node(graph);
	return CUDA_SUCCESS;
}

/* A copy of the child: later changes do not reach it. */
static CUresult add_child(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
			  size_t count, CUgraph child)
{
	if (!is_whole_graph(child) || child == graph)
		return CUDA_ERROR_INVALID_VALUE;
	return add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_GRAPH + child->shape,
		   child->busy_ns);
}

static CUresult add_kernel(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies,
			   size_t count, const CUDA_KERNEL_NODE_PARAMS *kernel)
{
	uint64_t blocks;

	if (!kernel || !is_code(kernel->function ? kernel->function : kernel->kernel))
		return CUDA_ERROR_INVALID_VALUE;
	blocks = (uint64_t)kernel->grid[0] * kernel->grid[1] * kernel->grid[2];
	if (!blocks || !kernel->block[0] || !kernel->block[1] || !kernel->block[2])
		return CUDA_ERROR_INVALID_VALUE;
	return add(node, graph, dependencies, count, CU_GRAPH_NODE_TYPE_KERNEL,
		   DOUBLE_KERNEL_NS * blocks);
}

EXPORT(cuGraphAddChildGraphNode)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count, CUgraph child)
{
	CUresult result = enter();

	return result ? result : leave(add_child(node, graph, dependencies, count, child));
}

EXPORT(cuGraphAddKernelNode_v2)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
 const CUDA_KERNEL_NODE_PARAMS *kernel)
{
	CUresult result = enter();

	return result ? result : leave(add_kernel(node, graph, dependencies, count, kernel));
}

EXPORT(cuGraphAddNode_v2)
(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, const void *edges, size_t count,
 const CUgraphNodeParams *what)
{
	CUresult result = enter();

	(void)edges;
	if (result)
		return result;
	if (!what)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (what->type == CU_GRAPH_NODE_TYPE_KERNEL)
		return leave(add_kernel(node, graph, dependencies, count, &what->kernel));
	if (what->type == CU_GRAPH_NODE_TYPE_GRAPH)
		return leave(add_child(node, graph, dependencies, count, what->child));
	return leave(CUDA_ERROR_NOT_SUPPORTED);
}

// ---- captures -------------------------------------------------------------------------------

static struct graph *make_graph(void)
{
	for (int i = 0; i < GRAPHS_MAX; i++) {
		if (driver.graphs[i].is_open)
			continue;
		driver.graphs[i] = (struct graph){ .is_open = true };
		return &driver.graphs[i];
	}
	return NULL;
}

static CUresult capture(CUstream handle, struct graph *graph, int mode)
{
	struct stream *stream = find_stream(handle);

	if (mode < 0 || mode >= CAPTURE_MODES)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream || stream == &current->legacy || stream->capture)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (!graph)
		graph = make_graph();
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	graph->is_captured = true;
	stream->capture = graph;
	stream->is_origin = true;
	return CUDA_SUCCESS;
}

EXPORT(cuStreamBeginCapture_v2)(CUstream handle, int mode)
{
	CUresult result = enter();

	return result ? result : leave(capture(handle, NULL, mode));
}

EXPORT(cuStreamBeginCapture_v2_ptsz)(CUstream handle, int mode)
{
	return impl_cuStreamBeginCapture_v2(own(handle), mode);
}

EXPORT(cuStreamBeginCaptureToGraph)
(CUstream handle, CUgraph graph, const CUgraphNode *dependencies, const void *edges, size_t count,
 int mode)
{
	CUresult result = enter();

	(void)edges;
	if (result)
		return result;
	if (!is_whole_graph(graph) || !are_dependencies(graph, dependencies, count))
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(capture(handle, graph, mode));
}

EXPORT(cuStreamBeginCaptureToGraph_ptsz)
(CUstream handle, CUgraph graph, const CUgraphNode *dependencies, const void *edges, size_t count,
 int mode)
{
	return impl_cuStreamBeginCaptureToGraph(own(handle), graph, dependencies, edges, count,
						mode);
}

/* Nodes may be added to the graph during capture. */
EXPORT(cuStreamGetCaptureInfo_v2)
(CUstream handle, int *status, uint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
 size_t *count)
{
	CUresult result = enter();
	struct stream *stream = result ? NULL : find_stream(handle);

	if (result)
		return result;
	if (!stream || !status)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*status = stream->capture != NULL;
	if (stream->capture && id)
		*id = (uint64_t)(stream->capture - driver.graphs + 1);
	if (stream->capture && graph)
		*graph = stream->capture;
	if (dependencies)
		*dependencies = NULL;
	if (count)
		*count = 0;
	return leave(CUDA_SUCCESS);
}

EXPORT(cuStreamEndCapture)(CUstream handle, CUgraph *ret_graph)
{
	CUresult result = enter();
	struct stream *stream = result ? NULL : find_stream(handle);
	struct graph *graph;

	if (result)
		return result;
	if (!stream || !stream->capture)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!stream->is_origin)
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	graph = stream->capture;
	graph->is_captured = false;
	for (int i = 0; i < STREAMS_MAX; i++) {
		struct stream *other = &driver.streams[i];

		if (other->capture != graph)
			continue;
		other->capture = NULL;
		if (other->is_unjoined)
			result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	}
	if (result)
		graph->is_open = false;
	*ret_graph = result ? NULL : graph;
	return leave(result);
}

EXPORT(cuStreamEndCapture_ptsz)(CUstream handle, CUgraph *graph)
{
	return impl_cuStreamEndCapture(own(handle), graph);
}

// ---- graphs ---------------------------------------------------------------------------------

/* An empty graph. */
EXPORT(cuGraphCreate)(CUgraph *graph, unsigned int flags)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!graph || flags)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*graph = make_graph();
	return leave(*graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT(cuGraphClone)(CUgraph *clone, CUgraph graph)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!clone || !is_whole_graph(graph))
		return leave(CUDA_ERROR_INVALID_VALUE);
	*clone = make_graph();
	if (*clone)
		**clone = *graph;
	return leave(*clone ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT(cuGraphDestroy)(CUgraph graph)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!is_graph(graph))
		return leave(CUDA_ERROR_INVALID_VALUE);
	graph->is_open = false;
	return leave(CUDA_SUCCESS);
}

// ---- executable graphs ----------------------------------------------------------------------

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!exec || !is_whole_graph(graph) || flags & ~(unsigned long long)INSTANTIATE_FLAGS)
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < GRAPHS_MAX; i++) {
		if (driver.execs[i].is_open)
			continue;
		driver.execs[i] = (struct graph_exec){ *graph, true };
		*exec = &driver.execs[i];
		return leave(CUDA_SUCCESS);
	}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT(cuGraphInstantiate)
(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *log, size_t bytes)
{
	(void)failed, (void)log, (void)bytes;
	return instantiate(exec, graph, 0);
}

EXPORT(cuGraphInstantiate_v2)
(CUgraphExec *exec, CUgraph graph, CUgraphNode *failed, char *log, size_t bytes)
{
	(void)failed, (void)log, (void)bytes;
	return instantiate(exec, graph, 0);
}

EXPORT(cuGraphInstantiateWithFlags)(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	return instantiate(exec, graph, flags);
}

EXPORT(cuGraphInstantiateWithParams)
(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *how)
{
	if (!how)
		return CUDA_ERROR_INVALID_VALUE;
	how->result = 0;
	how->failed = NULL;
	return instantiate(exec, graph, how->flags);
}
ALIAS(cuGraphInstantiateWithParams_ptsz, cuGraphInstantiateWithParams);

static bool is_exec(CUgraphExec exec)
{
	return exec >= driver.execs && exec < driver.execs + GRAPHS_MAX && exec->is_open;
}

/* Needs a graph with nodes of the same kinds. */
static CUresult update(CUgraphExec exec, CUgraph graph, int *result)
{
	if (!is_exec(exec) || !is_whole_graph(graph))
		return CUDA_ERROR_INVALID_VALUE;
	if (exec->graph.nodes != graph->nodes || exec->graph.shape != graph->shape) {
		*result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	}
	*result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
	exec->graph = *graph;
	return CUDA_SUCCESS;
}

EXPORT(cuGraphExecUpdate)(CUgraphExec exec, CUgraph graph, CUgraphNode *failed, int *ret_result)
{
	CUresult result = enter();

	(void)failed;
	if (result)
		return result;
	return leave(ret_result ? update(exec, graph, ret_result) : CUDA_ERROR_INVALID_VALUE);
}

EXPORT(cuGraphExecUpdate_v2)(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
	CUresult result = enter();

	if (result)
		return result;
	return leave(info ? update(exec, graph, &info->result) : CUDA_ERROR_INVALID_VALUE);
}

EXPORT(cuGraphLaunch)(CUgraphExec exec, CUstream handle)
{
	CUresult result = enter();
	struct stream *stream = result ? NULL : find_stream(handle);

	if (result)
		return result;
	if (!is_exec(exec))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (stream && stream->capture)
		return leave(
			CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED); // a child graph would be needed
	return leave(put(handle, exec->graph.busy_ns));
}

EXPORT(cuGraphLaunch_ptsz)(CUgraphExec exec, CUstream stream)
{
	return impl_cuGraphLaunch(exec, own(stream));
}

EXPORT(cuGraphExecDestroy)(CUgraphExec exec)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!is_exec(exec))
		return leave(CUDA_ERROR_INVALID_VALUE);
	exec->is_open = false;
	return leave(CUDA_SUCCESS);
}
