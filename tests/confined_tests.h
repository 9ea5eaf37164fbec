// SPDX-License-Identifier: Apache-2.0
// Test programs that launch confined processes: they are executed anew as the launcher.
#pragma once

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

/** The only child of a process; 0: it has none. */
static inline pid_t child_of(pid_t parent)
{
	char path[64];
	int pid = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%d", &pid) != 1)
		pid = 0;
	fclose(file);
	return pid;
}

/** It is this program's only child, and has the launcher for its own. */
static inline pid_t keeper_pid(void)
{
	return child_of(getpid());
}

/** Kill the launcher, and wait for the next one. */
static inline void kill_launcher(struct confined_launcher *launcher)
{
	const pid_t keeper = keeper_pid(), pid = child_of(keeper);
	const uint32_t restarts = confined_launcher_restarts(launcher);

	assert_true(keeper > 0 && pid > 0);
	assert_int_equal(0, kill(pid, SIGKILL));
	for (int ms = 0; ms < 60000 && confined_launcher_restarts(launcher) == restarts; ms++)
		usleep(1000);
	assert_int_equal(restarts + 1, confined_launcher_restarts(launcher));
}
