// SPDX-License-Identifier: Apache-2.0
// The configuration file: one YAML mapping of settings to scalars, read event by event, so that
// nothing is built in memory and the first nesting where none belongs ends the reading. The only
// user of libyaml.
#include "base/config/config_setting.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include <yaml.h>

#include "base/buffer.h"
#include "base/cleanup.h"

enum {
	CONFIG_FILE_BYTES_MAX = 1 << 20, // a thousand times what a real one needs
	CONFIG_OPTIONS_MAX = 128,        // for the record of which settings the file gave already
	WHERE_BYTES = 200,
};

struct config_file {
	const struct config_program *program;
	const char *path;
	yaml_parser_t parser;
	yaml_event_t event;                   // the current one
	uint32_t line_of[CONFIG_OPTIONS_MAX]; // where each setting was given, 0: not yet
};

static void file_deinit(struct config_file *file)
{
	yaml_event_delete(&file->event);
	yaml_parser_delete(&file->parser);
}

static int read_all(const char *path, struct buffer *bytes, struct error *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size;

	if (fd < 0)
		return error_errno(err, -errno, "configuration file %.150s", path);
	do {
		uint8_t piece[16384];

		size = read(fd, piece, sizeof(piece));
		if (size < 0)
			return error_errno(err, -errno, "configuration file %.150s", path);
		buffer_append(bytes, piece, (size_t)size);
	} while (size > 0 && !bytes->rc);

	if (bytes->rc == -EFBIG)
		return error_set(err, -EFBIG, "configuration file %.150s: larger than %d KiB", path,
				 CONFIG_FILE_BYTES_MAX >> 10);
	return bytes->rc < 0 ? error_errno(err, bytes->rc, "configuration file %.150s", path) : 0;
}

static uint32_t line_number(const struct config_file *file)
{
	return (uint32_t)file->event.start_mark.line + 1;
}

static void format_where(const struct config_file *file, const char *name, char *where)
{
	snprintf(where, WHERE_BYTES, "%.100s:%u%s%.60s", file->path, line_number(file),
		 *name ? ": " : "", name);
}

static int next_event(struct config_file *file, struct error *err)
{
	yaml_event_delete(&file->event);
	if (yaml_parser_parse(&file->parser, &file->event))
		return 0;
	if (file->parser.error == YAML_MEMORY_ERROR)
		return error_errno(err, -ENOMEM, "%.100s", file->path);
	return error_set(err, -EINVAL, "%.100s:%zu: this is not YAML: %s", file->path,
			 file->parser.problem_mark.line + 1,
			 file->parser.problem ? file->parser.problem : "unreadable character");
}

// The current event's scalar, or an error saying that @what was expected. YAML text may hold a NUL,
// which would hide the rest of the value from a person who reads it.
static int scalar_of(const struct config_file *file, const char *name, const char *what,
		     const char **ret_text, struct error *err)
{
	const yaml_event_t *event = &file->event;
	char where[WHERE_BYTES];

	format_where(file, name, where);
	if (event->type != YAML_SCALAR_EVENT)
		return error_set(err, -EINVAL, "%s: expected %s", where, what);

	const char *text = (const char *)event->data.scalar.value;
	if (strlen(text) != event->data.scalar.length)
		return error_set(err, -EINVAL, "%s: there is a NUL character in the text", where);
	*ret_text = text;
	return 0;
}

static int set_pair(struct config_file *file, const struct config_option *option, const char *pair,
		    struct error *err)
{
	char where[WHERE_BYTES];

	format_where(file, option->name, where);
	return config_set(option, where, pair, err);
}

// A list of name=value. Ends on the list's end.
static int read_label_list(struct config_file *file, const struct config_option *option,
			   struct error *err)
{
	for (;;) {
		const char *pair;
		int rc = next_event(file, err);

		if (rc < 0 || file->event.type == YAML_SEQUENCE_END_EVENT)
			return rc;
		rc = scalar_of(file, option->name, "name=value", &pair, err);
		if (rc == 0)
			rc = set_pair(file, option, pair, err);
		if (rc < 0)
			return rc;
	}
}

// A mapping of names to values. Ends on the mapping's end.
static int read_label_mapping(struct config_file *file, const struct config_option *option,
			      struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer pair = { 0 };

	for (;;) {
		const char *text;
		int rc = next_event(file, err);

		if (rc < 0 || file->event.type == YAML_MAPPING_END_EVENT)
			return rc;
		rc = scalar_of(file, option->name, "the name of a label", &text, err);
		if (rc < 0)
			return rc;
		buffer_clear(&pair);
		buffer_printf(&pair, "%s=", text);

		rc = next_event(file, err);
		if (rc == 0)
			rc = scalar_of(file, option->name, "the value of a label", &text, err);
		if (rc < 0)
			return rc;
		buffer_append_string(&pair, text);
		rc = pair.rc ? error_errno(err, pair.rc, "%.100s", file->path)
			     : set_pair(file, option, buffer_string(&pair), err);
		if (rc < 0)
			return rc;
	}
}

static int read_value(struct config_file *file, const struct config_option *option,
		      struct error *err)
{
	bool takes_labels = option->kind == CONFIG_LABELS;
	const char *text;

	if (takes_labels && file->event.type == YAML_MAPPING_START_EVENT)
		return read_label_mapping(file, option, err);
	if (takes_labels && file->event.type == YAML_SEQUENCE_START_EVENT)
		return read_label_list(file, option, err);

	int rc = scalar_of(file, option->name,
			   takes_labels ? "a mapping of names to values" : "a single value", &text,
			   err);
	if (rc < 0)
		return rc;

	char where[WHERE_BYTES];
	format_where(file, option->name, where);
	return config_set_list(option, where, text, err);
}

static int find_setting(struct config_file *file, const char *name,
			const struct config_option **ret_option, struct error *err)
{
	const struct config_option *option = config_find(file->program, name);
	char where[WHERE_BYTES];

	format_where(file, "", where);
	if (!option)
		return config_unknown(file->program, where, name, err);

	uint32_t *line = &file->line_of[option - file->program->options];
	if (*line)
		return error_set(err, -EINVAL, "%s: \"%s\" was set on line %u already", where, name,
				 *line);
	*line = line_number(file);
	*ret_option = option;
	return 0;
}

// The settings of the file's mapping. Ends on the mapping's end.
static int read_settings(struct config_file *file, struct error *err)
{
	for (;;) {
		const struct config_option *option = NULL;
		const char *name;
		int rc = next_event(file, err);

		if (rc < 0 || file->event.type == YAML_MAPPING_END_EVENT)
			return rc;
		rc = scalar_of(file, "", "the name of a setting", &name, err);
		if (rc == 0)
			rc = find_setting(file, name, &option, err);
		if (rc == 0)
			rc = next_event(file, err);
		if (rc == 0)
			rc = read_value(file, option, err);
		if (rc < 0)
			return rc;
	}
}

static int read_document(struct config_file *file, struct error *err)
{
	bool seen = false;

	for (;;) {
		int rc = next_event(file, err);

		if (rc < 0)
			return rc;
		switch (file->event.type) {
		case YAML_STREAM_START_EVENT:
		case YAML_DOCUMENT_END_EVENT:
			break;
		case YAML_STREAM_END_EVENT:
			return 0;
		case YAML_DOCUMENT_START_EVENT:
			if (seen)
				return error_set(err, -EINVAL,
						 "%.100s:%u: a second document; one is read",
						 file->path, line_number(file));
			seen = true;
			break;
		case YAML_MAPPING_START_EVENT:
			rc = read_settings(file, err);
			if (rc < 0)
				return rc;
			break;
		case YAML_SCALAR_EVENT:
			if (file->event.data.scalar.length == 0) // a file of comments only
				break;
			// fall through
		default:
			return error_set(err, -EINVAL,
					 "%.100s:%u: expected settings, one a line, as in "
					 "\"interval: 5s\"",
					 file->path, line_number(file));
		}
	}
}

int config_read_file(const struct config_program *program, const char *path, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { .size_max = CONFIG_FILE_BYTES_MAX };
	int rc = read_all(path, &bytes, err);

	if (rc < 0)
		return rc;
	if (program->option_count > CONFIG_OPTIONS_MAX)
		return error_set(err, -E2BIG, "%s has more than %d settings", program->name,
				 CONFIG_OPTIONS_MAX);

	_cleanup_(file_deinit) struct config_file file = { .program = program, .path = path };
	if (!yaml_parser_initialize(&file.parser))
		return error_errno(err, -ENOMEM, "%.100s", path);
	yaml_parser_set_input_string(&file.parser, (const unsigned char *)buffer_string(&bytes),
				     bytes.size);
	return read_document(&file, err);
}
