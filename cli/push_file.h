// SPDX-License-Identifier: Apache-2.0
// A file of another profiler: read here, so that a hostile one harms nobody else, and sent to a collector in cairn's own batches.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "base/labels.h"
#include "cli/http_client.h"

enum { PUSH_TYPES_MAX = 64 };

struct push_options {
	const char *collector_http;
	const struct http_security *security;
	uint32_t timeout_ms; // of each request
	const char *service; // NULL: the file's name without its ends
	const struct labels *labels;
	const char *type; // in five parts; NULL: the file says
	uint64_t
		at_ns; // when the profile began; 0: the file says, or it ended when the file was written
	uint32_t hz; // of samples that are counts; 0: they stay counts
};

/** What was sent. */
struct push_result {
	const char *format;
	uint64_t samples; // as the file counts them
	uint32_t types;   // profile types
	uint64_t from_ns, to_ns;
	uint64_t refused; // rows
	bool duplicate;   // all of it was stored before
	char note[400];   // of the collector; "": nothing was refused or left out
};

/**
 * Push the file at @path, "-" for standard input. Returns 0; a negative errno with @err: of the file, or of the collector in
 * its words.
 */
int push_file(const struct push_options *options, const char *path, struct push_result *ret_result,
	      struct error *err);
