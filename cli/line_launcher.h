// SPDX-License-Identifier: Apache-2.0
// --lines: source lines are read by confined processes, or not at all.
#pragma once

#include <stdbool.h>

#include "base/confined/confined_process.h"

/** The launcher that --lines needs; NULL: not @wanted, or not to be had, and @command has printed why. */
struct confined_launcher *line_launcher_start(bool wanted, const char *command);
