// SPDX-License-Identifier: Apache-2.0
// Answers with the source lines of one function: their values, and their text where it is uploaded or readable.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "collector/query/function_lines.h"
#include "collector/symbols/source_text.h"

enum {
	LINES_FILES_MAX = 8,       // of an answer; more are counted
	LINES_SHOWN_MAX = 2000,    // of a file, with those around them
	LINES_TEXT_BYTES_MAX = 400 // of a line; longer ones are cut
};

/** One answer. */
struct answer {
	const struct api_request *request;
	const struct function_lines *lines;
	const struct symbol_space *space; // NULL: no text
	struct source_text texts[LINES_FILES_MAX];
	uint32_t file_count; // shown
	struct buffer *body;
};

static const char *string_of(const struct answer *answer, uint32_t number)
{
	return string_table_get(&answer->lines->strings, number);
}

/* ---- lines --------------------------------------------------------------------------------- */

/** The lines of one file. */
struct listing {
	struct buffer *body;
	struct source_cursor text;
	bool has_text;
	bool is_short; // the text ends before a line with a value
	uint32_t context;
	uint32_t shown;
};

/** Append a line; one without a value only if it has a text. */
static void append_line(struct listing *listing, uint32_t number, const struct function_line *line)
{
	const char *text;
	uint32_t size;
	char shown[LINES_TEXT_BYTES_MAX + 1];
	bool has_text = listing->has_text && number &&
			source_cursor_seek(&listing->text, number, &text, &size);

	if ((!line && !has_text) || listing->shown == LINES_SHOWN_MAX)
		return;
	buffer_printf(listing->body, "%s{\"line\":%u,\"self\":", listing->shown++ ? "," : "",
		      number);
	json_append_int(listing->body, line ? line->self : 0);
	buffer_append_string(listing->body, ",\"total\":");
	json_append_int(listing->body, line ? line->total : 0);
	if (has_text) {
		size_t kept = utf8_cut(text, size, LINES_TEXT_BYTES_MAX);

		memcpy(shown, text, kept);
		shown[kept] = '\0';
		buffer_append_string(listing->body, ",\"text\":");
		json_append_string(listing->body, shown);
	}
	listing->is_short |= listing->has_text && number && !has_text;
	buffer_append_byte(listing->body, '}');
}

/** Append lines with values, and those around them. */
static void append_lines(struct listing *listing, const struct function_line *lines, uint32_t count)
{
	uint64_t next = 1; // the first line that was not appended

	for (uint32_t i = 0; i < count; i++) {
		uint64_t number = lines[i].number,
			 context = listing->has_text ? listing->context : 0;
		uint64_t end = i + 1 < count ? lines[i + 1].number : UINT32_MAX;

		if (number > context && number - context > next)
			next = number - context;
		for (; number && next < number; next++)
			append_line(listing, (uint32_t)next, NULL);
		append_line(listing, (uint32_t)number, &lines[i]);
		for (next = number + 1; number && next < end && next <= number + context; next++)
			append_line(listing, (uint32_t)next, NULL);
	}
}

/* ---- where the text is from ---------------------------------------------------------------- */

static void append_string(struct buffer *body, const char *title, const char *text)
{
	buffer_append_string(body, title);
	json_append_string(body, text);
}

static void append_source(struct buffer *body, const struct source_text *text, bool names,
			  bool is_short)
{
	append_string(body, ",\"source\":{\"path\":", text->found);
	if (text->origin == SOURCE_UPLOAD) {
		append_string(body, ",\"from\":\"upload\",\"id\":", text->id);
		append_string(body, ",\"service\":", text->of_service);
		append_string(body, ",\"version\":", text->of_version);
		http_append_origin(body, &text->upload);
	} else {
		buffer_append_string(body, ",\"from\":\"folder\",\"modified\":");
		json_append_uint(body, text->modified_s);
	}
	buffer_printf(body,
		      ",\"is_version\":%s,\"others\":%u,\"names_function\":%s,\"is_short\":%s}",
		      text->is_version ? "true" : "false", text->others, names ? "true" : "false",
		      is_short ? "true" : "false");
}

/** Why there is no text. */
static const char *missing_word(const struct function_file *file, const struct source_text *text,
				int rc)
{
	return !file->path      ? "no_path"
	       : !text->origin  ? "not_found"
	       : rc == -EBADMSG ? "not_text"
				: "gone";
}

static int append_file(struct answer *answer, uint32_t number)
{
	const struct function_file *file = &answer->lines->files[number];
	const struct source_text *text = &answer->texts[number];
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
	int rc = text->origin ? source_text_read(&answer->space->sources, text, &bytes) : -ENOENT;

	if (rc && rc != -ENOENT && rc != -EBADMSG)
		return rc;
	struct listing listing = {
		.body = answer->body,
		.text = { (const char *)bytes.bytes, (const char *)bytes.bytes + bytes.size, 0 },
		.has_text = rc == 0,
		.context = answer->request->context,
	};
	append_string(answer->body,
		      number ? ",{\"path\":" : "{\"path\":", string_of(answer, file->path));
	append_string(answer->body, ",\"service\":", string_of(answer, file->service));
	append_string(answer->body, ",\"version\":", string_of(answer, file->version));
	append_string(answer->body, ",\"kind\":", frame_kind_name(file->kind));
	buffer_append_string(answer->body, ",\"self\":");
	json_append_int(answer->body, file->self);
	buffer_append_string(answer->body, ",\"total\":");
	json_append_int(answer->body, file->total);
	buffer_printf(answer->body, ",\"line_count\":%u,\"lines\":[", file->line_count);
	append_lines(&listing, answer->lines->lines + file->first_line, file->line_count);
	buffer_append_byte(answer->body, ']');
	if (rc)
		append_string(answer->body, ",\"missing\":", missing_word(file, text, rc));
	else
		append_source(answer->body, text,
			      source_text_names(&bytes, answer->request->function),
			      listing.is_short);
	buffer_append_byte(answer->body, '}');
	return 0;
}

/* ---- the answer ---------------------------------------------------------------------------- */

static int find_texts(struct answer *answer)
{
	const struct symbol_space *space = answer->space;

	for (uint32_t i = 0; i < answer->file_count; i++) {
		const struct function_file *file = &answer->lines->files[i];

		answer->texts[i].path = string_of(answer, file->path);
		answer->texts[i].service = string_of(answer, file->service);
		answer->texts[i].version = string_of(answer, file->version);
		answer->texts[i].fd = -1;
	}
	return space ? source_texts_find(&space->sources, space->source_folders, space->tenant,
					 answer->texts, answer->file_count)
		     : 0;
}

static int append_answer(struct answer *answer)
{
	struct buffer *body = answer->body;
	const struct function_lines *lines = answer->lines;
	int rc = find_texts(answer);

	buffer_append_byte(body, '{');
	api_append_type(body, answer->request);
	append_string(body, ",\"function\":", answer->request->function);
	buffer_append_string(body, ",\"total\":");
	json_append_int(body, lines->whole);
	buffer_append_string(body, ",\"function_self\":");
	json_append_int(body, lines->self);
	buffer_append_string(body, ",\"function_total\":");
	json_append_int(body, lines->total);
	buffer_printf(body, ",\"file_count\":%u,\"files\":[", lines->file_count);
	for (uint32_t i = 0; !rc && i < answer->file_count; i++)
		rc = append_file(answer, i);
	buffer_append_string(body, "]}\n");
	for (uint32_t i = 0; i < answer->file_count; i++)
		source_text_deinit(&answer->texts[i]);
	return rc;
}

void http_handle_lines(struct http_api *api, const struct api_request *request,
		       struct http_response *response)
{
	_cleanup_(function_lines_deinit) struct function_lines lines = { 0 };
	const struct query query = api_query(api, request);
	struct error err = { 0 };

	if (!*request->function) {
		error_set(&err, -EINVAL,
			  "is missing; name the function whose lines you want, as /api/v1/top does "
			  "with lines=none");
		http_respond_failure(response, &err, "function");
		return;
	}
	int rc = query_function_lines(&query, request->function, &lines, &err);
	if (!rc) {
		struct answer answer = {
			.request = request,
			.lines = &lines,
			.space = api_symbols(api, request->http, NULL),
			.file_count = lines.file_count < LINES_FILES_MAX ? lines.file_count
									 : LINES_FILES_MAX,
			.body = &response->body,
		};

		rc = append_answer(&answer);
		if (rc)
			error_errno(&err, rc, "sources");
	}
	if (rc)
		http_respond_failure(response, &err, api_failed_field(request));
}
