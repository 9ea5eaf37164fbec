// SPDX-License-Identifier: Apache-2.0
// What is allocated on GPUs, as the kernel programs keep it: this process calls a copy of the double, with the
// agent's probes in it. Needs root, BTF and uprobes.
#include "agent/gpu_programs.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "agent/gpu_probes.h"
#include "agent/machine.h"
#include "agent/proc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/gpu/cuda_double.h"
#include "tests/unit/agent/gpu_children.h"

#define MIB (1ULL << 20)

static struct {
	CUresult (*init)(unsigned int);
	CUresult (*context)(CUcontext *, unsigned int, int);
	CUresult (*set_current)(CUcontext);
	CUresult (*alloc)(CUdeviceptr *, size_t);
	CUresult (*free)(CUdeviceptr);
	CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
	CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const void *,
			   unsigned long long);
	CUresult (*release)(CUmemGenericAllocationHandle);
	CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
			unsigned long long);
	CUresult (*unmap)(CUdeviceptr, size_t);
} cuda;

static CUcontext our_context;

static void load_driver(const char *path)
{
	static const struct {
		const char *name;
		void *place;
	} names[] = {
		{ "cuInit", &cuda.init },
		{ "cuCtxCreate_v2", &cuda.context },
		{ "cuCtxSetCurrent", &cuda.set_current },
		{ "cuMemAlloc_v2", &cuda.alloc },
		{ "cuMemFree_v2", &cuda.free },
		{ "cuMemAddressReserve", &cuda.reserve },
		{ "cuMemCreate", &cuda.create },
		{ "cuMemRelease", &cuda.release },
		{ "cuMemMap", &cuda.map },
		{ "cuMemUnmap", &cuda.unmap },
	};
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	assert_non_null(library);
	for EACH (one, names) {
		void *function = dlsym(library, one->name);

		assert_non_null(function);
		memcpy(one->place, &function, sizeof(function));
	}
	assert_int_equal(0, cuda.init(0));
	assert_int_equal(0, cuda.context(&our_context, 0, 0));
}

// ---- the agent's side -----------------------------------------------------------------------------

struct setting {
	struct loader *loader;
	struct gpu_programs *programs;
	struct gpu_probes *probes;
	struct gpu_drivers *drivers;
	uint64_t hits[GPU_CALL_COUNT]; // as the test wants them
	uint64_t now_ns;
	uint32_t generations; // how often probes were attached anew
};

static int read_hits(void *context, uint64_t ret_hits[GPU_CALL_COUNT])
{
	const struct setting *setting = context;

	memcpy(ret_hits, setting->hits, sizeof(setting->hits));
	return 0;
}

static void set_generation(void *context, uint32_t generation)
{
	struct setting *setting = context;

	setting->generations++;
	gpu_programs_set_generation(setting->programs, generation);
}

static void open_probes(struct setting *setting, enum probe_way way)
{
	struct gpu_probes_options options = {
		.way = way,
		.cost = { .cheap_ns = 450, .stepped_ns = 15000, .return_ns = 450 },
		.read_hits = read_hits,
		.set_generation = set_generation,
		.context = setting,
	};
	struct error err = { 0 };

	options.calls = gpu_calls(&options.call_count);
	for (uint32_t call = 0; call < GPU_CALL_COUNT; call++)
		options.programs.entry_fds[call] = options.programs.return_fds[call] = -1;
	for (size_t i = 0; i < options.call_count; i++) {
		const struct gpu_call_symbol *row = &options.calls[i];
		uint32_t call = gpu_cookie_call(row->cookie);

		options.programs.entry_fds[call] = gpu_programs_entry_fd(setting->programs, row);
		if (row->wants_exit)
			options.programs.return_fds[call] =
				gpu_programs_return_fd(setting->programs, row);
	}
	assert_int_equal(0, gpu_probes_open(&options, &setting->probes, &err));
}

// This process maps the driver.
static void see_ourselves(struct setting *setting)
{
	const struct gpu_driver_listener listener = { gpu_probes_add, gpu_probes_remove,
						      setting->probes };
	const struct process_key key = { .pid = (uint32_t)getpid(), .start_ns = 1 };
	struct mapping_list *list;
	struct proc proc;

	setting->drivers = gpu_drivers_new(&listener);
	assert_non_null(setting->drivers);
	gpu_drivers_begin(setting->drivers);
	assert_int_equal(0, proc_open(getpid(), &proc));
	_cleanup_close_ int maps = openat(proc.files, "maps", O_RDONLY | O_CLOEXEC);
	assert_int_equal(0, mapping_list_read(maps, &list));
	gpu_drivers_note(setting->drivers, &key, 1, proc.files, list);
	mapping_list_release(list);
	proc_close(&proc);
	gpu_drivers_end(setting->drivers, 0);
}

static bool open_setting(struct setting *setting)
{
	struct error err = { 0 };
	char path[PATH_MAX];

	*setting = (struct setting){ .now_ns = clock_monotonic_ns() };
	if (machine_check(&err))
		return false;
	enum probe_way way = probe_link_choose(&err);
	if (way != PROBE_WAY_MULTI) // each perf event takes 20 ms and more to close
		return false;
	const struct loader_options loader_options = {
		.slot_ns = 20 * NS_PER_MS,
		.counts_max = 65536,
		.pid = getpid(),
	};
	const struct gpu_programs_options options = {
		.slot_ns = 20 * NS_PER_MS,
		.only_followed = true,
		.attach_type = probe_way_attach_type(way),
	};
	if (loader_open(&loader_options, &setting->loader, &err) ||
	    gpu_programs_open(setting->loader, &options, &setting->programs, &err))
		fail_msg("%s: %s", err.text, loader_take_refusal());
	open_probes(setting, way);
	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	load_driver(path);
	see_ourselves(setting);
	return true;
}

static void close_setting(struct setting *setting)
{
	gpu_drivers_free(setting->drivers);
	gpu_probes_close(setting->probes);
	gpu_programs_close(setting->programs);
	loader_close(setting->loader);
}

static void expect_live(const struct setting *setting, uint64_t bytes, uint64_t allocations,
			const char *what)
{
	struct gpu_live live;

	assert_int_equal(0, gpu_programs_read_memory(setting->programs, &live));
	EXPECT_EQ(bytes, live.bytes, what);
	EXPECT_EQ(allocations, live.allocations, what);
}

static uint64_t read_counter(const struct setting *setting, uint32_t counter)
{
	uint64_t counters[COUNTER_COUNT];

	loader_read_counters(setting->loader, counters);
	return counters[counter];
}

static CUdeviceptr allocate(size_t bytes)
{
	CUdeviceptr address = 0;

	assert_int_equal(0, cuda.alloc(&address, bytes));
	return address;
}

// ---- claims -----------------------------------------------------------------------------------

TEST(what_is_freed_is_not_allocated)
{
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	CUdeviceptr first = allocate(3 * MIB), second = allocate(5 * MIB);
	expect_live(&setting, 8 * MIB, 2, "two");
	assert_int_equal(0, cuda.free(first));
	expect_live(&setting, 5 * MIB, 1, "one was freed");
	assert_int_equal(0, cuda.free(0));
	assert_int_not_equal(0, cuda.free(first));
	expect_live(&setting, 5 * MIB, 1, "nothing, and what the driver refused");
	assert_int_equal(0, cuda.free(second));
	expect_live(&setting, 0, 0, "all");
	assert_int_not_equal(0, cuda.alloc(&first, 1ULL << 50));
	expect_live(&setting, 0, 0, "what the driver refused");
	close_setting(&setting);
}

TEST(memory_that_was_there_before_is_no_loss_when_it_is_freed)
{
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	gpu_drivers_free(take(setting.drivers)); // its probes go
	probe_link_settle();
	CUdeviceptr early = allocate(7 * MIB);
	see_ourselves(&setting);
	uint64_t unknown = read_counter(&setting, COUNTER_GPU_UNKNOWN_FREES);
	CUdeviceptr late = allocate(MIB);
	assert_int_equal(0, cuda.free(early));
	expect_live(&setting, MIB, 1, "only what was seen");
	EXPECT_EQ(unknown + 1, read_counter(&setting, COUNTER_GPU_UNKNOWN_FREES), "counted");
	assert_int_equal(0, cuda.free(late));
	close_setting(&setting);
}

TEST(an_address_that_comes_again_is_one_allocation)
{
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	CUdeviceptr address = allocate(2 * MIB);
	gpu_drivers_free(take(setting.drivers));
	probe_link_settle();
	assert_int_equal(0, cuda.free(address)); // nobody sees it
	see_ourselves(&setting);
	expect_live(&setting, 2 * MIB, 1, "nobody has seen it go");
	// The double gives each address once: the same handle of physical memory comes again, though.
	CUmemGenericAllocationHandle handle = 0, again = 0;
	char properties[64] = { 0 };
	assert_int_equal(0, cuda.create(&handle, 4 * MIB, properties, 0));
	gpu_drivers_free(take(setting.drivers));
	probe_link_settle();
	assert_int_equal(0, cuda.release(handle));
	see_ourselves(&setting);
	assert_int_equal(0, cuda.create(&again, 16 * MIB, properties, 0));
	assert_int_equal(handle, again);
	expect_live(&setting, 18 * MIB, 2, "what it was before is forgotten");
	assert_int_equal(0, cuda.release(again));
	expect_live(&setting, 2 * MIB, 1, "released");
	close_setting(&setting);
}

TEST(physical_memory_lives_as_long_as_it_is_mapped)
{
	struct setting setting;
	CUmemGenericAllocationHandle handle = 0;
	CUdeviceptr one = 0, two = 0;
	char properties[64] = { 0 };

	if (!open_setting(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	assert_int_equal(0, cuda.reserve(&one, 4 * MIB, 0, 0, 0));
	assert_int_equal(0, cuda.reserve(&two, 4 * MIB, 0, 0, 0));
	expect_live(&setting, 0, 0, "addresses are no memory");
	assert_int_equal(0, cuda.create(&handle, 4 * MIB, properties, 0));
	assert_int_equal(0, cuda.map(one, 4 * MIB, 0, handle, 0));
	assert_int_equal(0, cuda.map(two, 4 * MIB, 0, handle, 0));
	expect_live(&setting, 4 * MIB, 1, "mapped twice");
	assert_int_equal(0, cuda.release(handle));
	expect_live(&setting, 4 * MIB, 1, "released, but mapped");
	assert_int_equal(0, cuda.unmap(one, 4 * MIB));
	expect_live(&setting, 4 * MIB, 1, "mapped once");
	assert_int_equal(0, cuda.unmap(two, 4 * MIB));
	expect_live(&setting, 0, 0, "mapped no more");
	close_setting(&setting);
}

// ---- while probes come and go -----------------------------------------------------------------

static _Atomic bool is_over;
static _Atomic uint64_t churned;

static void *churn(void *current)
{
	if (cuda.set_current(current))
		abort();
	while (!is_over) {
		CUdeviceptr address;

		if (cuda.alloc(&address, MIB) || cuda.free(address))
			abort();
		churned++;
	}
	return NULL;
}

// So many calls of that kind are seen that it is demoted; not while a window is open.
static void make_hot(struct setting *setting, enum gpu_call call)
{
	for (int i = 0; i < 1000 && gpu_probes_see_all(setting->probes, call, call); i++) {
		setting->hits[call] += 1000 * 1000 * 1000;
		setting->now_ns += 11 * NS_PER_SECOND;
		gpu_probes_tick(setting->probes, setting->now_ns);
	}
}

TEST(nothing_is_missed_while_other_probes_go)
{
	static const enum gpu_call hot[] = { GPU_CALL_SYNC_STREAM, GPU_CALL_COPY_HTOD,
					     GPU_CALL_COPY_DTOH,   GPU_CALL_COPY_DTOD,
					     GPU_CALL_COPY_ANY,    GPU_CALL_GRAPH_LAUNCH };
	struct setting setting;
	pthread_t thread;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	CUdeviceptr kept = allocate(3 * MIB);
	assert_int_equal(0, pthread_create(&thread, NULL, churn, our_context));
	for EACH (call, hot) {
		uint64_t before = churned;

		make_hot(&setting, *call);
		EXPECT_EQ(1, !gpu_probes_see_all(setting.probes, *call, *call), "demoted");
		while (churned < before + 100)
			sched_yield();
	}
	is_over = true;
	pthread_join(thread, NULL);
	EXPECT_EQ(1, setting.generations >= ARRAY_SIZE(hot), "attached anew each time");
	EXPECT_EQ(1, gpu_probes_see_all(setting.probes, GPU_CALL_INIT, GPU_CALL_MEM_UNMAP), "all");
	expect_live(&setting, 3 * MIB, 1, "what was kept, and nothing of what came and went");
	EXPECT_EQ(0, read_counter(&setting, COUNTER_GPU_FULL), "room");
	EXPECT_EQ(0, read_counter(&setting, COUNTER_GPU_UNKNOWN_FREES), "no free came twice");
	assert_int_equal(0, cuda.free(kept));
	close_setting(&setting);
}

TEST(when_frees_are_missed_what_is_allocated_is_unknown)
{
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	CUdeviceptr kept = allocate(3 * MIB);
	EXPECT_EQ(1, gpu_probes_see_all(setting.probes, GPU_CALL_INIT, GPU_CALL_MEM_UNMAP), "all");
	make_hot(&setting, GPU_CALL_FREE);
	EXPECT_EQ(0, gpu_probes_see_all(setting.probes, GPU_CALL_INIT, GPU_CALL_MEM_UNMAP), "no");
	gpu_programs_set_memory_known(setting.programs, false);
	expect_live(&setting, 0, 0, "forgotten");
	assert_int_equal(0, cuda.free(kept));
	gpu_programs_set_memory_known(setting.programs, true);
	CUdeviceptr late = allocate(MIB);
	expect_live(&setting, MIB, 1, "from then on");
	assert_int_equal(0, cuda.free(late));
	close_setting(&setting);
}

TEST(what_is_too_much_to_keep_is_counted)
{
	enum { KEPT = 65536, MORE = 100 }; // GPU_ALLOCATIONS_MAX
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and a link of many uprobes");
	// The double has not so much: one is made and freed under the programs' eyes that look away from frees.
	make_hot(&setting, GPU_CALL_FREE);
	probe_link_settle();
	uint64_t full = read_counter(&setting, COUNTER_GPU_FULL);
	for (uint32_t i = 0; i < KEPT + MORE; i++)
		assert_int_equal(0, cuda.free(allocate(4096)));
	uint64_t refused = read_counter(&setting, COUNTER_GPU_FULL) - full;
	EXPECT_EQ(1, refused >= MORE, "counted"); // its ranges are fewer, and count as well
	expect_live(&setting, 4096ULL * KEPT, KEPT, "as many as there is room for");
	close_setting(&setting);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_make, folder_remove)

RUN_TESTS(IN_FOLDER(what_is_freed_is_not_allocated),
	  IN_FOLDER(memory_that_was_there_before_is_no_loss_when_it_is_freed),
	  IN_FOLDER(an_address_that_comes_again_is_one_allocation),
	  IN_FOLDER(physical_memory_lives_as_long_as_it_is_mapped),
	  IN_FOLDER(nothing_is_missed_while_other_probes_go),
	  IN_FOLDER(when_frees_are_missed_what_is_allocated_is_unknown),
	  IN_FOLDER(what_is_too_much_to_keep_is_counted))
