// SPDX-License-Identifier: Apache-2.0
// What every question to a collector has: whom, about which series, about which time.
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "cli/http_client.h"

struct question {
	char *from, *to; // owned
	char *collector_http;
	uint64_t timeout_ns;
	const char *selector; // of the command line
};

/* The flags that fill it, for a command's table of options. */
#define QUESTION_OPTIONS(question)                                                              \
	{                                                                                       \
		"from", 0, CONFIG_STRING, &(question)->from,   "now-15m",                       \
		0,      0, "TIME",        "begin of the range"                                  \
	},                                                                                      \
		{ "to",                                                                         \
		  0,                                                                            \
		  CONFIG_STRING,                                                                \
		  &(question)->to,                                                              \
		  "now",                                                                        \
		  0,                                                                            \
		  0,                                                                            \
		  "TIME",                                                                       \
		  "end of the range, itself not included" },                                    \
		{ "collector-http",                                                             \
		  0,                                                                            \
		  CONFIG_STRING,                                                                \
		  &(question)->collector_http,                                                  \
		  "http://127.0.0.1:7070",                                                      \
		  0,                                                                            \
		  0,                                                                            \
		  "URL",                                                                        \
		  "where the collector answers" },                                              \
	{                                                                                       \
		"timeout", 0, CONFIG_DURATION, &(question)->timeout_ns, "60s", 100 * NS_PER_MS, \
			3600 * NS_PER_SECOND, "TIME", "give up after this long"                 \
	}

void question_deinit(struct question *question);

/** The words that follow the flags: at most one selector. Returns 0 or -EINVAL. */
int question_take_selector(struct question *question, int count, char **words, struct error *err);

/** Are the times times, in this order? Returns 0 or -EINVAL. */
int question_check(const struct question *question, struct error *err);

/** The collector's @path with the selection as parameters. */
void question_begin_url(const struct question *question, const char *path, struct buffer *url);

/**
 * Get @url, showing progress on a terminal. Returns 0 with a whole answer of status 200; a negative
 * errno and @err, in the collector's words if it refused.
 */
int question_ask(const struct question *question, struct buffer *url,
		 struct http_response *response, struct error *err);

/** The string at @key, or "". */
const char *json_text_of(const json_t *object, const char *key);
