/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Variables that all programs have in common. They are one structure: of several variables a compiler may
// choose another order in each object, and objects share bytes, not names.
#pragma once

#include <linux/types.h>

struct shared_variables {
	__u64 realtime_offset_ns; // Unix time minus bpf_ktime_get_ns(), kept up to date by the agent
	__u64 woken_last_ns;      // when the agent was woken last: bpf/wake.bpf.h
	__u64 gpu_idle_until_ns; // the end of the last window in which a GPU was idle: later there is
				 // nothing to charge to anybody
	__u32 active_counts;     // which of counts_maps programs count in, by its lowest bit
};
