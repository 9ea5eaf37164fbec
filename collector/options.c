// SPDX-License-Identifier: Apache-2.0
#include "collector/options.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define HOUR_NS (3600 * NS_PER_SECOND)

static int check(const struct collector_options *options, int argc, char **argv, int first_word,
		 struct error *err)
{
	enum log_level level;

	if (first_word < argc)
		return error_set(err, -EINVAL,
				 "unexpected argument \"%s\"; see cairn-collector --help",
				 argv[first_word]);
	if (log_level_parse(options->log_level, &level))
		return error_set(err, -EINVAL,
				 "log-level: \"%s\" is not one of error, warn, info and debug",
				 options->log_level);
	if (!*options->data)
		return error_set(err, -EINVAL, "data: expected a directory");

	log_set_level(level);
	return 0;
}

int collector_options_parse(struct collector_options *options, int argc, char **argv,
			    enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		{ .name = "data",
		  .letter = 'd',
		  .kind = CONFIG_STRING,
		  .value = &options->data,
		  .default_text = "/var/lib/cairn",
		  .argument = "DIR",
		  .help = "Store profiles in this directory, created if missing" },
		{ .name = "grpc",
		  .kind = CONFIG_STRING,
		  .value = &options->grpc,
		  .default_text = "127.0.0.1:7171",
		  .argument = "ADDR",
		  .help = "Receive agents' batches at this host:port or unix:PATH" },
		{ .name = "http",
		  .kind = CONFIG_STRING,
		  .value = &options->http,
		  .default_text = "127.0.0.1:7070",
		  .argument = "ADDR",
		  .help = "Serve the web page and the HTTP API at this host:port. There is no "
			  "login: whoever reaches it can read all profiles" },
		{ .name = "retention",
		  .kind = CONFIG_DURATION,
		  .value = &options->retention_ns,
		  .default_text = "7d",
		  .min = HOUR_NS,
		  .max = 3660 * 24 * HOUR_NS,
		  .argument = "TIME",
		  .help = "Delete profiles that are older" },
		{ .name = "memory",
		  .kind = CONFIG_SIZE,
		  .value = &options->memory_bytes,
		  .default_text = NULL,
		  .min = 64ULL << 20,
		  .max = 1ULL << 42,
		  .argument = "SIZE",
		  .help = "Memory for the store (half of it), agents' messages and answers. "
			  "Without "
			  "it: three quarters of the cgroup's limit, or a quarter of the machine's "
			  "memory, at most 2GiB" },
		{ .name = "debug-files",
		  .kind = CONFIG_SIZE,
		  .value = &options->debug_files_bytes,
		  .default_text = "4GiB",
		  .min = 1ULL << 20,
		  .max = 1ULL << 42,
		  .argument = "SIZE",
		  .help = "Disk limit of uploaded debug files, and again of fetched ones" },
		{ .name = "debuginfod",
		  .kind = CONFIG_STRING,
		  .value = &options->debuginfod,
		  .default_text = NULL,
		  .argument = "URLS",
		  .help = "Fetch debug files from these debuginfod servers for frames without "
			  "names" },
		{ .name = "grpc-threads",
		  .kind = CONFIG_UINT,
		  .value = &options->grpc_threads,
		  .default_text = "4",
		  .min = 1,
		  .max = 64,
		  .argument = "N",
		  .help = "Batches that are processed at the same time" },
		{ .name = "http-threads",
		  .kind = CONFIG_UINT,
		  .value = &options->http_threads,
		  .default_text = "4",
		  .min = 1,
		  .max = 64,
		  .argument = "N",
		  .help = "Queries that run at the same time" },
		{ .name = "log-level",
		  .kind = CONFIG_STRING,
		  .value = &options->log_level,
		  .default_text = "info",
		  .argument = "LEVEL",
		  .help = "error, warn, info or debug" },
	};
	const struct config_program program = {
		.name = "cairn-collector",
		.summary =
			"Receives profiles from agents, stores them, and serves them on a web page "
			"and an HTTP API.",
		.notes = "Example:\n"
			 "  cairn-collector --data /var/lib/cairn --grpc 0.0.0.0:7171\n",
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int first_word;

	int rc = config_parse(&program, argc, argv, ret_outcome, &first_word, err);
	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	return check(options, argc, argv, first_word, err);
}

void collector_options_deinit(struct collector_options *options)
{
	free(options->data);
	free(options->grpc);
	free(options->http);
	free(options->debuginfod);
	free(options->log_level);
	*options = (struct collector_options){ 0 };
}
