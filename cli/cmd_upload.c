// SPDX-License-Identifier: Apache-2.0
// cairn upload: send debug files to a collector, which names the frames that agents could not.

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/symbols/debug_file.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config.h"
#include "cli/api_error.h"
#include "cli/command.h"
#include "cli/http_client.h"
#include "cli/json_line.h"
#include "cli/progress.h"

struct upload_options {
	char *collector_http;
	uint64_t timeout_ns;
	struct http_security security;
	bool json;
	int first_file;
};

static const char notes[] =
	"FILE is an executable or library with symbols, or a separate debug file. It needs a\n"
	"build id, which matches it to the stripped file. Frames sampled before the upload\n"
	"get names, too.\n"
	"\n"
	"  cairn upload build/server\n"
	"  cairn upload /usr/lib/debug/.build-id/*/*.debug\n";

static int parse(int argc, char **argv, struct upload_options *options,
		 enum config_outcome *ret_outcome, struct error *err)
{
	const struct config_option table[] = {
		{ "collector-http", 0, CONFIG_STRING, &options->collector_http,
		  "http://127.0.0.1:7070", 0, 0, "URL", "address of the collector's HTTP API" },
		{ "timeout", 0, CONFIG_DURATION, &options->timeout_ns, "10m", 100 * NS_PER_MS,
		  24 * 3600 * NS_PER_SECOND, "TIME", "time limit per file" },
		HTTP_SECURITY_OPTIONS(&options->security),
		{ "json", 0, CONFIG_BOOL, &options->json, NULL, 0, 0, NULL,
		  "print a JSON object per file" },
	};
	const struct config_program program = {
		.name = "cairn upload",
		.summary = "Upload debug files to a collector, so that stripped code gets names.",
		.usage = "cairn upload FILE...",
		.notes = notes,
		.options = table,
		.option_count = ARRAY_SIZE(table),
	};
	int rc = config_parse(&program, argc, argv, ret_outcome, &options->first_file, err);

	if (rc || *ret_outcome == CONFIG_EXIT)
		return rc;
	if (options->first_file >= argc)
		return error_set(err, -EINVAL, "FILE is missing; see `cairn upload --help`");
	return 0;
}

/* The upload of one file. */
struct sending {
	const char *path;
	uint64_t started_ns;
	uint64_t bytes;
};

static void show_progress(void *context, uint64_t bytes)
{
	const struct sending *sending = context;
	uint64_t waited_ns = clock_monotonic_ns() - sending->started_ns;
	char detail[64];

	if (waited_ns < NS_PER_SECOND)
		return;
	snprintf(detail, sizeof(detail), "%llu of %llu MiB", (unsigned long long)(bytes >> 20),
		 (unsigned long long)(sending->bytes >> 20));
	progress_draw("uploading", waited_ns, 0, detail);
}

static int send_file(const struct upload_options *options, const char *path, int fd, uint64_t bytes,
		     const char *build_id, struct error *err)
{
	_cleanup_(http_response_deinit) struct http_response response = { 0 };
	_cleanup_(buffer_deinit) struct buffer url = { 0 };
	struct sending sending = { path, clock_monotonic_ns(), bytes };
	size_t length = strlen(options->collector_http);
	struct error cause = { 0 };

	while (length && options->collector_http[length - 1] == '/')
		length--;
	buffer_append(&url, options->collector_http, length);
	buffer_append_string(&url, "/api/v1/debug-files/");
	buffer_append_string(&url, build_id);
	const struct http_request request = {
		.url = buffer_string(&url),
		.security = &options->security,
		.timeout_ms = (uint32_t)(options->timeout_ns / NS_PER_MS),
		.progress = progress_is_shown() ? show_progress : NULL,
		.context = &sending,
	};
	int rc = http_put(&request, fd, bytes, &response, &cause);
	progress_clear();
	if (rc)
		return api_error_no_answer(options->collector_http, rc, &cause, err);
	return response.status == 201 ? 0 : api_error_read(&response, err);
}

static int upload(const struct upload_options *options, const char *path, struct error *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char build_id[BUILD_ID_TEXT_BYTES];
	struct stat status;

	if (fd < 0 || fstat(fd, &status))
		return error_errno(err, -errno, "cannot be read");
	if (!S_ISREG(status.st_mode) || debug_file_read_build_id(fd, build_id))
		return error_set(err, -EINVAL,
				 "not an ELF file with a build id; link it with --build-id");
	int rc = send_file(options, path, fd, (uint64_t)status.st_size, build_id, err);
	if (!rc && options->json)
		json_line_print(json_pack("{s:s, s:s, s:I}", "file", path, "build_id", build_id,
					  "bytes", (json_int_t)status.st_size));
	else if (!rc)
		printf("%s: %s\n", path, build_id);
	return rc;
}

int cmd_upload(int argc, char **argv)
{
	struct upload_options options = { .first_file = argc };
	enum config_outcome outcome = CONFIG_RUN;
	struct error err = { 0 };
	int exit_code = EXIT_OK;
	int rc = parse(argc, argv, &options, &outcome, &err);

	if (rc) {
		fprintf(stderr, "cairn upload: %s\n", err.text);
		exit_code = EXIT_USAGE;
	}
	for (int i = options.first_file; !rc && outcome == CONFIG_RUN && i < argc; i++) {
		err = (struct error){ 0 };
		if (upload(&options, argv[i], &err)) {
			fprintf(stderr, "cairn upload: %s: %s\n", argv[i], err.text);
			exit_code = EXIT_FAILED;
		}
	}
	free(options.collector_http);
	http_security_deinit(&options.security);
	return exit_code;
}
