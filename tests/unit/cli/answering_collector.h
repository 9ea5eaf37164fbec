// SPDX-License-Identifier: Apache-2.0
// A collector that answers what a test wants, in place of cli/http_client.c, and a command that is run with its output kept.
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/http_client.h"

enum { COMMAND_WORDS_MAX = 8, COLLECTOR_DIVIDER = 0xff };

/**
 * What it answers: a byte for the status and a body, again and again with COLLECTOR_DIVIDER between, which is in no JSON. The
 * last one is for all further requests; an empty one is no answer.
 */
static struct {
	const char *at, *end;
} collector_answers;

static void collector_set_answers(const void *bytes, size_t size)
{
	collector_answers.at = bytes;
	collector_answers.end = collector_answers.at + size;
}

static int collector_answer_next(struct http_response *response, struct error *err)
{
	static const long statuses[] = { 200, 201, 400, 404, 503 };
	size_t left = (size_t)(collector_answers.end - collector_answers.at);
	const char *end = left ? memchr(collector_answers.at, COLLECTOR_DIVIDER, left) : NULL;
	size_t size = end ? (size_t)(end - collector_answers.at) : left;

	if (!size)
		return error_set(err, -ECONNREFUSED, "connection refused");
	response->status = statuses[(unsigned char)collector_answers.at[0] % ARRAY_SIZE(statuses)];
	buffer_append(&response->body, collector_answers.at + 1, size - 1);
	if (end)
		collector_answers.at = end + 1;
	return response->body.rc;
}

int http_get(const struct http_request *request, struct http_response *response, struct error *err)
{
	(void)request;
	return collector_answer_next(response, err);
}

int http_put(const struct http_request *request, int body_fd, uint64_t body_bytes,
	     struct http_response *response, struct error *err)
{
	(void)request, (void)body_fd, (void)body_bytes;
	return collector_answer_next(response, err);
}

int http_delete(const struct http_request *request, struct http_response *response,
		struct error *err)
{
	(void)request;
	return collector_answer_next(response, err);
}

int http_post(const struct http_request *request, struct http_response *response, struct error *err)
{
	(void)request;
	return collector_answer_next(response, err);
}

int http_post_body(const struct http_request *request, const char *type, const void *bytes,
		   size_t size, struct http_response *response, struct error *err)
{
	(void)request, (void)type, (void)bytes, (void)size;
	return collector_answer_next(response, err);
}

void http_security_deinit(struct http_security *security)
{
	(void)security;
}

void http_response_deinit(struct http_response *response)
{
	buffer_deinit(&response->body);
}

void http_append_parameter(struct buffer *url, const char *name, const char *value)
{
	buffer_printf(url, "&%s=%s", name, value ? value : "");
}

// ---- a command --------------------------------------------------------------------------------

struct command_line {
	int (*run)(int argc, char **argv);
	const char *words[COMMAND_WORDS_MAX];
};

/** What a command printed. */
struct command_output {
	int exit_code;
	char *out, *errors;
	size_t out_size, errors_size;
};

static void command_output_deinit(struct command_output *output)
{
	free(output->out);
	free(output->errors);
}

/** @ret_output is the caller's. */
static void command_line_run(const struct command_line *line, struct command_output *ret_output)
{
	struct command_output output = { 0 };
	FILE *before[] = { stdout, stderr };
	FILE *files[] = { open_memstream(&output.out, &output.out_size),
			  open_memstream(&output.errors, &output.errors_size) };
	char *words[COMMAND_WORDS_MAX + 1] = { 0 };
	int count = 0;

	setenv("NO_COLOR", "1", 1); // whatever standard output is
	if (!files[0] || !files[1])
		abort();
	for (; count < COMMAND_WORDS_MAX && line->words[count]; count++)
		if (!(words[count] = strdup(line->words[count])))
			abort();
	stdout = files[0];
	stderr = files[1];
	output.exit_code = line->run(count, words);
	stdout = before[0];
	stderr = before[1];
	fclose(files[0]);
	fclose(files[1]);
	for (int i = 0; i < count; i++)
		free(words[i]);
	*ret_output = output;
}

/** Has it nothing that a terminal would interpret? */
static bool is_for_terminal(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char byte = (unsigned char)text[i];

		if ((byte < ' ' && byte != '\n') || byte == 0x7f)
			return false;
		if (byte == 0xc2 && i + 1 < size && (unsigned char)text[i + 1] < 0xa0)
			return false;
	}
	return true;
}
