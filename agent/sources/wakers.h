// SPDX-License-Identifier: Apache-2.0
// The BPF programs of wake-ups (bpf/switch/wakers.bpf.c): waker stacks of some services' threads. They need
// the thread states of the programs of context switches. Uses libbpf, as loader.c does. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/symbols/kallsyms.h"
#include "agent/bpf/loader.h"
#include "agent/process/process_table.h"
#include "agent/sources/source.h"
#include "agent/sources/switches.h"
#include "base/error.h"
#include "base/event_log.h"

struct wakers;

struct wakers_options {
	uint64_t slot_ns;
	const struct switches *switches; // outlives the wakers
	const struct process_table *processes;
	const struct kallsyms *kallsyms; // NULL: interrupts are taken for the interrupted thread
	bool only_targets;               // all target processes of the sampler, of any service
	const char *services;     // else processes of these services, separated by commas; copied
	struct event_log *events; // may be NULL
};

/** Load the programs beside the sampler of @loader, which outlives them, and attach them. */
int wakers_open(const struct loader *loader, const struct wakers_options *options,
		struct wakers **ret_wakers, struct error *err);
/** NULL is allowed. */
void wakers_close(void *wakers);

/** Other services from now on; copied. Returns 0 or -ENOMEM: the old ones stay. */
int wakers_set_services(struct wakers *wakers, const char *services);

/** What the kernel accepted; the switches' level or a higher one. */
enum loader_level wakers_level(const struct wakers *wakers);

/** Is @service in @services, a list separated by commas? */
bool wakers_is_listed(const char *services, const char *service);

extern const struct source wakers_source;
