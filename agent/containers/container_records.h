// SPDX-License-Identifier: Apache-2.0
// Finds a container of Docker or Podman by its id, in the files that they keep: no socket is asked, whose reader could do
// anything. Files are read again after a minute, as containers can be renamed. One thread.
#pragma once

#include <stdint.h>

#include "agent/containers/container_record.h"

enum {
	CONTAINER_RECORDS_MAX = 256,          // kept; the oldest is evicted
	CONTAINER_FILE_BYTES_MAX = 256 << 10, // Docker's, of one container: it has some 5 KiB
	CONTAINERS_FILE_BYTES_MAX = 4 << 20,  // Podman's, of all: a container has some 700 bytes
};

#define CONTAINER_RECORD_NS (60ULL * 1000000000)

struct container_folders {
	const char *docker; // its data-root: /var/lib/docker; NULL: none
	const char *podman; // its graphroot: /var/lib/containers/storage; NULL: none
};

struct container_records;

struct container_records_stats {
	uint64_t found;
	uint64_t unreadable; // files of a container: too large, malformed, or not root's
};

/** Copies the folders' names; @rules (NULL: none) outlive it. NULL when out of memory. */
struct container_records *container_records_new(const struct container_folders *folders,
						const struct relabel_rules *rules);
/** NULL is allowed. */
void container_records_free(struct container_records *records);

/** The container @id, until the next call; NULL: nobody has it. @records may be NULL. */
const struct container_record *container_records_find(struct container_records *records,
						      const char *id, uint64_t now_ns);

/** @records may be NULL. */
void container_records_read_stats(const struct container_records *records,
				  struct container_records_stats *ret_stats);
