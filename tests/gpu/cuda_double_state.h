// SPDX-License-Identifier: Apache-2.0
// Test equipment: the state of the double of libcuda.so.1, shared by its files. Each stream is busy until some time; enqueued work
// moves that time, and a wait sleeps until it.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/gpu/cuda_double.h"

#pragma GCC visibility push(hidden)

enum {
	CONTEXTS_MAX = 8,
	STREAMS_MAX = 64,
	EVENTS_MAX = 256,
	ALLOCATIONS_MAX = 4096,
	PHYSICALS_MAX = 256,
	FUNCTIONS_MAX = 64,
	GRAPHS_MAX = 64,
	NAME_BYTES = 64,
};

struct stream {
	uint64_t busy_until_ns;
	struct context *context;
	struct graph *capture; // enqueued work becomes nodes of it
	bool is_open;
	bool is_blocking; // synchronizes with the legacy default stream
	bool is_origin;   // of the capture
	bool is_unjoined; // joined the capture by an event, and did not join back yet
};

struct event {
	uint64_t done_ns;
	struct graph *capture; // that it was recorded in
	struct stream *from;
	bool is_open, is_recorded;
};

struct function {
	char name[NAME_BYTES];
};

struct module {
	bool is_open;
};

struct graph {
	uint64_t busy_ns; // of all its nodes, in sequence
	uint32_t nodes;
	uint64_t shape; // of the nodes' kinds in their order
	bool is_open;
	bool is_captured; // just now
};

struct graph_exec {
	struct graph graph;
	bool is_open;
};

struct allocation {
	uint64_t address, bytes;
	bool is_host;
	bool is_registered; // pinned memory of the caller
};

struct physical {
	uint64_t bytes;
	uint32_t mappings;
	bool is_released; // freed with its last mapping
};

struct mapping {
	uint64_t address, bytes;
	struct physical *physical;
};

struct context {
	unsigned int flags;
	bool is_open;
	struct stream legacy; // its default stream
};

struct driver {
	pthread_mutex_t lock;
	bool initialized;
	struct context contexts[CONTEXTS_MAX];
	struct stream streams[STREAMS_MAX];
	struct event events[EVENTS_MAX];
	struct allocation allocations[ALLOCATIONS_MAX];
	struct physical physicals[PHYSICALS_MAX];
	struct mapping mappings[PHYSICALS_MAX];
	uint64_t next_address;
	uint64_t used_bytes;
	struct function functions[FUNCTIONS_MAX], kernels[FUNCTIONS_MAX];
	struct module module, library;
	struct graph graphs[GRAPHS_MAX];
	struct graph_exec execs[GRAPHS_MAX];
};

extern struct driver driver;

/* NULL until the thread makes or sets a context. */
extern _Thread_local struct context *current;
extern _Thread_local struct stream *own_stream; // its own default stream

/* Each call holds the lock, but not while it waits. */
CUresult enter(void);
CUresult leave(CUresult result);

/* NULL and 1 are the context's legacy default stream, 2 is the thread's own. */
struct stream *find_stream(CUstream handle);
/* The stream that NULL means in _ptsz and _ptds functions. */
CUstream own(CUstream handle);
/* Add a node. */
void add_node(struct graph *graph, uint64_t kind, uint64_t busy_ns);
/* Enqueue work on a stream, or add it to the graph that the stream is captured into. */
CUresult put(CUstream handle, uint64_t busy_ns);
/* Is it a kernel's or a function's handle? */
bool is_code(CUfunction function);
/* When the last stream of the context is done; NULL: of all contexts. */
uint64_t last_ns_of(const struct context *context);

/* These release the lock. */
CUresult leave_and_wait(uint64_t done_ns);
CUresult wait_for_stream(CUstream handle);

#pragma GCC visibility pop
