/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Variables that all BPF objects share, in one struct: compilers order single variables differently in each
// object, and objects share bytes, not names.
#pragma once

#include <linux/types.h>

struct shared_variables {
	__u64 realtime_offset_ns; // Unix time minus bpf_ktime_get_ns(); the agent keeps it up to date
	__u64 woken_last_ns;      // when the agent was last woken (bpf/wake.bpf.h)
	__u64 gpu_idle_until_ns; // end of the last interval with an idle GPU: nothing to charge later
	__u32 active_counts;     // lowest bit: the active one of counts_maps
};
