// SPDX-License-Identifier: Apache-2.0
// The launcher of confined processes: this program, executed anew by confined_launcher_start(). It has no privileges and
// one thread, reads no hostile byte, and ends when its program does. A keeper, its parent, replaces it when it dies: the
// program itself can neither fork nor execute any more.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/confined/confined_task.h"

/** To be called first in main(): whether the program was started as a launcher. */
bool confined_launcher_is_wanted(int argc, char **argv);

/** Serve these tasks until the program that started it ends. Returns the exit status. */
int confined_launcher_serve(const struct confined_task *const *tasks, uint32_t count);
