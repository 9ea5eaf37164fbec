// SPDX-License-Identifier: Apache-2.0
// Runs the BPF program that unwinds a snapshot, once the tables that the sampler missed are loaded. One thread.
#pragma once

#include "agent/bpf/loader.h"
#include "base/error.h"
#include "bpf/sample.h"

struct snapshot_program;

/** Load it with the maps of @loader, which outlives it. Returns 0 or a negative errno. */
int snapshot_program_open(const struct loader *loader, struct snapshot_program **ret_program,
			  struct error *err);
/** NULL is allowed. */
void snapshot_program_close(struct snapshot_program *program);

/**
 * Unwind @record with the tables of now, and count it with the stack found. Its stack trace comes through the
 * ring. Returns 0, or -errno if it is not counted.
 */
int snapshot_program_run(struct snapshot_program *program, const struct snapshot_record *record);
