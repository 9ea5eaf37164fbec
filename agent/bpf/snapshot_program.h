// SPDX-License-Identifier: Apache-2.0
// The kernel program that unwinds a snapshot: the sampler's unwinder over the sampler's tables, run
// when the tables that the sampler missed are there. Uses libbpf, as loader.c does. One thread.
#pragma once

#include "agent/bpf/loader.h"
#include "base/error.h"
#include "bpf/sample.h"

struct snapshot_program;

/** Load it beside the sampler of @loader, which outlives it. Returns 0 or a negative errno. */
int snapshot_program_open(const struct loader *loader, struct snapshot_program **ret_program,
			  struct error *err);
/** NULL is allowed. */
void snapshot_program_close(struct snapshot_program *program);

/**
 * Unwind @record by the tables that are there now, and count it: with its whole stack, or with what
 * could be found of it. The stack's body comes with the other records. Returns 0 or -errno: it is in
 * no count then.
 */
int snapshot_program_run(struct snapshot_program *program, const struct snapshot_record *record);
