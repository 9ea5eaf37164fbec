// SPDX-License-Identifier: Apache-2.0
#include "cli/api_error.h"

#include <errno.h>
#include <jansson.h>

#include "base/utf8.h"

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

int api_error_read(const struct http_response *response, struct error *err)
{
	json_t *root = json_loadb((const char *)response->body.bytes, response->body.size, 0, NULL);
	const json_t *error = json_object_get(root, "error");
	const char *field = text_of(error, "field");
	const char *message = text_of(error, "message");

	if (*message)
		error_set(err, -EIO, "%s%s%s", field, *field ? ": " : "", message);
	else
		error_set(
			err, -EIO,
			"HTTP status %ld without a reason; is --collector-http a cairn-collector?",
			response->status);
	json_decref(root);
	utf8_clean(err->text);
	return -EIO;
}

int api_error_no_answer(const char *collector_http, int rc, const struct error *cause,
			struct error *err)
{
	if (rc == -EINVAL)
		return error_set(err, rc, "%s", cause->text);
	return error_set(err, rc, "no answer from %.100s: %.200s%s", collector_http, cause->text,
			 rc == -EPROTO
				 ? ""
				 : "; is cairn-collector running there? --collector-http sets "
				   "another address");
}
