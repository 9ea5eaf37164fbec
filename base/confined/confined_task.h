// SPDX-License-Identifier: Apache-2.0
// What a confined process does, and within which limits.
#pragma once

#include "base/confined/confinement.h"

enum { CONFINED_TASK_NAME_BYTES = 32 };

struct confined_task {
	char name[CONFINED_TASK_NAME_BYTES];
	struct confinement limits;
	/** Runs in a process of its own with the files it was given (-1: none). Returns 0 or 1. */
	int (*run)(const int *files);
};
