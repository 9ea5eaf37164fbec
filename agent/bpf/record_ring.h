// SPDX-License-Identifier: Apache-2.0
// Reads a BPF ring buffer. libbpf's reader maps the data twice, and both count as memory of the agent; this one
// maps it once and copies a record that wraps around.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct record_ring;

/** @bytes: size of the ring's data. @map_fd must outlive the ring. Returns 0 or a negative errno. */
int record_ring_open(int map_fd, uint32_t bytes, struct record_ring **ret_ring);
void record_ring_close(struct record_ring *ring);

/** Readable when BPF programs wake the reader. The map's own descriptor. */
int record_ring_fd(const struct record_ring *ring);

/** @bytes is aligned to 8, and valid during the call. Returns 0, or negative to stop after this record. */
typedef int record_ring_visit(void *context, const void *bytes, size_t size);

/**
 * Pass all records to @visit, in order. Returns 0; what @visit returned; -EBADMSG if a record is longer than the
 * ring; -ENOMEM if one that wraps around cannot be copied: it stays.
 */
int record_ring_read(struct record_ring *ring, record_ring_visit *visit, void *context);
