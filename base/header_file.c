// SPDX-License-Identifier: Apache-2.0
#include "base/header_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/secret_file.h"

void header_list_deinit(struct header_list *list)
{
	if (list->bytes)
		secret_erase(list->bytes, HEADER_FILE_BYTES_MAX);
	free(list->bytes);
	*list = (struct header_list){ 0 };
}

/** @bytes has room for one byte more than is read, for a NUL. */
static int read_bytes(const char *path, char bytes[HEADER_FILE_BYTES_MAX], struct error *err)
{
	size_t size;
	int rc = secret_file_read_bytes(path, "headers", bytes, HEADER_FILE_BYTES_MAX, &size, err);

	if (rc)
		return rc;
	if (size == HEADER_FILE_BYTES_MAX)
		return error_set(err, -EINVAL, "%s: longer than %d bytes", path,
				 HEADER_FILE_BYTES_MAX - 1);
	if (memchr(bytes, '\0', size))
		return error_set(err, -EINVAL, "%s: has NUL bytes; it is text", path);
	return 0;
}

/** gRPC's and HTTP's own, and those of bytes that travel encoded. */
static bool is_reserved(const char *name)
{
	static const char *const names[] = {
		"content-type", "content-length", "content-encoding", "host",
		"te",           "user-agent",     "connection",       "transfer-encoding"
	};
	size_t size = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return strncmp(name, "grpc-", 5) == 0 ||
	       (size >= 4 && strcmp(name + size - 4, "-bin") == 0);
}

/** Lower its letters. False: it cannot be a header's. */
static bool make_name(char *name)
{
	for (char *at = name; *at; at++) {
		if (*at >= 'A' && *at <= 'Z')
			*at = (char)(*at - 'A' + 'a');
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-_.", *at))
			return false;
	}
	return *name;
}

static bool is_value(const char *value)
{
	for (const char *at = value; *at; at++)
		if (*at < ' ' || *at > '~')
			return false;
	return *value;
}

/** Cut blanks off both ends, in place. */
static char *trim(char *text)
{
	size_t size;

	text += strspn(text, " \t\r");
	size = strlen(text);
	while (size && strchr(" \t\r", text[size - 1]))
		text[--size] = '\0';
	return text;
}

/** Returns 0, or -EINVAL and what is wrong with the line. */
static int add_line(struct header_list *list, char *line, const char **ret_fault)
{
	char *colon = strchr(line, ':');

	*ret_fault = "is no \"name: value\"";
	if (!colon)
		return -EINVAL;
	*colon = '\0';
	char *name = trim(line), *value = trim(colon + 1);
	if (!make_name(name))
		return -EINVAL;
	*ret_fault = "has a value that no header carries: printable ASCII";
	if (!is_value(value))
		return -EINVAL;
	*ret_fault = "has a name that is the protocol's own";
	if (is_reserved(name))
		return -EINVAL;
	*ret_fault = "is one too many";
	if (list->count == HEADERS_MAX)
		return -EINVAL;
	list->headers[list->count++] = (struct header){ name, value };
	return 0;
}

int header_file_read(const char *path, struct header_list *ret_list, struct error *err)
{
	struct header_list list = { .bytes = calloc(1, HEADER_FILE_BYTES_MAX) };
	int rc = list.bytes ? read_bytes(path, list.bytes, err)
			    : error_set(err, -ENOMEM, "%s: out of memory", path);
	char *next = list.bytes;
	uint32_t number = 0;

	while (!rc && next) {
		char *line = trim(strsep(&next, "\n"));
		const char *fault;

		number++;
		if (*line && *line != '#' && add_line(&list, line, &fault))
			rc = error_set(err, -EINVAL, "%s: line %u %s", path, number, fault);
	}
	if (rc) {
		header_list_deinit(&list);
		return rc;
	}
	*ret_list = list;
	return 0;
}
