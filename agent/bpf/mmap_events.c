// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/mmap_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/bpf/per_cpu.h"
#include "base/cleanup.h"
#include "base/clock.h"

enum {
	// A power of two. kernel.perf_event_mlock_kb allows every user 128 pages of rings per CPU.
	RING_PAGES = 16,
	RECORD_BYTES_MAX = 65536,          // a record's size has 16 bits
	LARGEST_RECORD_BYTES = 4096 + 128, // of the kinds asked for: with a path of PATH_MAX
};

#define HOTPLUG_INTERVAL_NS (5 * NS_PER_SECOND)
/* A ring that fills faster is read at this rate only: 64 KiB take some 50 us. */
#define WAKE_INTERVAL_NS (20 * NS_PER_MS)

struct ring {
	uint32_t cpu;
	int fd;
	struct perf_event_mmap_page *page; // followed by the data
	uint64_t head;                     // end of what the kernel has written
	uint64_t tail;                     // end of what has been read
	uint64_t next_ns;                  // time of the record at tail
};

struct mmap_events {
	struct per_cpu cpus;
	struct ring *rings;           // its items
	uint32_t filled[PER_CPU_MAX]; // rings with something to read
	int epoll_fd;
	bool with_build_ids;
	bool overran; // events were missed: CPUs came or went, or a ring is broken
	uint64_t hotplug_ns;
	uint64_t woken_ns;
	uint64_t lost;
	size_t page_bytes;
	uint64_t record[RECORD_BYTES_MAX / sizeof(uint64_t)]; // a copy of one that wraps around
};

// ---- records --------------------------------------------------------------------------------

/* Kernel: include/uapi/linux/perf_event.h, enum perf_event_type. */
struct comm_record {
	struct perf_event_header header;
	uint32_t pid, tid;
};

struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t start, length, page_offset;
	union {
		struct {
			uint32_t major, minor;
			uint64_t inode, generation;
		} file;
		struct {
			uint8_t size, pad[3];
			uint8_t bytes[MMAP_EVENT_BUILD_ID_BYTES];
		} build_id;
	};
	uint32_t protection, flags;
	char path[]; // NUL-terminated, padded to 8 bytes
};

struct lost_record {
	struct perf_event_header header;
	uint64_t id;
	uint64_t count;
};

static int parse_comm(const struct perf_event_header *header, size_t size,
		      struct mmap_event *ret_event)
{
	struct comm_record comm;

	if (size < sizeof(comm))
		return -EBADMSG;
	if (!(header->misc & PERF_RECORD_MISC_COMM_EXEC)) // a thread renamed itself
		return 0;
	memcpy(&comm, header, sizeof(comm));
	*ret_event = (struct mmap_event){ .kind = MMAP_EVENT_EXEC, .pid = comm.pid, .path = "" };
	return 1;
}

static int parse_lost(const struct perf_event_header *header, size_t size,
		      struct mmap_event *ret_event)
{
	struct lost_record lost;

	if (size < sizeof(lost))
		return -EBADMSG;
	memcpy(&lost, header, sizeof(lost));
	*ret_event = (struct mmap_event){
		.kind = MMAP_EVENT_LOST,
		.lost = lost.count,
		.path = "",
	};
	return 1;
}

static void read_file_identity(const struct mmap2_record *record, struct mmap_event *event)
{
	if (!(record->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID)) {
		event->device_major = record->file.major;
		event->device_minor = record->file.minor;
		event->inode = record->file.inode;
		return;
	}
	event->build_id_size = record->build_id.size;
	memcpy(event->build_id, record->build_id.bytes, sizeof(event->build_id));
}

static int parse_mmap(const struct perf_event_header *header, size_t size,
		      struct mmap_event *ret_event)
{
	const struct mmap2_record *record = (const void *)header;

	if (size <= sizeof(*record))
		return -EBADMSG;
	size_t path_bytes = size - sizeof(*record);
	if (!memchr(record->path, '\0', path_bytes) || record->length == 0 ||
	    record->start + record->length < record->start)
		return -EBADMSG;

	struct mmap_event event = {
		.kind = MMAP_EVENT_MAP,
		.pid = record->pid,
		.start = record->start,
		.limit = record->start + record->length,
		.file_offset = record->page_offset,
		// The kernel's name of anonymous memory.
		.path = strcmp(record->path, "//anon") == 0 ? "" : record->path,
	};
	read_file_identity(record, &event);
	if (event.build_id_size > MMAP_EVENT_BUILD_ID_BYTES)
		return -EBADMSG;
	*ret_event = event;
	return 1;
}

int mmap_event_parse(const void *record, size_t size, struct mmap_event *ret_event)
{
	const struct perf_event_header *header = record;
	size_t time_bytes = sizeof(uint64_t);

	if (size < sizeof(*header) + time_bytes || header->size != size)
		return -EBADMSG;
	switch (header->type) {
	case PERF_RECORD_COMM:
		return parse_comm(header, size - time_bytes, ret_event);
	case PERF_RECORD_LOST:
		return parse_lost(header, size - time_bytes, ret_event);
	case PERF_RECORD_MMAP2:
		return parse_mmap(header, size - time_bytes, ret_event);
	}
	return 0;
}

// ---- rings ----------------------------------------------------------------------------------

static size_t ring_bytes(const struct mmap_events *events)
{
	return RING_PAGES * events->page_bytes;
}

static uint8_t *data_of(const struct mmap_events *events, const struct ring *ring)
{
	return (uint8_t *)ring->page + events->page_bytes;
}

static int open_event(const struct mmap_events *events, uint32_t cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.build_id = events->with_build_ids,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC, // sched_clock() may differ between CPUs
		.watermark = 1,
		.wakeup_watermark = (uint32_t)ring_bytes(events) / 2,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_ring(void *context, uint32_t cpu, void *item)
{
	struct mmap_events *events = context;
	struct epoll_event wanted = { .events = EPOLLIN | EPOLLET };
	_cleanup_close_ int fd = open_event(events, cpu);

	// Build ids need Linux 5.12.
	if (fd == -EINVAL && events->with_build_ids) {
		events->with_build_ids = false;
		fd = open_event(events, cpu);
	}
	if (fd < 0)
		return fd;
	void *page = mmap(NULL, events->page_bytes + ring_bytes(events), PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	if (epoll_ctl(events->epoll_fd, EPOLL_CTL_ADD, fd, &wanted) < 0) {
		int rc = -errno;

		munmap(page, events->page_bytes + ring_bytes(events));
		return rc;
	}
	*(struct ring *)item = (struct ring){ .cpu = cpu, .fd = take_fd(fd), .page = page };
	return 0;
}

static void close_ring(void *context, void *item)
{
	struct mmap_events *events = context;
	struct ring *ring = item;

	munmap(ring->page, events->page_bytes + ring_bytes(events));
	close(ring->fd); // leaves the epoll set, too
}

static int update_rings(struct mmap_events *events, uint64_t now_ns)
{
	bool changed;
	int rc = per_cpu_update(&events->cpus, &changed);

	events->hotplug_ns = now_ns + HOTPLUG_INTERVAL_NS;
	events->rings = events->cpus.items;
	events->overran |= changed;
	return rc;
}

// ---- life -----------------------------------------------------------------------------------

int mmap_events_open(struct mmap_events **ret_events, struct error *err)
{
	struct mmap_events *events = calloc(1, sizeof(*events));

	if (!events)
		return error_set(err, -ENOMEM, "mmap events: out of memory");
	events->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	events->cpus = (struct per_cpu){ .item_size = sizeof(struct ring),
					 .open = open_ring,
					 .close = close_ring,
					 .context = events };
	events->with_build_ids = true;
	events->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	int rc = events->epoll_fd < 0 ? -errno : update_rings(events, clock_monotonic_ns());
	if (rc || !events->cpus.count) {
		mmap_events_close(events);
		return error_errno(err, rc ? rc : -ENODEV,
				   "mmap events cannot be opened; raise kernel.perf_event_mlock_kb "
				   "or give the agent CAP_IPC_LOCK");
	}
	events->overran = false; // the first list of CPUs is no change
	*ret_events = events;
	return 0;
}

void mmap_events_close(struct mmap_events *events)
{
	if (!events)
		return;
	per_cpu_close(&events->cpus);
	cleanup_closep(&events->epoll_fd);
	free(events);
}

int mmap_events_fd(const struct mmap_events *events)
{
	return events->epoll_fd;
}

uint64_t mmap_events_lost(const struct mmap_events *events)
{
	return events->lost;
}

bool mmap_events_woken(struct mmap_events *events, uint64_t now_ns)
{
	struct epoll_event woken[16];

	// Edge-triggered: an unread ring wakes again only when more arrives.
	while (epoll_wait(events->epoll_fd, woken, ARRAY_SIZE(woken), 0) == ARRAY_SIZE(woken))
		;
	if (now_ns - events->woken_ns < WAKE_INTERVAL_NS)
		return false;
	events->woken_ns = now_ns;
	return true;
}

// ---- reading --------------------------------------------------------------------------------

/* Records are aligned to 8 bytes: neither header nor time wraps around. */
static uint64_t word_at(const struct mmap_events *events, const struct ring *ring, uint64_t at)
{
	uint64_t word;

	memcpy(&word, data_of(events, ring) + (at & (ring_bytes(events) - 1)), sizeof(word));
	return word;
}

static size_t record_size(const struct mmap_events *events, const struct ring *ring)
{
	uint64_t word = word_at(events, ring, ring->tail);
	struct perf_event_header header;

	memcpy(&header, &word, sizeof(header));
	return header.size;
}

static const void *record_of(struct mmap_events *events, const struct ring *ring, size_t size)
{
	const uint8_t *data = data_of(events, ring);
	size_t at = ring->tail & (ring_bytes(events) - 1);
	size_t before_end = ring_bytes(events) - at;

	if (size <= before_end)
		return data + at;
	memcpy(events->record, data + at, before_end);
	memcpy((uint8_t *)events->record + before_end, data, size - before_end);
	return events->record;
}

/* Reads the time of the ring's next record. Returns false if there is none. */
static bool find_next(struct mmap_events *events, struct ring *ring)
{
	uint64_t left = ring->head - ring->tail;
	size_t size = left ? record_size(events, ring) : 0;

	if (left && (left > ring_bytes(events) || size < 2 * sizeof(uint64_t) ||
		     size % sizeof(uint64_t) || size > left)) {
		ring->tail = ring->head; // broken: skip all of it
		events->overran = true;
		left = 0;
	}
	if (!left) {
		__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
		return false;
	}
	ring->next_ns = word_at(events, ring, ring->tail + size - sizeof(uint64_t));
	return true;
}

/* Finds the rings with something to read. */
static uint32_t find_filled(struct mmap_events *events)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < events->cpus.count; i++) {
		struct ring *ring = &events->rings[i];

		ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
		// The kernel reports a loss only with the next event that fits.
		if (ring->head - ring->tail > ring_bytes(events) - LARGEST_RECORD_BYTES)
			events->overran = true;
		if (ring->head != ring->tail && find_next(events, ring))
			events->filled[count++] = i;
	}
	return count;
}

static void read_record(struct mmap_events *events, struct ring *ring, mmap_event_fn fn,
			void *context)
{
	size_t size = record_size(events, ring);
	struct mmap_event event;

	if (mmap_event_parse(record_of(events, ring, size), size, &event) > 0) {
		if (event.kind == MMAP_EVENT_LOST)
			events->lost += event.lost;
		fn(context, &event);
	}
	ring->tail += size;
}

static void report_overrun(struct mmap_events *events, mmap_event_fn fn, void *context)
{
	struct mmap_event event = { .kind = MMAP_EVENT_LOST, .path = "" };

	if (events->overran)
		fn(context, &event);
	events->overran = false;
}

void mmap_events_read(struct mmap_events *events, mmap_event_fn fn, void *context)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (now_ns >= events->hotplug_ns)
		update_rings(events, now_ns);

	// Few rings have records at a time: look for the earliest among them each time.
	for (uint32_t count = find_filled(events); count;) {
		uint32_t earliest = 0;

		for (uint32_t i = 1; i < count; i++)
			if (events->rings[events->filled[i]].next_ns <
			    events->rings[events->filled[earliest]].next_ns)
				earliest = i;
		struct ring *ring = &events->rings[events->filled[earliest]];
		read_record(events, ring, fn, context);
		if (!find_next(events, ring))
			events->filled[earliest] = events->filled[--count];
	}
	report_overrun(events, fn, context);
}
