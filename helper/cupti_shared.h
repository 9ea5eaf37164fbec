// SPDX-License-Identifier: Apache-2.0
// What the CUPTI helper and the agent tell each other: a page of memory that the helper has made in its
// process (a memfd called CUPTI_SHARED_NAME) and that the agent finds there and maps. The agent opens
// windows, the helper answers with what each of them showed. Both sides take what the other one wrote
// for hostile: positions are masked, texts end where the memory does.
#pragma once

#include <stdint.h>

#define CUPTI_SHARED_NAME  "cairn-cupti" // as /proc/PID/maps has it: /memfd:cairn-cupti (deleted)
#define CUPTI_SHARED_MAGIC 0x757063616e726961ULL
/** The exported function that the agent's probe sits on; see cairn_cupti_launched() in cupti_helper.c. */
#define CUPTI_PROBE_NAME "cairn_cupti_launched"

enum {
	CUPTI_SHARED_VERSION = 2,
	CUPTI_RECORDS = 1 << 14, // of a window: 16 kernels a millisecond of one second
	CUPTI_NAMES = 1 << 10,   // different kernels of a process
	CUPTI_NAME_BYTES = 256,  // mangled; a longer one is cut
	CUPTI_SESSION_MS_MAX = 2000,
	CUPTI_OWN_PERCENT_MAX = 1, // of a CPU, over a window
};

enum cupti_state {
	CUPTI_STATE_IDLE,   // nothing is subscribed
	CUPTI_STATE_OPEN,   // a window is open
	CUPTI_STATE_ASIDE,  // somebody else uses CUPTI: torch.profiler, Nsight
	CUPTI_STATE_ABSENT, // no libcupti that could be loaded
	CUPTI_STATE_FAILED, // CUPTI refused; see result
	CUPTI_STATE_DEAR,   // ended early: the helper took more than CUPTI_OWN_PERCENT_MAX of a CPU
};

/** One kernel that ran. */
struct cupti_record {
	uint32_t
		correlation; // that of the launch; all kernels of a graph have the one of its launch
	uint32_t name;       // in names
	uint64_t duration_ns; // on the device
	uint32_t device, stream;
};

struct cupti_shared {
	uint64_t magic;
	uint32_t version, bytes;
	// The agent's. A window is asked for by raising its number, which wakes the helper (a futex).
	uint32_t window_asked;
	uint32_t window_ms;   // at most CUPTI_SESSION_MS_MAX; half of it is for comparison
	uint32_t records_max; // the window ends when so many were taken; at most CUPTI_RECORDS
	uint32_t one_in; // of so many launches one is told to the probe, and its kernels recorded
	// The helper's, about the last window; window_done is written last.
	uint32_t window_done;
	uint32_t state; // enum cupti_state
	int32_t result; // CUptiResult of what was refused
	uint32_t padding;
	uint64_t compared_ns, compared_launches; // callbacks only, no kernel is measured
	uint64_t measured_ns, measured_launches;
	uint64_t kernels, kernel_ns;    // all, whether recorded or not
	uint64_t records_dropped;       // by CUPTI, or because buffers or names were used up
	uint64_t own_ns;                // in the helper's own code, all threads
	uint64_t enable_ns, disable_ns; // how long CUPTI took to begin and to end
	uint32_t record_count, name_count;
	struct cupti_record records[CUPTI_RECORDS];
	char names[CUPTI_NAMES][CUPTI_NAME_BYTES];
};

_Static_assert(sizeof(struct cupti_record) == 24, "no padding");
