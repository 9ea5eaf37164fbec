// SPDX-License-Identifier: Apache-2.0
// The BPF programs of GPU calls on the running kernel: the arguments that they read. Needs root and BTF.
#include "agent/gpu/gpu_programs.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/elf/elf.h"
#include "agent/elf/elf_symbols.h"
#include "agent/bpf/machine.h"
#include "agent/probes/probe_link.h"
#include "agent/probes/probe_page.h"
#include "agent/probes/probe_site.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/gpu/cuda_double.h"
#include "tests/gpu/load_double.h"
#include "tests/test.h"

struct setting {
	struct loader *loader;
	struct gpu_programs *programs;
	enum probe_way way;
};

static bool open_setting(struct setting *ret_setting)
{
	struct error err = { 0 };

	if (machine_check(&err))
		return false;
	ret_setting->way = probe_link_choose(&err);
	if (ret_setting->way == PROBE_WAY_NONE)
		return false;
	struct loader_options loader_options = {
		.slot_ns = 20 * NS_PER_MS,
		.counts_max = 65536,
		.pid = getpid(), // calls of other processes must not count
	};
	struct gpu_programs_options options = {
		.slot_ns = 20 * NS_PER_MS,
		.only_targets = true,
		.attach_type = probe_way_attach_type(ret_setting->way),
		.keep_calls = true,
	};
	if (loader_open(&loader_options, &ret_setting->loader, &err) ||
	    gpu_programs_open(ret_setting->loader, &options, &ret_setting->programs, &err))
		fail_msg("%s: %s", err.text, loader_take_error());
	return true;
}

static void close_setting(struct setting *setting)
{
	gpu_programs_close(setting->programs);
	loader_close(setting->loader);
}

/* ---- arguments ------------------------------------------------------------------------------- */

typedef long (*call_fn)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			uint64_t, uint64_t, uint64_t, uint64_t);

static struct gpu_call_record read_back(const struct setting *setting, const char *what)
{
	struct gpu_call_record record = { 0 };

	EXPECT_EQ(0, gpu_programs_last_call(setting->programs, &record), what);
	return record;
}

/* Which of a call's arguments 1 to 11 each field has; 0: none. */
struct golden {
	enum gpu_call call;
	uint64_t handle, to, from;
};

static const struct golden goldens[] = {
	{ .call = GPU_CALL_LAUNCH, .handle = 0x101 },
	{ .call = GPU_CALL_LAUNCH_EX, .handle = 0x202 },
	{ .call = GPU_CALL_LAUNCH_HOST_FUNC, .handle = 0x101 },
	{ .call = GPU_CALL_GRAPH_LAUNCH, .handle = 0x101 },
	{ .call = GPU_CALL_COPY_HTOD, .to = 0x101, .from = 0x202 },
	{ .call = GPU_CALL_COPY_DTOH, .to = 0x101, .from = 0x202 },
	{ .call = GPU_CALL_COPY_DTOD, .to = 0x101, .from = 0x202 },
	{ .call = GPU_CALL_COPY_ANY, .to = 0x101, .from = 0x202 },
	{ .call = GPU_CALL_COPY_PEER, .to = 0x101, .from = 0x303 },
	{ .call = GPU_CALL_MEMSET, .to = 0x101 },
	{ .call = GPU_CALL_ALLOC_PITCH },
	{ .call = GPU_CALL_FREE, .to = 0x101 },
	{ .call = GPU_CALL_HOST_FREE, .to = 0x101 },
	{ .call = GPU_CALL_HOST_REGISTER, .to = 0x101 },
	{ .call = GPU_CALL_HOST_UNREGISTER, .to = 0x101 },
	{ .call = GPU_CALL_MEM_MAP, .to = 0x101 },
	{ .call = GPU_CALL_MEM_UNMAP, .to = 0x101 },
};

static const struct golden *golden_of(enum gpu_call call)
{
	static struct golden plain = { .handle = 0x101 };

	for EACH (row, goldens) {
		if (row->call == call)
			return row;
	}
	return &plain;
}

/* The value passed as argument @at, from 0. */
static uint64_t passed(uint32_t at)
{
	return at == GPU_ARGUMENT_NONE ? 0 : 0x101ULL * (at + 1);
}

static void expect_golden(const struct setting *setting, const struct gpu_call_symbol *row)
{
	enum gpu_call call = gpu_cookie_call(row->cookie);
	const struct golden *golden = golden_of(call);
	struct gpu_call_record record = read_back(setting, row->symbol);
	uint64_t bytes = passed(gpu_cookie_size_at(row->cookie))
			 << gpu_cookie_size_shift(row->cookie);

	if (call == GPU_CALL_ALLOC_PITCH)
		bytes = 0x303 * 0x404;
	EXPECT_EQ(call, record.call, row->symbol);
	EXPECT_EQ(gpu_cookie_flags(row->cookie), record.flags, row->symbol);
	EXPECT_EQ(golden->handle, record.handle, row->symbol);
	EXPECT_EQ(golden->to, record.to, row->symbol);
	EXPECT_EQ(golden->from, record.from, row->symbol);
	EXPECT_EQ(bytes, record.bytes, row->symbol);
	for (uint32_t i = 0; call == GPU_CALL_LAUNCH && i < 3; i++) {
		EXPECT_EQ(passed(1 + i), record.grid[i], row->symbol);
		EXPECT_EQ(passed(4 + i), record.block[i], row->symbol);
	}
	EXPECT_EQ(call == GPU_CALL_LAUNCH ? passed(8) : passed(gpu_cookie_stream_at(row->cookie)),
		  record.stream, row->symbol);
}

static void probe_page_with(const struct setting *setting, const struct probe_page *page,
			    const struct gpu_call_symbol *row, struct probe_link **ret_link)
{
	const struct probe_place place = { PROBE_PAGE_RETURN_AT, row->cookie };

	EXPECT_EQ(0,
		  probe_link_attach(setting->way, gpu_programs_entry_fd(setting->programs, row),
				    page->fd, &place, 1, false, ret_link),
		  row->symbol);
}

static call_fn function_on(const struct probe_page *page)
{
	call_fn function;
	const uint8_t *code = page->code + (PROBE_PAGE_RETURN_AT & ~0xffU);

	memcpy(&function, &code, sizeof(function));
	return function;
}

/* Calls with structures as arguments have their own tests. */
static bool has_structure(enum gpu_call call)
{
	return call == GPU_CALL_LAUNCH_EX || call == GPU_CALL_COPY_2D || call == GPU_CALL_COPY_3D ||
	       call == GPU_CALL_COPY_BATCH;
}

/* Functions with equal cookies need one test. */
static bool is_first_of_cookie(const struct gpu_call_symbol *rows, size_t at)
{
	for (size_t i = 0; i < at; i++) {
		if (rows[i].cookie == rows[at].cookie && rows[i].tier == rows[at].tier)
			return false;
	}
	return true;
}

TEST(reads_each_argument_from_its_place)
{
	struct setting setting = { 0 };
	struct probe_page page;
	size_t count;
	const struct gpu_call_symbol *rows = gpu_calls(&count);

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobes");
	EXPECT_EQ(0, probe_page_open(&page), "a page of code");
	for (size_t i = 0; i < count; i++) {
		struct probe_link *link;

		if (rows[i].library == GPU_LIBRARY_NCCL ||
		    has_structure(gpu_cookie_call(rows[i].cookie)) || !is_first_of_cookie(rows, i))
			continue;
		probe_page_with(&setting, &page, &rows[i], &link);
		function_on (&page)(0x101, 0x202, 0x303, 0x404, 0x505, 0x606, 0x707, 0x808, 0x909,
				    0xa0a, 0xb0b);
		expect_golden(&setting, &rows[i]);
		probe_link_detach(link);
		probe_link_settle();
	}
	probe_page_close(&page);
	close_setting(&setting);
}

/* As the driver's headers have them: CUDA_MEMCPY2D and CUDA_MEMCPY3D. */
struct copy_side_2d {
	size_t x, y;
	unsigned int type;
	const void *host;
	CUdeviceptr device;
	void *array;
	size_t pitch;
};

struct copy_2d {
	struct copy_side_2d from, to;
	size_t width, height;
};

struct copy_side_3d {
	size_t x, y, z, level;
	unsigned int type;
	const void *host;
	CUdeviceptr device;
	void *array, *reserved;
	size_t pitch, height;
};

struct copy_3d {
	struct copy_side_3d from, to;
	size_t width, height, depth;
};

_Static_assert(offsetof(struct copy_2d, to.type) == 72 && offsetof(struct copy_2d, width) == 112,
	       "CUDA_MEMCPY2D");
_Static_assert(offsetof(struct copy_3d, to.type) == 120 && offsetof(struct copy_3d, width) == 176 &&
		       offsetof(struct copy_3d, depth) == 192,
	       "CUDA_MEMCPY3D");

static struct gpu_call_record call_with(const struct setting *setting, const char *symbol,
					const void *first, uint64_t second, const void *third,
					uint64_t fourth)
{
	const struct gpu_call_symbol *row = gpu_calls_find(symbol);
	struct probe_page page;
	struct probe_link *link;

	EXPECT_EQ(0, probe_page_open(&page), symbol);
	probe_page_with(setting, &page, row, &link);
	function_on (&page)((uint64_t)first, second, (uint64_t)third, fourth, 0, 0, 0, 0, 0, 0, 0);
	probe_link_detach(link);
	probe_link_settle();
	probe_page_close(&page);
	return read_back(setting, symbol);
}

TEST(reads_structures_as_the_driver_does)
{
	struct setting setting = { 0 };

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobes");
	CUlaunchConfig config = { .grid = { 2, 3, 5 },
				  .block = { 7, 11, 13 },
				  .shared_bytes = 17,
				  .stream = (CUstream)0x1313 };
	struct gpu_call_record record =
		call_with(&setting, "cuLaunchKernelEx", &config, 0x2929, NULL, 0);
	EXPECT_EQ(0x2929, record.handle, "function");
	EXPECT_EQ(0x1313, record.stream, "stream");
	for (uint32_t i = 0; i < 3; i++) {
		EXPECT_EQ(config.grid[i], record.grid[i], "grid");
		EXPECT_EQ(config.block[i], record.block[i], "block");
	}

	struct copy_2d flat = { .from = { .type = 1, .host = (void *)0x1111 },
				.to = { .type = 2, .device = 0x2222 },
				.width = 19,
				.height = 23 };
	record = call_with(&setting, "cuMemcpy2DAsync_v2", &flat, 0x3131, NULL, 0);
	EXPECT_EQ(19 * 23, record.bytes, "bytes in two dimensions");
	EXPECT_EQ(GPU_CALL_COPY_HTOD, record.call, "from host to device");
	EXPECT_EQ(0x1111, record.from, "source");
	EXPECT_EQ(0x2222, record.to, "destination");
	EXPECT_EQ(0x3131, record.stream, "stream");

	struct copy_3d deep = { .from = { .type = 2, .device = 0x3333 },
				.to = { .type = 1, .host = (void *)0x4444 },
				.width = 29,
				.height = 31,
				.depth = 37 };
	record = call_with(&setting, "cuMemcpy3D_v2", &deep, 0, NULL, 0);
	EXPECT_EQ(29 * 31 * 37, record.bytes, "bytes in three dimensions");
	EXPECT_EQ(GPU_CALL_COPY_DTOH, record.call, "from device to host");
	EXPECT_EQ(0x3333, record.from, "source");
	EXPECT_EQ(0x4444, record.to, "destination");

	CUdeviceptr to[3] = { 0x5555 }, from[3] = { 0x6666 };
	size_t sizes[3] = { 41, 43, 47 };
	record = call_with(&setting, "cuMemcpyBatchAsync", to, (uint64_t)from, sizes, 3);
	EXPECT_EQ(41 + 43 + 47, record.bytes, "bytes of a batch");
	EXPECT_EQ(0x5555, record.to, "its first destination");
	EXPECT_EQ(0x6666, record.from, "its first source");
	close_setting(&setting);
}

// ---- NCCL -----------------------------------------------------------------------------------

/* Bytes of all types of nccl.h 2.30 by number, and of an unknown one. */
static const uint64_t bytes_of_types[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 0 };

static void expect_collective(const struct setting *setting, const struct probe_page *page,
			      const struct gpu_call_symbol *row, uint64_t type)
{
	uint32_t type_at = nccl_cookie_type_at(row->cookie);
	uint64_t arguments[7];

	for (uint32_t i = 0; i < ARRAY_SIZE(arguments); i++)
		arguments[i] = i == type_at ? type : 0x101ULL * (i + 1);
	function_on(page)(arguments[0], arguments[1], arguments[2], arguments[3], arguments[4],
			  arguments[5], arguments[6], 0x808, 0x909, 0xa0a, 0xb0b);
	struct gpu_call_record record = read_back(setting, row->symbol);
	EXPECT_EQ(GPU_CALL_NCCL_COLLECTIVE, record.call, row->symbol);
	EXPECT_EQ(nccl_cookie_collective(row->cookie), record.grid[0], row->symbol);
	EXPECT_EQ(passed(gpu_cookie_stream_at(row->cookie)), record.handle, row->symbol);
	EXPECT_EQ(passed(gpu_cookie_size_at(row->cookie)) * bytes_of_types[type], record.bytes,
		  row->symbol);
}

TEST(reads_nccl_communicator_and_bytes)
{
	struct setting setting = { 0 };
	struct probe_page page;
	size_t count;
	const struct gpu_call_symbol *rows = gpu_calls(&count);

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobes");
	EXPECT_EQ(0, probe_page_open(&page), "a page of code");
	for (size_t i = 0; i < count; i++) {
		struct probe_link *link;

		if (gpu_cookie_call(rows[i].cookie) != GPU_CALL_NCCL_COLLECTIVE)
			continue;
		probe_page_with(&setting, &page, &rows[i], &link);
		for (uint64_t type = 0; type < ARRAY_SIZE(bytes_of_types); type++)
			expect_collective(&setting, &page, &rows[i], type);
		probe_link_detach(link);
		probe_link_settle();
	}
	probe_page_close(&page);
	close_setting(&setting);
}

/* ncclUniqueId */
struct id {
	uint64_t words[16];
};

static uint64_t identity_of(const struct id *id)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (uint32_t i = 0; i < 16; i++) {
		hash = (hash ^ id->words[i]) * 0x100000001b3ULL;
		hash ^= hash >> 29;
	}
	return hash | 1;
}

typedef long (*init_fn)(void **made, int ranks, struct id id, int rank, void *more);
typedef long (*init_scalable_fn)(void **made, int ranks, int rank, int count, struct id *ids,
				 void *more);

static struct gpu_call_record init_with(const struct setting *setting, const char *symbol,
					const struct id *id, int rank)
{
	const struct gpu_call_symbol *row = gpu_calls_find(symbol);
	struct probe_page page;
	struct probe_link *link;
	void *made = (void *)0x1234;
	struct id ids[2] = { *id, { { 99 } } };

	EXPECT_EQ(0, probe_page_open(&page), symbol);
	probe_page_with(setting, &page, row, &link);
	call_fn any = function_on(&page);
	if (gpu_cookie_call(row->cookie) == GPU_CALL_NCCL_INIT_SCALABLE) {
		init_scalable_fn init;

		memcpy(&init, &any, sizeof(init));
		init(&made, 24, rank, 2, ids, (void *)0x5555);
	} else {
		init_fn init;

		memcpy(&init, &any, sizeof(init));
		init(&made, 24, *id, rank, (void *)0x5555);
	}
	probe_link_detach(link);
	probe_link_settle();
	probe_page_close(&page);
	struct gpu_call_record record = read_back(setting, symbol);
	EXPECT_EQ((uintptr_t)&made, record.from, symbol);
	return record;
}

TEST(unique_id_identifies_a_communicator)
{
	static const char *const symbols[] = { "ncclCommInitRank", "ncclCommInitRankConfig",
					       "ncclCommInitRankScalable" };
	struct setting setting = { 0 };
	struct id id;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobes");
	for EACH (symbol, symbols) {
		for (uint32_t i = 0; i < 16; i++)
			id.words[i] = 0x0101010101010101ULL * (i + 1);
		struct gpu_call_record record = init_with(&setting, *symbol, &id, 17);
		EXPECT_EQ(identity_of(&id), record.to, *symbol);
		EXPECT_EQ(17, record.grid[1], *symbol);
		EXPECT_EQ(24, record.grid[2], *symbol);
		// Each word matters.
		for (uint32_t i = 0; i < 16; i++) {
			id.words[i]++;
			record = init_with(&setting, *symbol, &id, 3);
			EXPECT_EQ(identity_of(&id), record.to, *symbol);
		}
	}
	close_setting(&setting);
}

TEST(reads_where_resized_communicators_will_be)
{
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobes");
	struct gpu_call_record record =
		call_with(&setting, "ncclCommGrow", NULL, 8, (void *)0x3333, 5);
	EXPECT_EQ(5, record.grid[1], "rank of a new one");
	EXPECT_EQ(8, record.grid[2], "ranks");
	EXPECT_EQ(0, record.to, "no identity");
	record = call_with(&setting, "ncclCommShrink", (void *)0x1111, 0x2222, (void *)3, 0x4444);
	EXPECT_EQ(0x4444, record.from, "place of the new handle");
	EXPECT_EQ(NCCL_RANK_UNKNOWN, record.grid[1], "rank of an existing one");
	EXPECT_EQ(0, record.to, "an unknown communicator");
	close_setting(&setting);
}

RUN_TESTS(cmocka_unit_test(reads_each_argument_from_its_place),
	  cmocka_unit_test(reads_structures_as_the_driver_does),
	  cmocka_unit_test(reads_nccl_communicator_and_bytes),
	  cmocka_unit_test(unique_id_identifies_a_communicator),
	  cmocka_unit_test(reads_where_resized_communicators_will_be))
