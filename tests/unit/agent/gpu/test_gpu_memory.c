// SPDX-License-Identifier: Apache-2.0
// GPU memory in use, as the BPF programs add it up: this process calls a copy of the double that the agent's probes are
// attached to. Needs root, BTF and uprobe_multi links.
// Subject: bpf/gpu/gpu_memory.bpf.h
#include "agent/gpu/gpu_programs.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tests/unit/agent/gpu/gpu_setting.h"

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

TEST(freed_memory_is_not_in_use)
{
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
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

TEST(freeing_unknown_memory_changes_nothing)
{
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	gpu_drivers_free(take(setting.drivers)); // detaches its probes
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

TEST(reused_address_is_one_allocation)
{
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	CUdeviceptr address = allocate(2 * MIB);
	gpu_drivers_free(take(setting.drivers));
	probe_link_settle();
	assert_int_equal(0, cuda.free(address)); // unseen
	see_ourselves(&setting);
	expect_live(&setting, 2 * MIB, 1, "its free was unseen");
	// The double never reuses an address, but it reuses handles of physical memory.
	CUmemGenericAllocationHandle handle = 0, again = 0;
	char properties[64] = { 0 };
	assert_int_equal(0, cuda.create(&handle, 4 * MIB, properties, 0));
	gpu_drivers_free(take(setting.drivers));
	probe_link_settle();
	assert_int_equal(0, cuda.release(handle));
	see_ourselves(&setting);
	assert_int_equal(0, cuda.create(&again, 16 * MIB, properties, 0));
	assert_int_equal(handle, again);
	expect_live(&setting, 18 * MIB, 2, "the handle's former memory is dropped");
	assert_int_equal(0, cuda.release(again));
	expect_live(&setting, 2 * MIB, 1, "released");
	close_setting(&setting);
}

TEST(physical_memory_lives_while_mapped)
{
	struct setting setting;
	CUmemGenericAllocationHandle handle = 0;
	CUdeviceptr one = 0, two = 0;
	char properties[64] = { 0 };

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
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

TEST(one_call_unmaps_adjacent_mappings)
{
	struct setting setting;
	CUmemGenericAllocationHandle handles[3] = { 0 };
	CUdeviceptr range = 0;
	char properties[64] = { 0 };

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	assert_int_equal(0, cuda.reserve(&range, 12 * MIB, 0, 0, 0));
	for (size_t i = 0; i < ARRAY_SIZE(handles); i++) {
		assert_int_equal(0, cuda.create(&handles[i], 4 * MIB, properties, 0));
		assert_int_equal(0, cuda.map(range + i * 4 * MIB, 4 * MIB, 0, handles[i], 0));
		assert_int_equal(0, cuda.release(handles[i]));
	}
	expect_live(&setting, 12 * MIB, 3, "released, but mapped");
	assert_int_equal(0, cuda.unmap(range, 8 * MIB));
	expect_live(&setting, 4 * MIB, 1, "two of them by one call");
	assert_int_equal(0, cuda.unmap(range + 8 * MIB, 4 * MIB));
	expect_live(&setting, 0, 0, "all");
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

// So many calls of that kind that it is demoted; outside of an on phase.
static void make_frequent(struct setting *setting, enum gpu_call call)
{
	for (int i = 0; i < 1000 && gpu_probes_see_all(setting->probes, call, call); i++) {
		setting->hits[call] += 1000 * 1000 * 1000;
		setting->now_ns += 11 * NS_PER_SECOND;
		gpu_probes_tick(setting->probes, setting->now_ns);
	}
}

TEST(memory_calls_survive_changes_of_other_probes)
{
	static const enum gpu_call frequent[] = { GPU_CALL_SYNC_STREAM, GPU_CALL_COPY_HTOD,
						  GPU_CALL_COPY_DTOH,   GPU_CALL_COPY_DTOD,
						  GPU_CALL_COPY_ANY,    GPU_CALL_GRAPH_LAUNCH };
	struct setting setting;
	pthread_t thread;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	CUdeviceptr kept = allocate(3 * MIB);
	assert_int_equal(0, pthread_create(&thread, NULL, churn, our_context));
	for EACH (call, frequent) {
		uint64_t before = churned;

		make_frequent(&setting, *call);
		EXPECT_EQ(1, !gpu_probes_see_all(setting.probes, *call, *call), "demoted");
		while (churned < before + 100)
			sched_yield();
	}
	is_over = true;
	pthread_join(thread, NULL);
	EXPECT_EQ(1, setting.generations >= ARRAY_SIZE(frequent), "replaced each time");
	EXPECT_EQ(1, gpu_probes_see_all(setting.probes, GPU_CALL_INIT, GPU_CALL_MEM_UNMAP), "all");
	expect_live(&setting, 3 * MIB, 1, "kept memory only");
	EXPECT_EQ(0, read_counter(&setting, COUNTER_GPU_MAPS_FULL), "nothing dropped");
	EXPECT_EQ(0, read_counter(&setting, COUNTER_GPU_UNKNOWN_FREES), "each free counted once");
	assert_int_equal(0, cuda.free(kept));
	close_setting(&setting);
}

TEST(missed_frees_make_memory_unknown)
{
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	CUdeviceptr kept = allocate(3 * MIB);
	EXPECT_EQ(1, gpu_probes_see_all(setting.probes, GPU_CALL_INIT, GPU_CALL_MEM_UNMAP), "all");
	make_frequent(&setting, GPU_CALL_FREE);
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

TEST(counts_allocations_beyond_the_limit)
{
	enum { KEPT = 65536, MORE = 100 }; // GPU_ALLOCATIONS_MAX
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	// The double has less memory: allocate and free while frees are not probed.
	make_frequent(&setting, GPU_CALL_FREE);
	probe_link_settle();
	uint64_t full = read_counter(&setting, COUNTER_GPU_MAPS_FULL);
	for (uint32_t i = 0; i < KEPT + MORE; i++)
		assert_int_equal(0, cuda.free(allocate(4096)));
	uint64_t refused = read_counter(&setting, COUNTER_GPU_MAPS_FULL) - full;
	EXPECT_EQ(1, refused >= MORE, "counted"); // ranges are fewer, and count as well
	expect_live(&setting, 4096ULL * KEPT, KEPT, "as many as the map holds");
	close_setting(&setting);
}

// ---- what the agent lets go of ------------------------------------------------------------------

static int allocate_here(const void *nothing)
{
	(void)nothing;
	allocate(9 * MIB);
	return 0;
}

TEST(sweeps_maps_of_ended_processes)
{
	struct draining draining;
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	gpu_drivers_free(setting.drivers);
	gpu_probes_close(setting.probes);
	gpu_programs_close(setting.programs);
	open_programs(&setting, false);
	begin_draining(&draining);
	CUdeviceptr kept = allocate(MIB);
	pid_t child = start_child(allocate_here, NULL, false);
	drain(&setting, &draining);
	expect_live(&setting, 10 * MIB, 2, "of two running processes");
	end_child(child);
	end_draining(&draining);
	begin_draining(&draining); // with a process table that is empty
	drain(&setting, &draining);
	expect_live(&setting, MIB, 1, "of the one that runs");
	assert_int_equal(0, cuda.free(kept));
	end_draining(&draining);
	close_setting(&setting);
}

TEST(missed_call_resets_the_process)
{
	enum { TOO_MANY = 65536 + 100 }; // GPU_ALLOCATIONS_MAX
	struct draining draining;
	struct setting setting;

	if (!open_setting(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	make_frequent(&setting, GPU_CALL_FREE); // frees are not probed
	probe_link_settle();
	for (uint32_t i = 0; i < TOO_MANY; i++)
		assert_int_equal(0, cuda.free(allocate(4096)));
	begin_draining(&draining);
	drain(&setting, &draining);
	expect_live(&setting, 0, 0, "forgotten, for it is wrong");
	EXPECT_EQ(1, gpu_programs_missed(setting.programs), "counted");
	CUdeviceptr late = allocate(MIB);
	drain(&setting, &draining);
	expect_live(&setting, MIB, 1, "from then on");
	EXPECT_EQ(1, gpu_programs_missed(setting.programs), "once");
	assert_int_equal(0, cuda.free(late));
	end_draining(&draining);
	close_setting(&setting);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_make, folder_remove)

RUN_TESTS(IN_FOLDER(freed_memory_is_not_in_use), IN_FOLDER(freeing_unknown_memory_changes_nothing),
	  IN_FOLDER(reused_address_is_one_allocation),
	  IN_FOLDER(physical_memory_lives_while_mapped),
	  IN_FOLDER(memory_calls_survive_changes_of_other_probes),
	  IN_FOLDER(missed_frees_make_memory_unknown), IN_FOLDER(one_call_unmaps_adjacent_mappings),
	  IN_FOLDER(counts_allocations_beyond_the_limit), IN_FOLDER(sweeps_maps_of_ended_processes),
	  IN_FOLDER(missed_call_resets_the_process))
