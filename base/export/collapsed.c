// SPDX-License-Identifier: Apache-2.0
#include "base/export/collapsed.h"

#include <inttypes.h>

#include "base/cleanup.h"
#include "base/export/call_tree.h"

// Append ";name" and record where the path of @depth frames ends.
static int extend_path(struct buffer *path, struct buffer *ends, uint32_t depth, const char *name)
{
	size_t *end_of = (size_t *)ends->bytes;

	path->size = depth > 1 ? end_of[depth - 2] : 0;
	ends->size = (depth - 1) * sizeof(size_t);
	if (depth > 1)
		buffer_append_byte(path, ';');
	buffer_append_string(path, name);
	buffer_append(ends, &path->size, sizeof(path->size));
	return path->rc ? path->rc : ends->rc;
}

int collapsed_encode(const struct profile *profile, const char *type, struct buffer *buffer)
{
	_cleanup_(call_tree_deinit) struct call_tree tree = { 0 };
	_cleanup_(buffer_deinit) struct buffer path = { 0 };
	_cleanup_(buffer_deinit) struct buffer ends = { 0 };
	uint32_t depth = 0;
	int rc = call_tree_init(&tree, profile, type);

	if (rc < 0)
		return rc;
	for (uint32_t node = 0; (node = call_tree_next(&tree, node, &depth));) {
		rc = extend_path(&path, &ends, depth, call_tree_name(&tree, node));
		if (rc < 0)
			return rc;
		if (tree.nodes[node].self == 0)
			continue;
		buffer_append(buffer, path.bytes, path.size);
		buffer_printf(buffer, " %" PRId64 "\n", tree.nodes[node].self);
		if (buffer->rc)
			return buffer->rc;
	}
	return buffer->rc;
}
