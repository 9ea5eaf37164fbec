// SPDX-License-Identifier: Apache-2.0
// The reader of BPF ring buffers, against a ring of the kernel's kind that user space fills
// (only a BPF program can write to a real one; tests/unit/agent/bpf/test_loader.c has that).

#include "agent/bpf/record_ring.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/test.h"

enum { RING_BYTES = 4096, RECORDS_MAX = 64 };

/* A file laid out as a ring buffer's map is: what one side may only read the other may write. */
struct writer {
	int fd;
	size_t page_bytes;
	uint8_t *memory;
	uint64_t at;
};

struct seen {
	uint32_t count;
	uint32_t sizes[RECORDS_MAX];
	uint8_t first[RECORDS_MAX], last[RECORDS_MAX];
	uint32_t stop_after; // 0: never
};

static uint64_t *consumed_of(struct writer *writer)
{
	return (uint64_t *)writer->memory;
}

static uint64_t *produced_of(struct writer *writer)
{
	return (uint64_t *)(writer->memory + writer->page_bytes);
}

static void writer_open(struct writer *writer, uint64_t at)
{
	writer->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	writer->fd = memfd_create("ring", MFD_CLOEXEC);
	assert_int_equal(0, ftruncate(writer->fd, (off_t)(2 * writer->page_bytes + RING_BYTES)));
	writer->memory = mmap(NULL, 2 * writer->page_bytes + RING_BYTES, PROT_READ | PROT_WRITE,
			      MAP_SHARED, writer->fd, 0);
	assert_ptr_not_equal(MAP_FAILED, writer->memory);
	writer->at = at;
	*consumed_of(writer) = *produced_of(writer) = at;
}

static void writer_close(struct writer *writer)
{
	munmap(writer->memory, 2 * writer->page_bytes + RING_BYTES);
	close(writer->fd);
}

static uint8_t *byte_at(struct writer *writer, uint64_t at)
{
	return writer->memory + 2 * writer->page_bytes + (at & (RING_BYTES - 1));
}

static void put(struct writer *writer, uint32_t size, uint32_t bits, uint8_t fill)
{
	uint32_t word = size | bits;

	memcpy(byte_at(writer, writer->at), &word, sizeof(word));
	for (uint32_t i = 0; i < size; i++)
		*byte_at(writer, writer->at + BPF_RINGBUF_HDR_SZ + i) = (uint8_t)(fill + i);
	writer->at += (size + BPF_RINGBUF_HDR_SZ + 7) / 8 * 8;
	*produced_of(writer) = writer->at;
}

static int see(void *context, const void *bytes, size_t size)
{
	struct seen *seen = context;
	const uint8_t *at = bytes;

	assert_int_equal(0, (uintptr_t)bytes % 8);
	seen->sizes[seen->count] = (uint32_t)size;
	seen->first[seen->count] = at[0];
	seen->last[seen->count] = at[size - 1];
	seen->count++;
	return seen->stop_after && seen->count == seen->stop_after ? -E2BIG : 0;
}

TEST(reads_whole_records_in_order_across_the_end)
{
	// Positions only grow, beyond 32 bits too.
	for (uint64_t from = 0; from < RING_BYTES; from += 8) {
		struct seen seen = { 0 };
		struct record_ring *ring;
		struct writer writer;

		writer_open(&writer, (5ULL << 32) + from);
		assert_int_equal(0, record_ring_open(writer.fd, RING_BYTES, &ring));
		put(&writer, 1001, 0, 3);
		put(&writer, 16, 0, 90);
		put(&writer, 3000, 0, 7);
		assert_int_equal(0, record_ring_read(ring, see, &seen));
		assert_int_equal(3, seen.count);
		assert_int_equal(1001, seen.sizes[0]);
		assert_int_equal(3, seen.first[0]);
		assert_int_equal((uint8_t)(3 + 1000), seen.last[0]);
		assert_int_equal(16, seen.sizes[1]);
		assert_int_equal(105, seen.last[1]);
		assert_int_equal(3000, seen.sizes[2]);
		assert_int_equal((uint8_t)(7 + 2999), seen.last[2]);
		assert_int_equal(writer.at, *consumed_of(&writer));
		record_ring_close(ring);
		writer_close(&writer);
	}
}

TEST(waits_for_busy_records_and_skips_discarded_ones)
{
	struct seen seen = { 0 };
	struct record_ring *ring;
	struct writer writer;

	writer_open(&writer, 0);
	assert_int_equal(0, record_ring_open(writer.fd, RING_BYTES, &ring));
	put(&writer, 24, BPF_RINGBUF_DISCARD_BIT, 1);
	put(&writer, 24, 0, 2);
	uint64_t busy = writer.at;
	put(&writer, 24, BPF_RINGBUF_BUSY_BIT, 3);
	put(&writer, 24, 0, 4);
	assert_int_equal(0, record_ring_read(ring, see, &seen));
	assert_int_equal(1, seen.count);
	assert_int_equal(2, seen.first[0]);
	assert_int_equal(busy, *consumed_of(&writer));
	memcpy(byte_at(&writer, busy), &(uint32_t){ 24 }, sizeof(uint32_t));
	assert_int_equal(0, record_ring_read(ring, see, &seen));
	assert_int_equal(3, seen.count);
	assert_int_equal(4, seen.first[2]);
	record_ring_close(ring);
	writer_close(&writer);
}

TEST(stops_on_request_and_continues_after_it)
{
	struct seen seen = { .stop_after = 2 };
	struct record_ring *ring;
	struct writer writer;

	writer_open(&writer, 0);
	assert_int_equal(0, record_ring_open(writer.fd, RING_BYTES, &ring));
	for (uint8_t i = 1; i <= 3; i++)
		put(&writer, 8, 0, i);
	assert_int_equal(-E2BIG, record_ring_read(ring, see, &seen));
	assert_int_equal(2, seen.count);
	assert_int_equal(0, record_ring_read(ring, see, &seen));
	assert_int_equal(3, seen.count);
	assert_int_equal(3, seen.first[2]);
	record_ring_close(ring);
	writer_close(&writer);
}

TEST(refuses_a_record_longer_than_the_ring)
{
	struct seen seen = { 0 };
	struct record_ring *ring;
	struct writer writer;
	uint32_t word = RING_BYTES;

	writer_open(&writer, 0);
	assert_int_equal(0, record_ring_open(writer.fd, RING_BYTES, &ring));
	memcpy(byte_at(&writer, 0), &word, sizeof(word));
	*produced_of(&writer) = 8;
	assert_int_equal(-EBADMSG, record_ring_read(ring, see, &seen));
	assert_int_equal(0, seen.count);
	record_ring_close(ring);
	writer_close(&writer);
}

TEST(refuses_a_map_that_is_no_ring)
{
	struct record_ring *ring;

	assert_int_not_equal(0, record_ring_open(-1, RING_BYTES, &ring));
}

RUN_TESTS(cmocka_unit_test(reads_whole_records_in_order_across_the_end),
	  cmocka_unit_test(waits_for_busy_records_and_skips_discarded_ones),
	  cmocka_unit_test(stops_on_request_and_continues_after_it),
	  cmocka_unit_test(refuses_a_record_longer_than_the_ring),
	  cmocka_unit_test(refuses_a_map_that_is_no_ring))
