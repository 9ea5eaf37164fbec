// SPDX-License-Identifier: Apache-2.0
#include "base/config/yaml_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>

#include <yaml.h>

#include "base/buffer.h"
#include "base/cleanup.h"

struct yaml_file {
	const char *path;
	struct buffer bytes;
	yaml_parser_t parser;
	yaml_event_t event; // the current one
	bool has_document;
};

static int read_all(const char *what, const char *path, struct buffer *bytes, struct error *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t size;

	if (fd < 0)
		return error_errno(err, -errno, "%s %.150s", what, path);
	do {
		uint8_t piece[16384];

		size = read(fd, piece, sizeof(piece));
		if (size < 0)
			return error_errno(err, -errno, "%s %.150s", what, path);
		buffer_append(bytes, piece, (size_t)size);
	} while (size > 0 && !bytes->rc);

	if (bytes->rc == -EFBIG)
		return error_set(err, -EFBIG, "%s %.150s: larger than %zu KiB", what, path,
				 bytes->size_max >> 10);
	return bytes->rc < 0 ? error_errno(err, bytes->rc, "%s %.150s", what, path) : 0;
}

int yaml_file_open(const char *what, const char *path, size_t bytes_max,
		   struct yaml_file **ret_file, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { .size_max = bytes_max };
	int rc = read_all(what, path, &bytes, err);

	if (rc < 0)
		return rc;
	struct yaml_file *file = calloc(1, sizeof(*file));
	if (!file || !yaml_parser_initialize(&file->parser)) {
		free(file);
		return error_errno(err, -ENOMEM, "%.100s", path);
	}
	file->path = path;
	file->bytes = bytes;
	bytes = (struct buffer){ 0 };
	yaml_parser_set_input_string(
		&file->parser, file->bytes.size ? file->bytes.bytes : (const unsigned char *)"",
		file->bytes.size);
	*ret_file = file;
	return 0;
}

void yaml_file_close(struct yaml_file *file)
{
	if (!file)
		return;
	yaml_event_delete(&file->event);
	yaml_parser_delete(&file->parser);
	buffer_deinit(&file->bytes);
	free(file);
}

static int next_event(struct yaml_file *file, struct error *err)
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

int yaml_file_next(struct yaml_file *file, struct error *err)
{
	for (;;) {
		int rc = next_event(file, err);

		if (rc < 0)
			return rc;
		switch (file->event.type) {
		case YAML_STREAM_START_EVENT:
		case YAML_DOCUMENT_END_EVENT:
			break;
		case YAML_DOCUMENT_START_EVENT:
			if (file->has_document)
				return error_set(err, -EINVAL,
						 "%.100s:%u: a second document; one is read",
						 file->path, yaml_file_line(file));
			file->has_document = true;
			break;
		default:
			return 0;
		}
	}
}

enum yaml_node yaml_file_node(const struct yaml_file *file)
{
	switch (file->event.type) {
	case YAML_SCALAR_EVENT:
		return YAML_NODE_SCALAR;
	case YAML_SEQUENCE_START_EVENT:
		return YAML_NODE_LIST;
	case YAML_SEQUENCE_END_EVENT:
		return YAML_NODE_LIST_END;
	case YAML_MAPPING_START_EVENT:
		return YAML_NODE_MAPPING;
	case YAML_MAPPING_END_EVENT:
		return YAML_NODE_MAPPING_END;
	case YAML_ALIAS_EVENT:
		return YAML_NODE_ALIAS;
	default:
		return YAML_NODE_END;
	}
}

uint32_t yaml_file_line(const struct yaml_file *file)
{
	return (uint32_t)file->event.start_mark.line + 1;
}

const char *yaml_file_text(const struct yaml_file *file, size_t *ret_size)
{
	if (file->event.type != YAML_SCALAR_EVENT) {
		*ret_size = 0;
		return "";
	}
	*ret_size = file->event.data.scalar.length;
	return (const char *)file->event.data.scalar.value;
}

bool yaml_file_is_quoted(const struct yaml_file *file)
{
	return file->event.type == YAML_SCALAR_EVENT &&
	       file->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
}
