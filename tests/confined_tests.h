// SPDX-License-Identifier: Apache-2.0
// Test programs that launch confined processes: they are executed anew as the launcher.
#pragma once

#include <stdlib.h>

#include "base/confined/confined_launcher.h"
#include "base/confined/confined_process.h"
#include "tests/test.h"

/** For RUN_TESTS_AFTER(): serve the tasks if this is the launcher. */
#define SERVE_CONFINED(name, ...)                                                             \
	static void name(int argc, char **argv)                                               \
	{                                                                                     \
		static const struct confined_task *const tasks[] = { __VA_ARGS__ };           \
		if (confined_launcher_is_wanted(argc, argv))                                  \
			exit(confined_launcher_serve(tasks, sizeof(tasks) / sizeof(*tasks))); \
	}

static inline struct confined_launcher *launch(void)
{
	struct confined_launcher *launcher = NULL;
	struct error err = { 0 };

	if (confined_launcher_start(&launcher, &err))
		fail_msg("%s", err.text);
	return launcher;
}
