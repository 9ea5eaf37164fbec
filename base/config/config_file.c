// SPDX-License-Identifier: Apache-2.0
// The configuration file: one YAML mapping of settings to scalars.
#include "base/config/config_setting.h"

#include <errno.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/config/yaml_file.h"

enum {
	CONFIG_FILE_BYTES_MAX = 1 << 20, // a thousand times what a real one needs
	CONFIG_OPTIONS_MAX = 128,        // for the record of which settings the file gave already
	WHERE_BYTES = 200,
};

struct config_file {
	const struct config_program *program;
	const char *path;
	struct yaml_file *yaml;
	uint32_t line_of[CONFIG_OPTIONS_MAX]; // where each setting was given, 0: not yet
};

static uint32_t line_number(const struct config_file *file)
{
	return yaml_file_line(file->yaml);
}

static void format_where(const struct config_file *file, const char *name, char *where)
{
	snprintf(where, WHERE_BYTES, "%.100s:%u%s%.60s", file->path, line_number(file),
		 *name ? ": " : "", name);
}

// The current node's scalar, or an error saying that @what was expected. YAML text may hold a NUL,
// which would hide the rest of the value from a person who reads it.
static int scalar_of(const struct config_file *file, const char *name, const char *what,
		     const char **ret_text, struct error *err)
{
	char where[WHERE_BYTES];
	size_t size;

	format_where(file, name, where);
	if (yaml_file_node(file->yaml) != YAML_NODE_SCALAR)
		return error_set(err, -EINVAL, "%s: expected %s", where, what);

	const char *text = yaml_file_text(file->yaml, &size);
	if (strlen(text) != size)
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
		int rc = yaml_file_next(file->yaml, err);

		if (rc < 0 || yaml_file_node(file->yaml) == YAML_NODE_LIST_END)
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
		int rc = yaml_file_next(file->yaml, err);

		if (rc < 0 || yaml_file_node(file->yaml) == YAML_NODE_MAPPING_END)
			return rc;
		rc = scalar_of(file, option->name, "the name of a label", &text, err);
		if (rc < 0)
			return rc;
		buffer_clear(&pair);
		buffer_printf(&pair, "%s=", text);

		rc = yaml_file_next(file->yaml, err);
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

	if (takes_labels && yaml_file_node(file->yaml) == YAML_NODE_MAPPING)
		return read_label_mapping(file, option, err);
	if (takes_labels && yaml_file_node(file->yaml) == YAML_NODE_LIST)
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
		int rc = yaml_file_next(file->yaml, err);

		if (rc < 0 || yaml_file_node(file->yaml) == YAML_NODE_MAPPING_END)
			return rc;
		rc = scalar_of(file, "", "the name of a setting", &name, err);
		if (rc == 0)
			rc = find_setting(file, name, &option, err);
		if (rc == 0)
			rc = yaml_file_next(file->yaml, err);
		if (rc == 0)
			rc = read_value(file, option, err);
		if (rc < 0)
			return rc;
	}
}

// A file of comments only has an empty scalar, or nothing.
static bool is_empty(const struct config_file *file)
{
	size_t size;

	yaml_file_text(file->yaml, &size);
	return yaml_file_node(file->yaml) == YAML_NODE_SCALAR && !size;
}

static int read_document(struct config_file *file, struct error *err)
{
	for (;;) {
		int rc = yaml_file_next(file->yaml, err);

		if (rc < 0 || yaml_file_node(file->yaml) == YAML_NODE_END)
			return rc;
		if (is_empty(file))
			continue;
		if (yaml_file_node(file->yaml) != YAML_NODE_MAPPING)
			return error_set(err, -EINVAL,
					 "%.100s:%u: expected settings, one a line, as in "
					 "\"interval: 5s\"",
					 file->path, line_number(file));
		rc = read_settings(file, err);
		if (rc < 0)
			return rc;
	}
}

int config_read_file(const struct config_program *program, const char *path, struct error *err)
{
	_cleanup_(yaml_file_closep) struct yaml_file *yaml = NULL;
	int rc = yaml_file_open("configuration file", path, CONFIG_FILE_BYTES_MAX, &yaml, err);

	if (rc < 0)
		return rc;
	if (program->option_count > CONFIG_OPTIONS_MAX)
		return error_set(err, -E2BIG, "%s has more than %d settings", program->name,
				 CONFIG_OPTIONS_MAX);

	struct config_file file = { .program = program, .path = path, .yaml = yaml };
	return read_document(&file, err);
}
