// SPDX-License-Identifier: Apache-2.0
// CUDA graphs: which stack their launches belong to, and which GPU kernels they launch, however they were made.
#include <bpf/bpf.h>

#include "tests/unit/agent/gpu/gpu_counts.h"

// ---- graphs -----------------------------------------------------------------------------------

// The leaf, a driver function, shows which stack a graph belongs to.
static uint64_t graphs_of(const struct setting *setting, const char *function)
{
	const struct gpu_call_symbol *row = gpu_calls_find(function);
	void *address = dlsym(driver_library, function);
	uint64_t sum = 0;

	(void)setting;
	assert_non_null(row);
	assert_non_null(address);
	for (uint32_t i = 0; i < counted.count; i++) {
		const struct row *one = &counted.rows[i];

		if (one->key.kind == SAMPLE_KIND_GPU_GRAPH &&
		    one->key.user_leaf.address - (uint64_t)address < 32)
			sum += one->count.value;
	}
	return sum;
}

TEST(reused_graph_handle_is_another_graph)
{
	CUstream stream = NULL;
	CUgraph captured = NULL, made = NULL;
	CUgraphExec first = NULL, second = NULL;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	assert_int_equal(0, call.stream(&stream, 0));
	CUfunction function = get_function("captured");
	assert_int_equal(0, call.begin(stream, 0));
	launch(function, stream);
	assert_int_equal(0, call.end(stream, &captured));
	assert_int_equal(0, call.instantiate(&first, captured, 0));
	assert_int_equal(0, call.end_graph(captured));
	assert_int_equal(0, call.replay(first, stream));
	assert_int_equal(0, call.replay(first, stream));
	read_counts(&setting);
	EXPECT_EQ(2, graphs_of(&setting, "cuStreamEndCapture"), "by the capturing stack");

	// A graph made node by node gets the other one's handle.
	assert_int_equal(0, call.make_graph(&made, 0));
	assert_ptr_equal(captured, made);
	assert_int_equal(0, call.instantiate(&second, made, 0));
	assert_int_equal(0, call.replay(second, stream));
	assert_int_equal(0, call.replay(first, stream));
	read_counts(&setting);
	EXPECT_EQ(1, graphs_of(&setting, "cuGraphInstantiateWithFlags"),
		  "by the instantiating stack");
	EXPECT_EQ(1, graphs_of(&setting, "cuStreamEndCapture"), "the first one, unchanged");

	// The same with an executable graph.
	assert_int_equal(0, call.end_exec(first));
	stop_looking(&setting);
	assert_int_equal(0, call.instantiate(&second, made, 0));
	assert_ptr_equal(first, second);
	look_again(&setting);
	assert_int_equal(0, call.replay(second, stream));
	read_counts(&setting);
	EXPECT_EQ(1, graphs_of(&setting, "cuGraphLaunch"), "unknown: by the launching stack");
	assert_int_equal(0, call.end_exec(second));
	close_setting(&setting);
}

// CUDA graph kernels of this export interval, with @frame as the leaf.
static uint64_t kernels_of(const struct setting *setting, struct draining *draining)
{
	uint64_t sum = 0;

	assert_int_equal(0, gpu_programs_after_drain(setting->programs,
						     draining->sources.frames.processes,
						     &draining->interval));
	const struct profile *profile = draining->interval.profile;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];

		if (strcmp(profile_string(profile, profile->series[sample->series].type),
			   PROFILE_TYPE_GPU_GRAPH_KERNELS) == 0)
			sum += (uint64_t)sample->value;
	}
	return sum;
}

static void tick(struct setting *setting)
{
	probe_link_settle(); // probes that are being detached
	setting->now_ns += 20 * NS_PER_MS;
	gpu_probes_tick(setting->probes, setting->now_ns);
}

// An empty capture.
static void begin_and_end(CUstream stream)
{
	CUgraph graph = NULL;

	assert_int_equal(0, call.begin(stream, 0));
	assert_int_equal(0, call.end(stream, &graph));
	assert_int_equal(0, call.end_graph(graph));
}

static CUgraphExec capture(CUfunction function, CUstream stream, uint32_t launches)
{
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;

	assert_int_equal(0, call.begin(stream, 0));
	for (uint32_t i = 0; i < launches; i++)
		launch(function, stream);
	assert_int_equal(0, call.end(stream, &graph));
	assert_int_equal(0, call.instantiate(&exec, graph, 0));
	assert_int_equal(0, call.end_graph(graph));
	return exec;
}

TEST(captured_kernels_count_at_graph_launches)
{
	CUstream stream = NULL, joined = NULL;
	CUevent forks = NULL, joins = NULL;
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;
	struct draining draining;
	struct setting setting;

	if (!open_calls(&setting))
		SKIP("needs root, BTF and uprobe_multi links");
	assert_int_equal(0, call.stream(&stream, 0));
	assert_int_equal(0, call.stream(&joined, 0));
	assert_int_equal(0, call.event(&forks, 0));
	assert_int_equal(0, call.event(&joins, 0));
	CUfunction function = get_function("captured");
	begin_draining(&draining);

	// The first capture makes the agent attach probes: its own launches are missed.
	CUgraphExec unseen = capture(function, stream, 7);
	tick(&setting);
	assert_int_equal(0, call.replay(unseen, stream));
	EXPECT_EQ(0, kernels_of(&setting, &draining), "incomplete");

	assert_int_equal(0, call.begin(stream, 0));
	for (int i = 0; i < 3; i++)
		launch(function, stream);
	assert_int_equal(0, call.record(forks, stream));
	assert_int_equal(0, call.wait_event(joined, forks, 0));
	for (int i = 0; i < 2; i++)
		launch(get_function("forked"), joined);
	assert_int_equal(0, call.record(joins, joined));
	assert_int_equal(0, call.wait_event(stream, joins, 0));
	assert_int_equal(0, call.end(stream, &graph));
	assert_int_equal(0, call.instantiate(&exec, graph, 0));
	assert_int_equal(0, call.end_graph(graph));
	read_counts(&setting);
	EXPECT_EQ(0, sum_of(SAMPLE_KIND_GPU_LAUNCH).value, "a captured launch is none");
	EXPECT_EQ(0, kernels_of(&setting, &draining), "the graph was not launched");

	launch(function, stream);
	launch(function, joined);
	for (int i = 0; i < 4; i++)
		assert_int_equal(0, call.replay(exec, stream));
	read_counts(&setting);
	EXPECT_EQ(2, sum_of(SAMPLE_KIND_GPU_LAUNCH).value, "after the capture");
	EXPECT_EQ(4, sum_of(SAMPLE_KIND_GPU_GRAPH).value, "graphs");
	EXPECT_EQ(4 * (3 + 2), kernels_of(&setting, &draining), "each with its five kernels");
	assert_int_equal(0, call.replay(exec, stream));
	EXPECT_EQ(5 * (3 + 2), kernels_of(&setting, &draining), "and once more");

	// Known as long as the graph exists.
	drain(&setting, &draining);
	drain(&setting, &draining);
	drain(&setting, &draining);
	assert_int_equal(0, call.replay(exec, stream));
	EXPECT_EQ(6 * (3 + 2), kernels_of(&setting, &draining), "later");
	end_draining(&draining);
	close_setting(&setting);
}

// Two on phases: they begin at random, once the last one's probes are detached.
static void pass_on_phases(struct setting *setting)
{
	struct gpu_probes_stats stats;

	if (setting->now_ns < clock_monotonic_ns()) // on phases begin by the real clock
		setting->now_ns = clock_monotonic_ns();
	gpu_probes_read_stats(setting->probes, &stats);
	for (uint64_t end = stats.on_phases + 2; stats.on_phases < end;) {
		probe_link_settle();
		tick(setting);
		gpu_probes_read_stats(setting->probes, &stats);
	}
}

struct making {
	struct setting setting;
	struct draining draining;
	CUstream stream;
	CUfunction function;
};

static bool open_making(struct making *making)
{
	*making = (struct making){ 0 };
	if (!open_calls(&making->setting))
		return false;
	assert_int_equal(0, call.stream(&making->stream, 0));
	making->function = get_function("captured");
	begin_draining(&making->draining);
	return true;
}

static bool begin_making(struct making *making)
{
	if (!open_making(making))
		return false;
	pass_on_phases(&making->setting); // measures that launches are few
	return true;
}

static void end_making(struct making *making)
{
	end_draining(&making->draining);
	close_setting(&making->setting);
}

TEST(first_capture_is_seen_at_low_rates)
{
	struct making making;

	if (!begin_making(&making))
		SKIP("needs root, BTF and uprobe_multi links");
	CUgraphExec first = capture(making.function, making.stream, 5);
	assert_int_equal(0, call.replay(first, making.stream));
	EXPECT_EQ(5, kernels_of(&making.setting, &making.draining), "the first of all");
	end_making(&making);
}

TEST(later_captures_are_seen_at_high_rates)
{
	struct making making;

	if (!open_making(&making))
		SKIP("needs root, BTF and uprobe_multi links");
	struct setting *setting = &making.setting;
	begin_and_end(making.stream);
	tick(setting);
	assert_int_equal(0, call.replay(capture(making.function, making.stream, 3), making.stream));
	EXPECT_EQ(3, kernels_of(setting, &making.draining), "seen");
	setting->hits[GPU_CALL_CAPTURED] = 8000000; // 3.6 s of a core, of 6
	setting->hits[GPU_CALL_LAUNCH] = 1000000;
	pass_on_phases(setting);
	begin_and_end(making.stream); // the last capture was too long ago
	tick(setting);
	assert_int_equal(0,
			 call.replay(capture(making.function, making.stream, 10), making.stream));
	EXPECT_EQ(3 + 10, kernels_of(setting, &making.draining), "from the reserve for captures");
	tick(setting);
	setting->now_ns += 6 * NS_PER_SECOND; // without a capture
	pass_on_phases(setting);              // an on phase adds up the hits
	probe_link_settle();
	assert_int_equal(0,
			 call.replay(capture(making.function, making.stream, 100), making.stream));
	EXPECT_EQ(3 + 10, kernels_of(setting, &making.draining), "not seen");
	tick(setting);
	assert_int_equal(0,
			 call.replay(capture(making.function, making.stream, 200), making.stream));
	EXPECT_EQ(3 + 10 + 200, kernels_of(setting, &making.draining), "seen again");
	end_making(&making);
}

// ---- graphs that are made of others -----------------------------------------------------------

static CUgraph capture_graph(const struct making *making, uint32_t launches)
{
	CUgraph graph = NULL;

	assert_int_equal(0, call.begin(making->stream, 0));
	for (uint32_t i = 0; i < launches; i++)
		launch(making->function, making->stream);
	assert_int_equal(0, call.end(making->stream, &graph));
	return graph;
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec = NULL;

	assert_int_equal(0, call.instantiate(&exec, graph, 0));
	return exec;
}

// GPU kernels of one launch; graphs_of() has the launch afterwards.
static uint64_t kernels_of_launch(struct making *making, CUgraphExec exec)
{
	uint64_t before = kernels_of(&making->setting, &making->draining);

	read_counts(&making->setting);
	assert_int_equal(0, call.replay(exec, making->stream));
	read_counts(&making->setting);
	return kernels_of(&making->setting, &making->draining) - before;
}

static void add_child(CUgraph graph, CUgraph child)
{
	CUgraphNode node = NULL;

	assert_int_equal(0, call.add_child(&node, graph, NULL, 0, child));
}

static void add_kernel(const struct making *making, CUgraph graph)
{
	const CUDA_KERNEL_NODE_PARAMS kernel = { .function = making->function,
						 .grid = { 1, 1, 1 },
						 .block = { 1, 1, 1 } };
	CUgraphNode node = NULL;

	assert_int_equal(0, call.add_kernel(&node, graph, NULL, 0, &kernel));
}

TEST(child_graph_keeps_its_kernels_when_added)
{
	struct making making;

	if (!begin_making(&making))
		SKIP("needs root, BTF and uprobe_multi links");
	CUgraph child = capture_graph(&making, 3), inner = capture_graph(&making, 10);
	CUgraph parent = capture_graph(&making, 100);
	CUgraphExec before = instantiate(parent);
	add_child(child, inner);
	add_child(parent, child);
	add_child(parent, child);
	CUgraphExec after = instantiate(parent);
	add_child(child, inner); // too late for the parent
	EXPECT_EQ(100, kernels_of_launch(&making, before), "as it was then");
	EXPECT_EQ(100 + 2 * (3 + 10), kernels_of_launch(&making, after), "with both children");
	EXPECT_EQ(1, graphs_of(&making.setting, "cuStreamEndCapture"), "by its stack");
	EXPECT_EQ(3 + 2 * 10, kernels_of_launch(&making, instantiate(child)), "on its own");
	// Parts are known as long as a graph that contains them.
	assert_int_equal(0, call.end_graph(child));
	assert_int_equal(0, call.end_graph(inner));
	assert_int_equal(0, call.end_graph(parent));
	for (int i = 0; i < 4; i++)
		drain(&making.setting, &making.draining);
	EXPECT_EQ(100 + 2 * (3 + 10), kernels_of_launch(&making, after), "later");
	end_making(&making);
}

TEST(clones_and_updates_launch_their_originals_kernels)
{
	CUgraphExecUpdateResultInfo info = { 0 };
	struct making making;
	CUgraph clone = NULL;
	int result = 0;

	if (!begin_making(&making))
		SKIP("needs root, BTF and uprobe_multi links");
	CUgraph graph = capture_graph(&making, 3), other = capture_graph(&making, 3);
	CUgraph longer = capture_graph(&making, 4);
	assert_int_equal(0, call.clone(&clone, graph));
	add_kernel(&making, graph); // not in the clone
	CUgraphExec exec = instantiate(clone);
	EXPECT_EQ(3, kernels_of_launch(&making, exec), "the clone");
	EXPECT_EQ(1, graphs_of(&making.setting, "cuStreamEndCapture"), "by its stack");
	EXPECT_EQ(4, kernels_of_launch(&making, instantiate(graph)), "what it was cloned from");

	add_child(other, longer); // it has four nodes now
	EXPECT_EQ(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, call.update(exec, longer, &info), "no");
	EXPECT_EQ(3, kernels_of_launch(&making, exec), "as before");
	exec = instantiate(longer);
	EXPECT_EQ(0, call.update(exec, graph, &info), "four kernels each");
	EXPECT_EQ(4, kernels_of_launch(&making, exec), "updated");
	add_kernel(&making, clone);
	EXPECT_EQ(0, call.update_first(exec, clone, NULL, &result), "by cuGraphExecUpdate");
	EXPECT_EQ(4, kernels_of_launch(&making, exec), "updated again");
	EXPECT_EQ(1, graphs_of(&making.setting, "cuStreamEndCapture"), "by its stack");
	end_making(&making);
}

TEST(tracks_every_way_to_instantiate)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS how = { 0 };
	CUgraphExec execs[4] = { NULL };
	struct making making;

	if (!begin_making(&making))
		SKIP("needs root, BTF and uprobe_multi links");
	CUgraph graph = capture_graph(&making, 3);
	assert_int_equal(0, call.instantiate(&execs[0], graph, 0));
	assert_int_equal(0, call.instantiate_first(&execs[1], graph, NULL, NULL, 0));
	assert_int_equal(0, call.instantiate_second(&execs[2], graph, NULL, NULL, 0));
	assert_int_equal(0, call.instantiate_as(&execs[3], graph, &how));
	for EACH (exec, execs) {
		EXPECT_EQ(3, kernels_of_launch(&making, *exec), "its kernels");
		EXPECT_EQ(1, graphs_of(&making.setting, "cuStreamEndCapture"), "by its stack");
	}
	end_making(&making);
}

TEST(added_kernel_nodes_count)
{
	CUgraphNodeParams node = { .type = CU_GRAPH_NODE_TYPE_GRAPH };
	CUgraphNode made = NULL;
	struct making making;
	CUgraph graph = NULL;

	if (!begin_making(&making))
		SKIP("needs root, BTF and uprobe_multi links");
	CUgraph child = capture_graph(&making, 10);
	assert_int_equal(0, call.make_graph(&graph, 0));
	add_kernel(&making, graph);
	add_kernel(&making, graph);
	CUgraphExec before = instantiate(graph);
	node.child = child;
	assert_int_equal(0, call.add_node(&made, graph, NULL, NULL, 0, &node));
	node.type = CU_GRAPH_NODE_TYPE_KERNEL;
	node.kernel = (CUDA_KERNEL_NODE_PARAMS){ .kernel = making.function,
						 .grid = { 1, 1, 1 },
						 .block = { 1, 1, 1 } };
	assert_int_equal(0, call.add_node(&made, graph, NULL, NULL, 0, &node));
	EXPECT_EQ(2, kernels_of_launch(&making, before), "as it was then");
	EXPECT_EQ(2 + 10 + 1, kernels_of_launch(&making, instantiate(graph)), "all of it");
	EXPECT_EQ(1, graphs_of(&making.setting, "cuGraphInstantiateWithFlags"), "by its stack");
	end_making(&making);
}

TEST(capture_into_a_graph_adds_kernels)
{
	struct making making;
	CUgraph graph = NULL, captured = NULL, child;
	int status = 0;

	if (!begin_making(&making))
		SKIP("needs root, BTF and uprobe_multi links");
	child = capture_graph(&making, 10);
	assert_int_equal(0, call.make_graph(&graph, 0));
	add_kernel(&making, graph);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(0, call.begin_in(making.stream, graph, NULL, NULL, 0, 0));
		launch(making.function, making.stream);
		launch(making.function, making.stream);
		assert_int_equal(0, call.end(making.stream, &captured));
		assert_ptr_equal(graph, captured);
	}
	EXPECT_EQ(1 + 2 * 2, kernels_of_launch(&making, instantiate(graph)), "all of it");
	EXPECT_EQ(1, graphs_of(&making.setting, "cuStreamEndCapture"), "by its stack");

	// A node added by a call during capture.
	EXPECT_EQ(0, call.begin(making.stream, 0), "a capture");
	launch(making.function, making.stream);
	EXPECT_EQ(0, call.capture_info(making.stream, &status, NULL, &captured, NULL, NULL), "");
	add_child(captured, child);
	add_kernel(&making, captured);
	EXPECT_EQ(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		  call.replay(instantiate(child), making.stream), "refused");
	EXPECT_EQ(0, call.end(making.stream, &captured), "its end");
	EXPECT_EQ(1 + 10 + 1, kernels_of_launch(&making, instantiate(captured)), "all of it");
	end_making(&making);
}

TEST(graph_with_unseen_part_exports_nothing)
{
	struct making making;

	if (!begin_making(&making))
		SKIP("needs root, BTF and uprobe_multi links");
	stop_looking(&making.setting);
	CUgraph older = capture_graph(&making, 3), other = capture_graph(&making, 3);
	look_again(&making.setting);
	CUgraph graph = capture_graph(&making, 10);
	add_child(graph, older);
	EXPECT_EQ(0, kernels_of_launch(&making, instantiate(graph)), "a part is unknown");
	add_kernel(&making, other);
	EXPECT_EQ(0, kernels_of_launch(&making, instantiate(other)), "likewise");
	end_making(&making);
}

// A key of this process.
static int find_map(const char *name)
{
	for (int fd = 0; fd < sysconf(_SC_OPEN_MAX); fd++) {
		struct bpf_map_info info = { 0 };
		uint32_t size = sizeof(info);

		if (!bpf_obj_get_info_by_fd(fd, &info, &size) && size >= sizeof(info.name) &&
		    !strncmp(info.name, name, sizeof(info.name) - 1))
			return fd;
	}
	fail_msg("no map %s", name);
	return -1;
}

// Fill the map but for @left entries, with those of captures that never end.
static void fill_kernels(uint32_t left, bool fill)
{
	enum { KEPT = 65536 }; // GPU_KERNELS_MAX
	int fd = find_map("gpu_graph_kernels");

	for (uint32_t i = 0; i < KEPT - left; i++) {
		struct gpu_graph_kernel key = { .graph = ~0ULL - i };
		uint64_t launches = 1;

		assert_int_equal(0, fill ? bpf_map_update_elem(fd, &key, &launches, BPF_NOEXIST)
					 : bpf_map_delete_elem(fd, &key));
	}
}

TEST(incomplete_graph_exports_nothing)
{
	struct making making;
	CUgraph captured = NULL, made = NULL;

	if (!begin_making(&making))
		SKIP("needs root, BTF and uprobe_multi links");
	CUfunction other = get_function("other");
	assert_int_equal(0, call.make_graph(&made, 0));
	add_kernel(&making, made);
	CUgraphExec before = instantiate(made);
	EXPECT_EQ(1, kernels_of_launch(&making, before), "while the map has room");

	fill_kernels(1, true);
	assert_int_equal(0, call.begin(making.stream, 0));
	launch(making.function, making.stream);
	launch(other, making.stream); // a stack of its own
	assert_int_equal(0, call.end(making.stream, &captured));
	add_kernel(&making, made);
	fill_kernels(1, false);
	EXPECT_EQ(0, kernels_of_launch(&making, instantiate(captured)),
		  "one of two GPU kernels is known");
	EXPECT_EQ(0, kernels_of_launch(&making, instantiate(made)), "likewise");
	EXPECT_EQ(1, kernels_of_launch(&making, before), "an earlier graph is complete");
	EXPECT_EQ(3, kernels_of_launch(&making, instantiate(capture_graph(&making, 3))),
		  "there is room again");
	end_making(&making);
}

static void begin_another_phase(struct setting *setting)
{
	struct gpu_probes_stats stats;

	gpu_probes_read_stats(setting->probes, &stats);
	for (uint64_t before = stats.on_phases; stats.on_phases == before;) {
		tick(setting);
		gpu_probes_read_stats(setting->probes, &stats);
	}
}

TEST(reused_stream_handle_is_not_captured)
{
	struct making making;
	CUstream again = NULL;

	if (!begin_making(&making))
		SKIP("needs root, BTF and uprobe_multi links");
	assert_int_equal(0, call.begin(making.stream, 0));
	launch(making.function, making.stream);
	assert_int_equal(0, call.end_stream(making.stream));
	assert_int_equal(0, call.stream(&again, 0));
	assert_ptr_equal(making.stream, again);
	begin_another_phase(&making.setting);
	read_counts(&making.setting);
	launch(making.function, again);
	read_counts(&making.setting);
	EXPECT_EQ(1, sum_of(SAMPLE_KIND_GPU_LAUNCH).value, "a launch");
	end_making(&making);
}

RUN_TESTS(IN_FOLDER(reused_graph_handle_is_another_graph),
	  IN_FOLDER(captured_kernels_count_at_graph_launches),
	  IN_FOLDER(first_capture_is_seen_at_low_rates),
	  IN_FOLDER(later_captures_are_seen_at_high_rates),
	  IN_FOLDER(child_graph_keeps_its_kernels_when_added),
	  IN_FOLDER(clones_and_updates_launch_their_originals_kernels),
	  IN_FOLDER(tracks_every_way_to_instantiate), IN_FOLDER(added_kernel_nodes_count),
	  IN_FOLDER(capture_into_a_graph_adds_kernels),
	  IN_FOLDER(graph_with_unseen_part_exports_nothing),
	  IN_FOLDER(incomplete_graph_exports_nothing),
	  IN_FOLDER(reused_stream_handle_is_not_captured))
