// SPDX-License-Identifier: Apache-2.0
// The memory that the CUPTI helper and the agent share: a memfd that the helper creates in its process, where the agent
// finds and maps it. The agent requests CUPTI sessions, the helper writes their results. Each side treats what the other
// one wrote as hostile: it bounds positions and terminates texts.
#pragma once

#include <stdint.h>

#define CUPTI_SHARED_NAME  "cairn-cupti" // in /proc/PID/maps: /memfd:cairn-cupti (deleted)
#define CUPTI_SHARED_MAGIC 0x757063616e726961ULL
/** The exported function that the agent probes: cairn_cupti_launched() in cupti_helper.c. */
#define CUPTI_PROBE_NAME "cairn_cupti_launched"

enum {
	CUPTI_SHARED_VERSION = 2,
	CUPTI_RECORDS = 1 << 14, // of a session: 16 GPU kernels per millisecond of one second
	CUPTI_NAMES = 1 << 10,   // different GPU kernels of a session
	CUPTI_NAME_BYTES = 256,  // mangled; longer ones are cut
	CUPTI_SESSION_MS_MAX = 2000,
	CUPTI_OVERHEAD_PERCENT_MAX = 1, // of one CPU, in a session
};

enum cupti_state {
	CUPTI_STATE_IDLE,        // the session is over, or none was requested
	CUPTI_STATE_OPEN,        // a session runs
	CUPTI_STATE_IN_USE,      // somebody else has subscribed to CUPTI: torch.profiler, Nsight
	CUPTI_STATE_NO_LIBRARY,  // libcupti cannot be loaded
	CUPTI_STATE_FAILED,      // CUPTI returned an error: result
	CUPTI_STATE_OVER_BUDGET, // ended early: the helper exceeded CUPTI_OVERHEAD_PERCENT_MAX
};

/** One run of a GPU kernel. */
struct cupti_record {
	uint32_t
		correlation; // of its launch; all GPU kernels of a CUDA graph share that of the graph's launch
	uint32_t name;        // in names
	uint64_t duration_ns; // on the device
	uint32_t device, stream;
};

struct cupti_shared {
	uint64_t magic;
	uint32_t version, bytes;
	// Written by the agent. Raising the number requests a session and wakes the helper (a futex).
	uint32_t session_requested;
	uint32_t session_ms;  // at most CUPTI_SESSION_MS_MAX; the first half is the baseline
	uint32_t records_max; // the session ends with this many; at most CUPTI_RECORDS
	uint32_t one_in;      // sample one launch in this many, and record its GPU kernels
	// Written by the helper about the last session; session_done comes last.
	uint32_t session_done;
	uint32_t state; // enum cupti_state
	int32_t result; // CUptiResult of the failed call
	uint32_t padding;
	uint64_t baseline_ns, baseline_launches; // launch callbacks only, no GPU kernel is measured
	uint64_t measured_ns, measured_launches;
	uint64_t gpu_kernels, gpu_kernel_ns; // all, recorded or not
	uint64_t records_dropped;            // by CUPTI, or because buffers or names ran out
	uint64_t overhead_ns;                // CPU time of the helper's code, all threads
	uint64_t enable_ns, disable_ns;      // time that CUPTI took to begin and to end
	uint32_t record_count, name_count;
	struct cupti_record records[CUPTI_RECORDS];
	char names[CUPTI_NAMES][CUPTI_NAME_BYTES];
};

_Static_assert(sizeof(struct cupti_record) == 24, "no padding");
