// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/debug_origin.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char magic[16] = "cairn upload 1";

int debug_origin_make(int fd, uint64_t bytes, const char *who, const char *address,
		      struct debug_origin *ret_origin)
{
	struct debug_origin origin = { .bytes = bytes, .uploaded_s = (uint64_t)time(NULL) };
	int rc = digest_of_file(fd, bytes, origin.digest);

	if (rc < 0)
		return rc;
	memcpy(origin.magic, magic, sizeof(magic));
	snprintf(origin.who, sizeof(origin.who), "%s", who);
	snprintf(origin.address, sizeof(origin.address), "%s", address);
	*ret_origin = origin;
	return 0;
}

int debug_origin_write(int fd, const struct debug_origin *origin)
{
	ssize_t count = pwrite(fd, origin, sizeof(*origin), (off_t)origin->bytes);

	return count == sizeof(*origin) ? 0 : count < 0 ? -errno : -ENOSPC;
}

int debug_origin_read(int fd, struct debug_origin *ret_origin)
{
	struct debug_origin origin;
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	if (status.st_size < (off_t)sizeof(origin) ||
	    pread(fd, &origin, sizeof(origin), status.st_size - (off_t)sizeof(origin)) !=
		    sizeof(origin) ||
	    memcmp(origin.magic, magic, sizeof(magic)) != 0 ||
	    origin.bytes != (uint64_t)status.st_size - sizeof(origin))
		return -ENODATA;
	origin.who[sizeof(origin.who) - 1] = '\0';
	origin.address[sizeof(origin.address) - 1] = '\0';
	*ret_origin = origin;
	return 0;
}
