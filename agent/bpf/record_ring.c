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
 * The layout is the kernel's interface (kernel/bpf/ringbuf.c): a page that we write, with the position up
 * to which we have read; one that the kernel writes, with the position up to which records are reserved;
 * the data. A record has its length and two bits before it, then an offset that is the kernel's own.
 */
enum { ALIGNMENT = 8 };

struct record_ring {
	int fd;
	uint32_t bytes; // a power of two
	size_t page_bytes;
	uint64_t *consumed;
	const uint64_t *produced; // followed by the data, in the next page
	const uint8_t *data;
	uint8_t *cut; // the last record that went around the end
	size_t cut_bytes;
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
	free(ring->cut);
	free(ring);
}

int record_ring_fd(const struct record_ring *ring)
{
	return ring->fd;
}

// In one piece, which a record at the ring's end is not.
static const void *whole(struct record_ring *ring, uint64_t at, size_t size)
{
	size_t offset = at & (ring->bytes - 1), before_end = ring->bytes - offset;

	if (size <= before_end)
		return ring->data + offset;
	if (size > ring->cut_bytes) {
		uint8_t *cut = realloc(ring->cut, size);

		if (!cut)
			return NULL;
		ring->cut = cut;
		ring->cut_bytes = size;
	}
	memcpy(ring->cut, ring->data + offset, before_end);
	memcpy(ring->cut + before_end, ring->data, size - before_end);
	return ring->cut;
}

int record_ring_read(struct record_ring *ring, record_ring_visit *visit, void *context)
{
	uint64_t at = *ring->consumed; // nobody else writes it
	int rc = 0;

	while (!rc && at < __atomic_load_n(ring->produced, __ATOMIC_ACQUIRE)) {
		// A header lies at a multiple of 8 bytes, so its own 8 are never cut.
		const uint32_t *header = (const uint32_t *)(ring->data + (at & (ring->bytes - 1)));
		uint32_t word = __atomic_load_n(header, __ATOMIC_ACQUIRE);
		uint32_t size = word & ~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

		if (word & BPF_RINGBUF_BUSY_BIT) // still being written; what follows waits, too
			break;
		if (size > ring->bytes - BPF_RINGBUF_HDR_SZ)
			return -EBADMSG;
		if (!(word & BPF_RINGBUF_DISCARD_BIT)) {
			const void *bytes = whole(ring, at + BPF_RINGBUF_HDR_SZ, size);

			if (!bytes)
				return -ENOMEM;
			rc = visit(context, bytes, size);
		}
		at += (size + BPF_RINGBUF_HDR_SZ + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
		__atomic_store_n(ring->consumed, at, __ATOMIC_RELEASE);
	}
	return rc;
}
