// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/record_ring.h"

#include <errno.h>
#include <linux/bpf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"

/*
 * The layout is kernel ABI (kernel/bpf/ringbuf.c): a page for the reader's position, a page for the writers'
 * position, the data. A record's header has its length with two flag bits, and an offset of the kernel's own.
 */
enum { ALIGNMENT = 8 };

struct record_ring {
	int fd;
	uint32_t bytes; // a power of two
	size_t page_bytes;
	uint64_t *consumed;
	const uint64_t *produced; // followed by the data, in the next page
	const uint8_t *data;
	uint8_t *wrapped; // a copy of the record that wraps around
	size_t wrapped_bytes;
};

int record_ring_open(int map_fd, uint32_t bytes, struct record_ring **ret_ring)
{
	struct record_ring *ring = calloc(1, sizeof(*ring));

	if (!ring)
		return -ENOMEM;
	ring->fd = map_fd;
	ring->bytes = bytes;
	ring->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	void *consumed =
		mmap(NULL, ring->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, map_fd, 0);
	if (consumed == MAP_FAILED) {
		int rc = -errno;

		record_ring_close(ring);
		return rc;
	}
	ring->consumed = consumed;
	void *produced = mmap(NULL, ring->page_bytes + bytes, PROT_READ, MAP_SHARED, map_fd,
			      (off_t)ring->page_bytes);
	if (produced == MAP_FAILED) {
		int rc = -errno;

		record_ring_close(ring);
		return rc;
	}
	ring->produced = produced;
	ring->data = (const uint8_t *)produced + ring->page_bytes;
	*ret_ring = ring;
	return 0;
}

void record_ring_close(struct record_ring *ring)
{
	if (!ring)
		return;
	if (ring->produced)
		munmap((void *)ring->produced, ring->page_bytes + ring->bytes);
	if (ring->consumed)
		munmap(ring->consumed, ring->page_bytes);
	free(ring->wrapped);
	free(ring);
}

int record_ring_fd(const struct record_ring *ring)
{
	return ring->fd;
}

// The record in one piece: copied if it wraps around.
static const void *unwrap(struct record_ring *ring, uint64_t at, size_t size)
{
	size_t offset = at & (ring->bytes - 1), before_end = ring->bytes - offset;

	if (size <= before_end)
		return ring->data + offset;
	if (size > ring->wrapped_bytes) {
		uint8_t *wrapped = realloc(ring->wrapped, size);

		if (!wrapped)
			return NULL;
		ring->wrapped = wrapped;
		ring->wrapped_bytes = size;
	}
	memcpy(ring->wrapped, ring->data + offset, before_end);
	memcpy(ring->wrapped + before_end, ring->data, size - before_end);
	return ring->wrapped;
}

int record_ring_read(struct record_ring *ring, record_ring_visit *visit, void *context)
{
	uint64_t at = *ring->consumed; // nobody else writes it
	int rc = 0;

	while (!rc && at < __atomic_load_n(ring->produced, __ATOMIC_ACQUIRE)) {
		// Headers are aligned to 8 bytes and never wrap around.
		const uint32_t *header = (const uint32_t *)(ring->data + (at & (ring->bytes - 1)));
		uint32_t word = __atomic_load_n(header, __ATOMIC_ACQUIRE);
		uint32_t size = word & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

		if (word & BPF_RINGBUF_BUSY_BIT) // still being written; so may be those after it
			break;
		if (size > ring->bytes - BPF_RINGBUF_HDR_SZ)
			return -EBADMSG;
		if (!(word & BPF_RINGBUF_DISCARD_BIT)) {
			const void *bytes = unwrap(ring, at + BPF_RINGBUF_HDR_SZ, size);

			if (!bytes)
				return -ENOMEM;
			rc = visit(context, bytes, size);
		}
		at += (size + BPF_RINGBUF_HDR_SZ + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
		__atomic_store_n(ring->consumed, at, __ATOMIC_RELEASE);
	}
	return rc;
}
