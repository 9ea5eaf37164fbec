// SPDX-License-Identifier: Apache-2.0
// Reads a BPF ring buffer. libbpf's reader maps the data twice in a row, so that no record is cut at the
// end; all of it counts as memory of the process, so we map it once and copy the record that is cut.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct record_ring;

/** Of the ring buffer @map_fd, whose data have @bytes. The descriptor is to outlive the ring. Returns 0 or a negative errno. */
int record_ring_open(int map_fd, uint32_t bytes, struct record_ring **ret_ring);
void record_ring_close(struct record_ring *ring);

/** To be watched: readable when there is something to read. The map's own descriptor. */
int record_ring_fd(const struct record_ring *ring);

/** A record; @bytes is aligned to 8 and valid during the call. Returns 0, or a negative number to end reading after it. */
typedef int record_ring_visit(void *context, const void *bytes, size_t size);

/**
 * Hand over everything that was written, in order. Returns 0; what @visit returned; -EBADMSG if a record
 * is longer than the ring; -ENOMEM if there is no room for one that is cut: it is read the next time.
 */
int record_ring_read(struct record_ring *ring, record_ring_visit *visit, void *context);
