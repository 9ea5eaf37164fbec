// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/mmap_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/test.h"

enum { MAP_BYTES = 4096 };

/* A record in the making. */
struct record {
	size_t size;
	union {
		struct perf_event_header header;
		uint8_t bytes[256];
		uint64_t words[32];
	};
};

static void put(struct record *record, const void *bytes, size_t size)
{
	memcpy(record->bytes + record->size, bytes, size);
	record->size += size;
}

static void put_u64(struct record *record, uint64_t value)
{
	put(record, &value, sizeof(value));
}

static struct record begin(uint32_t type, uint16_t misc)
{
	struct record record = { 0 };
	uint32_t pid_tid[2] = { 12, 13 };

	record.header = (struct perf_event_header){ .type = type, .misc = misc };
	record.size = sizeof(record.header);
	put(&record, pid_tid, sizeof(pid_tid));
	return record;
}

static void end(struct record *record)
{
	put_u64(record, 1); // its time
	record->header.size = (uint16_t)record->size;
}

static struct record mmap2(uint64_t start, uint64_t length, uint16_t misc, uint8_t build_id_size,
			   const char *path, size_t path_size)
{
	struct record record = begin(PERF_RECORD_MMAP2, misc);
	uint8_t identity[24] = { build_id_size, 0, 0, 0, 0xab, 0xcd };
	uint32_t device[2] = { 8, 2 };

	put_u64(&record, start);
	put_u64(&record, length);
	put_u64(&record, 0x1000);
	if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		put(&record, identity, sizeof(identity));
	} else {
		put(&record, device, sizeof(device));
		put_u64(&record, 77); // inode
		put_u64(&record, 0);
	}
	put_u64(&record, 0); // protection, flags
	put(&record, path, path_size);
	end(&record);
	return record;
}

/* Read it from memory of exactly its size, so that a read past the end is seen. */
static int parse(const struct record *record, struct mmap_event *ret_event, char *ret_path)
{
	uint8_t *copy = malloc(record->size);

	memcpy(copy, record->bytes, record->size);
	int rc = mmap_event_parse(copy, record->size, ret_event);
	if (rc > 0)
		snprintf(ret_path, 64, "%s", ret_event->path);
	free(copy);
	return rc;
}

TEST(reports_a_mapping_with_its_file)
{
	struct record record = mmap2(0x400000, 0x2000, 0, 0, "/bin/x\0", 8);
	struct mmap_event event;
	char path[64];

	assert_int_equal(1, parse(&record, &event, path));
	assert_int_equal(MMAP_EVENT_MAP, event.kind);
	assert_int_equal(12, event.pid);
	assert_int_equal(0x400000, event.start);
	assert_int_equal(0x402000, event.limit);
	assert_int_equal(0x1000, event.file_offset);
	assert_int_equal(8, event.device_major);
	assert_int_equal(2, event.device_minor);
	assert_int_equal(77, event.inode);
	assert_int_equal(0, event.build_id_size);
	assert_string_equal("/bin/x", path);
}

TEST(reports_a_mapping_with_its_build_id)
{
	struct record record =
		mmap2(0x400000, 0x2000, PERF_RECORD_MISC_MMAP_BUILD_ID, 20, "//anon\0", 8);
	struct mmap_event event;
	char path[64];

	assert_int_equal(1, parse(&record, &event, path));
	assert_int_equal(0, event.inode);
	assert_int_equal(20, event.build_id_size);
	assert_int_equal(0xab, event.build_id[0]);
	assert_int_equal(0xcd, event.build_id[1]);
	assert_string_equal("", path);
}

TEST(ignores_broken_and_foreign_records)
{
	const uint16_t with_id = PERF_RECORD_MISC_MMAP_BUILD_ID;
	struct {
		const char *what;
		struct record record;
		int rc;
	} rows[] = {
		{ "no end of the path", mmap2(1, 1, 0, 0, "12345678", 8), -EBADMSG },
		{ "no path", mmap2(1, 1, 0, 0, "", 0), -EBADMSG },
		{ "empty range", mmap2(1, 0, 0, 0, "/a\0\0\0\0\0", 8), -EBADMSG },
		{ "around the end of memory", mmap2(UINT64_MAX, 2, 0, 0, "/a\0\0\0\0\0", 8),
		  -EBADMSG },
		{ "build id too long", mmap2(1, 1, with_id, 21, "/a\0\0\0\0\0", 8), -EBADMSG },
		{ "exec cut short", begin(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC), -EBADMSG },
		{ "a thread's name", begin(PERF_RECORD_COMM, 0), 0 },
		{ "loss cut short", begin(PERF_RECORD_LOST, 0), -EBADMSG },
		{ "another kind", begin(PERF_RECORD_FORK, 0), 0 },
	};
	struct mmap_event event;
	char path[64];

	rows[5].record.size -= 4;
	end(&rows[5].record);
	end(&rows[6].record);
	end(&rows[7].record);
	end(&rows[8].record);
	for EACH (row, rows)
		EXPECT_EQ(row->rc, parse(&row->record, &event, path), row->what);

	struct record good = mmap2(0x400000, 0x2000, 0, 0, "/bin/x\0", 8);
	for (size_t size = 0; size < good.size; size++) {
		struct record cut = good;

		cut.size = size;
		assert_int_equal(-EBADMSG, parse(&cut, &event, path)); // its header says more
		cut.header.size = (uint16_t)size;
		assert_true(parse(&cut, &event, path) <= 1);
	}
}

TEST(reports_execs_and_losses)
{
	struct record record = begin(PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	struct mmap_event event;
	char path[64];

	put_u64(&record, 0x21217368); // "sh!!"
	end(&record);
	assert_int_equal(1, parse(&record, &event, path));
	assert_int_equal(MMAP_EVENT_EXEC, event.kind);
	assert_int_equal(12, event.pid);

	record = begin(PERF_RECORD_LOST, 0); // 12 and 13 are its id
	put_u64(&record, 4711);
	end(&record);
	assert_int_equal(1, parse(&record, &event, path));
	assert_int_equal(MMAP_EVENT_LOST, event.kind);
	assert_int_equal(4711, event.lost);
}

// ---- of this kernel -------------------------------------------------------------------------

struct seen {
	uint32_t pid;
	uint64_t start; // looked for
	uint32_t maps, execs, losses;
	uint32_t files_after_exec;
	char path[64];
	uint8_t build_id_size;
};

static void see(void *context, const struct mmap_event *event)
{
	struct seen *seen = context;

	if (event->kind == MMAP_EVENT_LOST)
		seen->losses++;
	if (event->pid != seen->pid)
		return;
	if (event->kind == MMAP_EVENT_EXEC) {
		seen->execs++;
		seen->files_after_exec = 0;
	}
	if (event->kind == MMAP_EVENT_MAP && event->path[0] == '/')
		seen->files_after_exec++;
	if (event->kind == MMAP_EVENT_MAP && (event->start == seen->start || !seen->start)) {
		seen->maps++;
		seen->build_id_size = event->build_id_size;
		snprintf(seen->path, sizeof(seen->path), "%s", event->path);
	}
}

static struct mmap_events *open_events(void)
{
	struct mmap_events *events = NULL;
	struct error err;

	if (mmap_events_open(&events, &err))
		printf("# %s\n", err.text);
	return events;
}

TEST(reports_own_mappings_at_once)
{
	struct mmap_events *events = open_events();
	struct seen seen = { .pid = (uint32_t)getpid() };

	if (!events)
		SKIP("perf events are not allowed here");
	void *code =
		mmap(NULL, MAP_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	seen.start = (uintptr_t)code;
	mmap_events_read(events, see, &seen);
	assert_int_equal(1, seen.maps);
	assert_string_equal("", seen.path);
	mmap_events_read(events, see, &seen);
	assert_int_equal(1, seen.maps); // once only

	munmap(code, MAP_BYTES);
	code = mmap(NULL, MAP_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	seen.start = (uintptr_t)code;
	mmap_events_read(events, see, &seen);
	assert_int_equal(1, seen.maps); // data are none of ours
	mprotect(code, MAP_BYTES, PROT_READ | PROT_EXEC);
	mmap_events_read(events, see, &seen);
	assert_int_equal(2, seen.maps);
	munmap(code, MAP_BYTES);
	mmap_events_close(events);
}

TEST(reports_all_mappings_of_a_short_lived_process)
{
	struct mmap_events *events = open_events();

	if (!events)
		SKIP("perf events are not allowed here");
	pid_t child = fork();
	if (child == 0) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	waitpid(child, NULL, 0);
	struct seen seen = { .pid = (uint32_t)child };
	mmap_events_read(events, see, &seen);
	assert_int_equal(1, seen.execs);
	assert_true(seen.files_after_exec >= 3); // itself, the dynamic linker, libc
	assert_int_equal(0, seen.losses);
	mmap_events_close(events);
}

/* Each CPU has a ring, and reports a loss with its own next record. */
static void stay_on_this_cpu(cpu_set_t *ret_before)
{
	cpu_set_t one;

	assert_int_equal(0, sched_getaffinity(0, sizeof(*ret_before), ret_before));
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	assert_int_equal(0, sched_setaffinity(0, sizeof(one), &one));
}

TEST(counts_events_lost_when_rings_are_full)
{
	struct mmap_events *events = open_events();
	struct seen seen = { .pid = (uint32_t)getpid() };
	cpu_set_t before;

	if (!events)
		SKIP("perf events are not allowed here");
	struct pollfd wait = { .fd = mmap_events_fd(events), .events = POLLIN };
	assert_int_equal(0, poll(&wait, 1, 0));
	stay_on_this_cpu(&before);
	void *code = mmap(NULL, MAP_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 20000; i++)
		mprotect(code, MAP_BYTES, i % 2 ? PROT_READ : PROT_READ | PROT_EXEC);
	assert_int_equal(1, poll(&wait, 1, 0));
	uint64_t now_ns = clock_monotonic_ns();
	assert_true(mmap_events_woken(events, now_ns));
	assert_false(mmap_events_woken(events, now_ns + NS_PER_MS)); // not so often
	assert_int_equal(0, poll(&wait, 1, 0));

	mmap_events_read(events, see, &seen);
	assert_true(seen.maps > 100);
	assert_true(seen.losses > 0);
	mprotect(code, MAP_BYTES,
		 PROT_READ | PROT_EXEC); // the kernel counts them with the next one
	mmap_events_read(events, see, &seen);
	assert_true(mmap_events_lost(events) + seen.maps >= 10000);
	munmap(code, MAP_BYTES);
	sched_setaffinity(0, sizeof(before), &before);
	mmap_events_close(events);
}

RUN_TESTS(cmocka_unit_test(reports_a_mapping_with_its_file),
	  cmocka_unit_test(reports_a_mapping_with_its_build_id),
	  cmocka_unit_test(ignores_broken_and_foreign_records),
	  cmocka_unit_test(reports_execs_and_losses),
	  cmocka_unit_test(reports_own_mappings_at_once),
	  cmocka_unit_test(reports_all_mappings_of_a_short_lived_process),
	  cmocka_unit_test(counts_events_lost_when_rings_are_full))
