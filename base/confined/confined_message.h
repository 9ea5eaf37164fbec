// SPDX-License-Identifier: Apache-2.0
// What a program and its launcher of confined processes say to each other, on sockets of type SOCK_SEQPACKET.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/confined/confined_task.h"
#include "base/error.h"

/** The launcher's only argument, and the descriptor of its socket. */
#define CONFINED_LAUNCHER_ARGUMENT "--confined-launcher"
enum {
	CONFINED_LAUNCHER_FD = 3,
	CONFINED_EXIT_REFUSED = 125, // a process that could not be confined
};

/** A launcher's first message. One that replaces a dead one sends it, too. */
struct confined_hello {
	struct error err; // code 0: it serves
	bool has_landlock;
};

/** A request for a process; its descriptors: the process's socket, and the files that are present, in order. */
struct confined_request {
	char task[CONFINED_TASK_NAME_BYTES];
	uint32_t count;   // of files
	uint32_t present; // bit i: file i
};

/** The end of a process, on its socket. */
struct confined_end {
	int32_t error;  // negative errno: it was not started
	int32_t status; // as of waitpid(2)
};
