// SPDX-License-Identifier: Apache-2.0
// The kernel program that tells who ends the waits of some services' threads (bpf/switch/wakers.bpf.c). It
// goes by what the programs of context switches keep of threads. Uses libbpf, as loader.c does. One
// thread.
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
	const struct kallsyms *kallsyms; // NULL: interrupts cannot be told from whom they interrupt
	bool only_targets; // all processes that the sampler follows, whatever service they are
	const char
		*services; // else of these services' processes: names with commas between; copied
	struct event_log *events; // may be NULL
};

/** Load the programs beside the sampler of @loader, which outlives them, and attach them. */
int wakers_open(const struct loader *loader, const struct wakers_options *options,
		struct wakers **ret_wakers, struct error *err);
/** NULL is allowed. */
void wakers_close(void *wakers);

/** Find the services' processes among those that were sampled: once a window is enough. */
void wakers_follow(struct wakers *wakers);

/** What was not refused; the switches' level or a higher one. */
enum loader_level wakers_level(const struct wakers *wakers);

/** Is @service one of the names in @services, which has commas between them? */
bool wakers_is_listed(const char *services, const char *service);

extern const struct source wakers_source;
