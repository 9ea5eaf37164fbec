// SPDX-License-Identifier: Apache-2.0
#include "cli/source_table.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/utc_text.h"
#include "base/utf8.h"
#include "cli/api_request.h"
#include "cli/printable_text.h"

enum { TAB_COLUMNS = 4 };

static json_int_t integer_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static bool is_true(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

/* A part of an answer, fit for a terminal. */
static void print_text(const char *text, FILE *stream)
{
	char shown[FUNCTION_NAME_BYTES];

	snprintf(shown, sizeof(shown), "%s", text);
	utf8_clean(shown);
	fputs(shown, stream);
}

static void print_source_line(const char *text, FILE *stream)
{
	char shown[FUNCTION_NAME_BYTES];
	size_t used = 0;

	for (; *text && used + TAB_COLUMNS < sizeof(shown); text++)
		do
			shown[used++] = *text == '\t' ? ' ' : *text;
		while (*text == '\t' && used % TAB_COLUMNS);
	shown[used] = '\0';
	utf8_clean(shown);
	fputs(shown, stream);
}

/* Why there is no text. */
static const char *missing_sentence(const char *word)
{
	if (strcmp(word, "no_path") == 0)
		return "no lines are recorded: cairn-agent --lines, or an upload of debug files, "
		       "adds "
		       "native code's";
	if (strcmp(word, "not_text") == 0)
		return "the source file is no text, or larger than 4 MiB";
	return "no source text: cairn upload --sources FOLDER, or the collector's "
	       "--source-folders, "
	       "adds it";
}

static void print_doubts(const json_t *file, const json_t *source, FILE *stream)
{
	bool is_other = *json_text_of(file, "version") && *json_text_of(source, "version");

	if (!is_true(source, "names_function"))
		fputs("note: the text does not have the function's name: it may be another file\n",
		      stream);
	if (is_true(source, "is_short"))
		fputs("note: the text ends before some of these lines: it is another version\n",
		      stream);
	else if (!is_true(source, "is_version"))
		fputs(is_other ? "note: another version ran: lines may have moved\n"
			       : "note: it is not known whether this version ran: lines may have "
				 "moved\n",
		      stream);
	if (integer_of(source, "others"))
		fprintf(stream, "note: %lld more uploads or folders have such a file\n",
			(long long)integer_of(source, "others"));
}

static void print_source(const json_t *file, FILE *stream)
{
	const json_t *source = json_object_get(file, "source");
	bool is_upload = strcmp(json_text_of(source, "from"), "upload") == 0;
	char time[UTC_TEXT_BYTES];

	if (!source) {
		fprintf(stream, "%s\n", missing_sentence(json_text_of(file, "missing")));
		return;
	}
	fputs("text: ", stream);
	print_text(json_text_of(source, "path"), stream);
	if (is_upload && *json_text_of(source, "version")) {
		fputs(" of version ", stream);
		print_text(json_text_of(source, "version"), stream);
	}
	fprintf(stream, ", %s %s",
		is_upload ? "uploaded" : "from a folder of the collector, modified",
		utc_text((uint64_t)integer_of(source, is_upload ? "uploaded" : "modified"), time));
	if (is_upload) {
		fputs(" by ", stream);
		print_text(json_text_of(source, "who"), stream);
	}
	fputc('\n', stream);
	print_doubts(file, source, stream);
}

static void print_share(double value, double whole, FILE *stream)
{
	if (value != 0 && whole > 0)
		fprintf(stream, "%7.2f ", 100 * value / whole);
	else
		fprintf(stream, "%7s ", "");
}

static void print_lines(const json_t *lines, double whole, FILE *stream)
{
	const json_t *line;
	json_int_t last = 0;
	size_t i;

	fprintf(stream, "%7s %7s %6s\n", "self%", "total%", "line");
	json_array_foreach(lines, i, line)
	{
		json_int_t number = integer_of(line, "line");

		if (i && number > last + 1)
			fprintf(stream, "%23s\n", "...");
		last = number;
		print_share((double)integer_of(line, "self"), whole, stream);
		print_share((double)integer_of(line, "total"), whole, stream);
		if (number)
			fprintf(stream, "%6lld  ", (long long)number);
		else
			fprintf(stream, "%6s  ", "?");
		print_source_line(json_text_of(line, "text"), stream);
		fputc('\n', stream);
	}
}

static void print_file(const json_t *file, double whole, FILE *stream)
{
	const char *path = json_text_of(file, "path");

	fputc('\n', stream);
	print_text(*path ? path : "(no file)", stream);
	if (*json_text_of(file, "service")) {
		fputs("  ", stream);
		print_text(json_text_of(file, "service"), stream);
	}
	if (*json_text_of(file, "version")) {
		fputs(" ", stream);
		print_text(json_text_of(file, "version"), stream);
	}
	fputc('\n', stream);
	print_source(file, stream);
	print_lines(json_object_get(file, "lines"), whole, stream);
}

bool source_table_has_lines(const json_t *root)
{
	return json_array_size(json_object_get(root, "files"));
}

int source_table_print(const json_t *root, FILE *stream)
{
	const json_t *files = json_object_get(root, "files"), *file;
	double whole = (double)integer_of(root, "total");
	size_t i;

	if (!json_is_array(files))
		return -EBADMSG;
	print_text(json_text_of(root, "function"), stream);
	fprintf(stream, ": self %.2f %%, total %.2f %%\n",
		whole > 0 ? 100 * (double)integer_of(root, "function_self") / whole : 0,
		whole > 0 ? 100 * (double)integer_of(root, "function_total") / whole : 0);
	json_array_foreach(files, i, file) print_file(file, whole, stream);
	if ((size_t)integer_of(root, "file_count") > i)
		fprintf(stream, "\n%lld more files, services or versions have it\n",
			(long long)integer_of(root, "file_count") - (long long)i);
	return 0;
}
