// SPDX-License-Identifier: Apache-2.0
// What the subcommands share: entry points, exit codes and durations.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	EXIT_OK = 0,
	EXIT_FAILED = 1, // the machine, the collector or a file failed
	EXIT_USAGE = 2,  // the command line is wrong
};

struct command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv); // argv[0] is the command's name; returns an exit code
};

int cmd_top(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_gpu_kernels(int argc, char **argv);
int cmd_query(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_diagnose(int argc, char **argv);
int cmd_spikes(int argc, char **argv);
int cmd_push(int argc, char **argv);
int cmd_upload(int argc, char **argv);
int cmd_delete(int argc, char **argv);
int cmd_boost(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_status(int argc, char **argv);

/**
 * A duration as -d takes it: "10" (seconds), "1.5", "500ms", "2m". @flag is named in @err.
 * Returns 0, or -EINVAL if it is no duration, shorter than @ns_min or longer than a week.
 */
int interval_parse(const char *flag, const char *text, uint64_t ns_min, uint64_t *ret_ns,
		   struct error *err);

/** Print what @err says of @command ("cairn query") unless @rc is 0. Returns its exit code: EXIT_USAGE for -EINVAL. */
int command_exit(const char *command, int rc, const struct error *err);

/** The one of @commands with @name, or NULL. */
const struct command *command_find(const struct command *commands, uint32_t count,
				   const char *name);
/** The command whose name is nearest to @name, or NULL if none is near. */
const struct command *command_nearest(const struct command *commands, uint32_t count,
				      const char *name);
