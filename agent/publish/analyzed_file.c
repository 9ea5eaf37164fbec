// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/analyzed_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

/* A table is built again for functions that turned out to have no rules, less and less often. */
#define RENEW_WAIT_MIN_NS (500 * NS_PER_MS)
#define RENEW_WAIT_MAX_NS (600 * NS_PER_SECOND)

/* Files beyond this are opened the next time that their table is requested. */
enum { ANALYZED_OPEN_MAX = 64 };

struct analyzed_file *analyzed_file_new(const char *name)
{
	struct analyzed_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->fd = -1;
	snprintf(file->name, sizeof(file->name), "%s", name);
	file->wait_ns = RENEW_WAIT_MIN_NS;
	return file;
}

void analyzed_file_free(struct analyzed_file *file, struct analyzed_fds *descriptors)
{
	analyzed_file_close(file, descriptors);
	free(file);
}

void analyzed_file_close(struct analyzed_file *file, struct analyzed_fds *descriptors)
{
	if (file && file->fd >= 0)
		close(analyzed_file_take_fd(file, descriptors));
}

bool analyzed_file_has_more(const struct analyzed_file *file)
{
	return file && file->built < file->all.count;
}

bool analyzed_file_lacks_fd(const struct analyzed_file *file,
			    const struct analyzed_fds *descriptors)
{
	return file->fd < 0 && descriptors->open < ANALYZED_OPEN_MAX;
}

void analyzed_file_keep_fd(struct analyzed_file *file, int fd, const struct file_version *version,
			   struct analyzed_fds *descriptors)
{
	descriptors->open += fd >= 0;
	file->fd = fd;
	file->version = *version;
}

int analyzed_file_take_fd(struct analyzed_file *file, struct analyzed_fds *descriptors)
{
	descriptors->open -= file->fd >= 0;
	return take_fd(file->fd);
}

bool analyzed_file_is_due(const struct analyzed_file *file, uint64_t now)
{
	return file->fd >= 0 && now >= file->due_ns;
}

void analyzed_file_postpone(struct analyzed_file *file, uint64_t now)
{
	file->due_ns = now + file->wait_ns;
	file->wait_ns =
		file->wait_ns * 2 < RENEW_WAIT_MAX_NS ? file->wait_ns * 2 : RENEW_WAIT_MAX_NS;
}
