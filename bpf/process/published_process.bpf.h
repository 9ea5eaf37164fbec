/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What the agent has published about a process, or else about its parent.
#pragma once

#include "base/time_span.h"
#include "bpf/maps.bpf.h"

/*
 * An inherited entry expires. A child that runs is published by then; one that slept may have mapped other
 * code since, which nothing reports to BPF.
 */
#define INHERITED_NS 10000000000ULL

static __always_inline bool is_of_process(const struct process_unwind *process,
					  const struct process_key *key)
{
	return process && process->key.start_ns == key->start_ns &&
	       process->key.exec_id == key->exec_id;
}

/* NULL if nothing is published, or the entry belongs to an earlier process with this pid. */
static __always_inline const struct process_unwind *find_published_process(
	const struct process_key *key)
{
	const struct process_unwind *process = bpf_map_lookup_elem(&unwind_processes, &key->pid);

	if (is_of_process(process, key))
		return process;
	process = bpf_map_lookup_elem(&inherited_processes, &key->pid);
	if (!is_of_process(process, key) ||
	    ns_between(key->start_ns, bpf_ktime_get_boot_ns()) > INHERITED_NS)
		return NULL;
	return process;
}
