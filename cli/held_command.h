// SPDX-License-Identifier: Apache-2.0
// A command that is started but held before its first instruction, so that a profiler can begin to
// follow it first.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/** A zeroed struct is no command. */
struct held_command {
	pid_t pid;
	int pidfd;      // readable once it has ended
	int release_fd; // closing or writing lets the child go on; -1 once released
	int failure_fd; // says why exec failed; -1 once released
	bool ended;     // and its status taken
	int wait_status;
};

/**
 * Fork a child that will become @argv (ended by NULL, found along PATH) when released. It gets
 * default signal handling. Call it before threads are made.
 */
int held_command_start(char *const *argv, struct held_command *ret_command, struct error *err);

/**
 * Let the child become the command. Returns 0 once it has, or a negative errno and @err when it
 * could not (not found, not executable).
 */
int held_command_release(struct held_command *command, const char *name, struct error *err);

/** Take the status of a command that has ended, or ends within @timeout_ms. True if it has. */
bool held_command_wait(struct held_command *command, int timeout_ms);

/** End the command if it still runs: SIGTERM, after a grace time SIGKILL. Frees what is held. */
void held_command_stop(struct held_command *command);
