// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_driver.h"

#include <errno.h>

#include "agent/process/proc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/unit/agent/gpu/gpu_children.h"
#include "tests/unit/agent/process/process_tables.h"

/* The listener's calls. */
struct heard {
	uint32_t come, gone;
	struct gpu_driver first_come, last_come, last_gone;
};

static void note_come(void *context, const struct gpu_driver *driver)
{
	struct heard *heard = context;

	if (!heard->come++)
		heard->first_come = *driver;
	heard->last_come = *driver;
	assert_true(driver->fd >= 0);
}

static void note_gone(void *context, const struct gpu_driver *driver)
{
	struct heard *heard = context;

	heard->gone++;
	heard->last_gone = *driver;
}

static struct gpu_drivers *open_drivers(struct heard *heard)
{
	const struct gpu_driver_listener listener = { note_come, note_gone, heard };
	struct gpu_drivers *drivers = gpu_drivers_new(&listener);

	*heard = (struct heard){ 0 };
	assert_non_null(drivers);
	return drivers;
}

/* A round with all these processes and their mappings of @generation. */
static void go_round(struct gpu_drivers *drivers, const pid_t *pids, uint32_t count,
		     uint64_t generation, uint64_t now_ns)
{
	gpu_drivers_begin(drivers);
	for (uint32_t i = 0; i < count; i++) {
		const struct process_key key = { .pid = (uint32_t)pids[i], .start_ns = 1 };
		struct mapping_list *list;
		struct proc proc;

		if (gpu_drivers_knows(drivers, &key, generation))
			continue;
		assert_int_equal(0, proc_open(pids[i], &proc));
		_cleanup_close_ int maps = openat(proc.files, "maps", O_RDONLY | O_CLOEXEC);
		assert_int_equal(0, mapping_list_read(maps, &list));
		gpu_drivers_note(drivers, &key, generation, proc.files, list);
		mapping_list_release(list);
		proc_close(&proc);
	}
	gpu_drivers_end(drivers, now_ns);
}

static void count_process(void *context, const struct process_key *key)
{
	(void)key;
	*(int *)context += 1;
}

static int process_count(const struct gpu_drivers *drivers)
{
	int count = 0;

	gpu_drivers_each_process(drivers, GPU_LIBRARY_CUDA, count_process, &count);
	return count;
}

TEST(tells_files_apart_by_inode_not_name)
{
	char first[PATH_MAX], second[PATH_MAX], link_path[PATH_MAX];
	struct heard heard;
	struct gpu_drivers *drivers = open_drivers(&heard);

	// Two images bring the same driver; one has a second name for it.
	copy_double("libcuda.so.1", in_folder("libcuda.so.535.1", first));
	copy_double("libcuda.so.1", in_folder("libcuda.so.1", second));
	assert_int_equal(0, link(second, in_folder("libcuda.so.other", link_path)));
	const pid_t pids[] = { start_child(map_path, first, false),
			       start_child(map_path, second, false),
			       start_child(map_path, link_path, false) };
	go_round(drivers, pids, 3, 1, 0);
	assert_int_equal(2, heard.come);
	assert_int_equal(2, gpu_drivers_count(drivers));
	assert_int_equal(3, process_count(drivers));
	assert_int_equal(GPU_LIBRARY_CUDA, heard.last_come.library);
	for EACH (pid, pids)
		end_child(*pid);
	gpu_drivers_free(drivers);
	assert_int_equal(2, heard.gone);
}

TEST(reports_a_shared_file_once)
{
	enum { PROCESSES = 64 };
	pid_t pids[PROCESSES];
	char path[PATH_MAX];
	struct heard heard;
	struct gpu_drivers *drivers = open_drivers(&heard);

	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	for EACH (pid, pids)
		*pid = start_child(map_path, path, false);
	go_round(drivers, pids, PROCESSES, 1, 0);
	assert_int_equal(1, heard.come);
	assert_int_equal(64, heard.last_come.processes);
	// One process remains, and so does the file.
	go_round(drivers, pids, 1, 1, 1);
	go_round(drivers, pids, 1, 1, 1 + GPU_DRIVER_LINGER_NS);
	assert_int_equal(0, heard.gone);
	assert_int_equal(1, process_count(drivers));
	// A restart: the last process ends, another one starts soon.
	go_round(drivers, pids, 0, 1, 2);
	go_round(drivers, pids + 1, 1, 1, 1 + GPU_DRIVER_LINGER_NS);
	assert_int_equal(0, heard.gone);
	assert_int_equal(1, heard.come);
	// No more processes.
	go_round(drivers, pids, 0, 1, 5);
	assert_int_equal(0, heard.gone);
	go_round(drivers, pids, 0, 1, 5 + GPU_DRIVER_LINGER_NS);
	assert_int_equal(1, heard.gone);
	assert_int_equal(0, gpu_drivers_count(drivers));
	// A later process: a new number.
	go_round(drivers, pids, 2, 1, 6 + GPU_DRIVER_LINGER_NS);
	assert_int_equal(2, heard.come);
	assert_int_equal(2, heard.last_come.number);
	for EACH (pid, pids)
		end_child(*pid);
	gpu_drivers_free(drivers);
}

TEST(finds_deleted_and_replaced_files)
{
	char path[PATH_MAX], next[PATH_MAX];
	struct heard heard;
	struct gpu_drivers *drivers = open_drivers(&heard);
	pid_t pids[2];

	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	pids[0] = start_child(map_path, path, false);
	copy_double("shape1/libcuda.so.1", in_folder("next", next));
	assert_int_equal(0, rename(next, path)); // as a package manager does
	pids[1] = start_child(map_path, path, false);
	go_round(drivers, pids, 1, 1, 0);
	if (!heard.come) {
		end_child(pids[0]), end_child(pids[1]);
		gpu_drivers_free(drivers);
		SKIP("/proc/PID/map_files cannot be opened here");
	}
	char first_id[BUILD_ID_TEXT_BYTES];
	memcpy(first_id, heard.last_come.build_id, sizeof(first_id));
	assert_int_equal(0, unlink(path));
	go_round(drivers, pids, 2, 1, 1);
	assert_int_equal(2, heard.come);
	assert_string_not_equal(first_id, heard.last_come.build_id);
	end_child(pids[0]), end_child(pids[1]);
	gpu_drivers_free(drivers);
}

TEST(rewritten_file_is_reported_anew)
{
	char path[PATH_MAX];
	struct heard heard;
	struct gpu_drivers *drivers = open_drivers(&heard);

	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	pid_t child = start_child(map_path, path, false);
	go_round(drivers, &child, 1, 1, 0);
	assert_int_equal(1, heard.come);
	copy_double("shape2/libcuda.so.1", path); // the same inode
	go_round(drivers, &child, 1, 1, 1);
	assert_int_equal(1, heard.gone);
	assert_int_equal(2, heard.come);
	go_round(drivers, &child, 1, 1, 2);
	assert_int_equal(2, heard.come);
	end_child(child);
	gpu_drivers_free(drivers);
}

TEST(refuses_files_with_another_soname)
{
	static const struct {
		const char *what, *name;
		bool is_text;
	} rows[] = {
		{ "a text", "libcuda.so.1", true },
		{ "another library", "libcudart.so.12", false },
		{ "a driver that is called NCCL", "libnccl.so.2", false },
		{ "a driver that is called PyTorch", "libtorch_cuda.so", false },
	};

	for EACH (row, rows) {
		char path[PATH_MAX], text[8192] = "not a library";
		struct heard heard;
		struct gpu_drivers *drivers = open_drivers(&heard);

		in_folder(row->name, path);
		if (row->is_text)
			write_file(path, text, sizeof(text));
		else
			copy_double("libcuda.so.1", path);
		pid_t child = start_child(map_path, path, false);
		go_round(drivers, &child, 1, 1, 0);
		go_round(drivers, &child, 1, 2, 0);
		EXPECT_EQ(0, heard.come, row->what);
		end_child(child);
		unlink(path);
		gpu_drivers_free(drivers);
	}
}

TEST(reports_nccl_only_beside_a_driver)
{
	char path[PATH_MAX], driver_path[PATH_MAX];
	struct heard heard;
	struct gpu_drivers *drivers = open_drivers(&heard);
	size_t size;
	char *bytes = read_double("libcuda.so.1", &size);

	for (size_t i = 0; i + 13 <= size; i++) {
		if (memcmp(bytes + i, "libcuda.so.1", 13) == 0)
			memcpy(bytes + i, "libnccl.so.2", 13);
	}
	write_file(in_folder("libnccl.so.2.21.5", path), bytes, size);
	free(bytes);
	pid_t children[] = { start_child(map_path, path, false), 0 };
	go_round(drivers, children, 1, 1, 0);
	assert_int_equal(0, heard.come);
	copy_double("libcuda.so.1", in_folder("libcuda.so.535.2", driver_path));
	children[1] = start_child(map_path, driver_path, false);
	go_round(drivers, children, 2, 1, 1);
	assert_int_equal(2, heard.come);
	assert_int_equal(2, gpu_drivers_count(drivers));
	assert_int_equal(GPU_LIBRARY_CUDA, heard.last_come.library);
	assert_int_equal(GPU_LIBRARY_NCCL, heard.first_come.library);
	for EACH (child, children)
		end_child(*child);
	gpu_drivers_free(drivers);
	assert_int_equal(2, heard.gone);
}

/* In a child with its own mount namespace. */
static int map_hidden(const void *bytes)
{
	char path[PATH_MAX];

	if (mount("none", folder, "tmpfs", 0, NULL))
		return -1;
	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	(void)bytes;
	return map_path(path);
}

TEST(finds_files_in_other_mount_namespaces)
{
	char path[PATH_MAX];
	struct heard heard;
	struct gpu_drivers *drivers = open_drivers(&heard);
	pid_t child = start_child(map_hidden, NULL, true);

	if (child < 0) {
		gpu_drivers_free(drivers);
		SKIP("mounts cannot be made here");
	}
	assert_int_not_equal(0, access(in_folder("libcuda.so.1", path), F_OK));
	go_round(drivers, &child, 1, 1, 0);
	assert_int_equal(1, heard.come);
	assert_string_equal(path, heard.last_come.path);
	end_child(child);
	gpu_drivers_free(drivers);
}

static int map_many(const void *count)
{
	for (int i = 0; i < *(const int *)count; i++) {
		char name[32], path[PATH_MAX];

		snprintf(name, sizeof(name), "libcuda.so.%d", i);
		copy_double("libcuda.so.1", in_folder(name, path));
		if (map_path(path))
			return -1;
	}
	return 0;
}

TEST(counts_files_beyond_the_limit)
{
	static const int count = GPU_DRIVERS_MAX + 3;
	struct heard heard;
	struct gpu_drivers *drivers = open_drivers(&heard);
	pid_t child = start_child(map_many, &count, false);

	go_round(drivers, &child, 1, 1, 0);
	assert_int_equal(GPU_DRIVERS_MAX, heard.come);
	assert_int_equal(3, gpu_drivers_dropped(drivers));
	end_child(child);
	gpu_drivers_free(drivers);
}

TEST(updates_from_the_process_table)
{
	struct tables tables = tables_new(NULL);
	char path[PATH_MAX];
	struct heard heard;
	struct gpu_drivers *drivers = open_drivers(&heard);

	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	pid_t child = start_child(map_path, path, false);
	const struct process_key key = key_of(child, 1);
	gpu_drivers_update(drivers, tables.processes, NS_PER_SECOND);
	assert_int_equal(0, heard.come);
	// A process from before the agent, sampled now.
	assert_non_null(process_table_get(tables.processes, &key, "server"));
	gpu_drivers_update(drivers, tables.processes, NS_PER_SECOND + 1); // too soon
	assert_int_equal(0, heard.come);
	gpu_drivers_update(drivers, tables.processes, 2 * NS_PER_SECOND);
	assert_int_equal(1, heard.come);
	assert_int_equal(1, heard.last_come.processes);

	end_child(child);
	const struct process_record record = { .process = key, .event = PROCESS_EXIT };
	process_table_apply(tables.processes, &record);
	gpu_drivers_update(drivers, tables.processes, 3 * NS_PER_SECOND);
	gpu_drivers_update(drivers, tables.processes, 3 * NS_PER_SECOND + GPU_DRIVER_LINGER_NS);
	assert_int_equal(1, heard.gone);
	gpu_drivers_free(drivers);
	tables_free(&tables);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, folder_make, folder_remove)

RUN_TESTS(IN_FOLDER(tells_files_apart_by_inode_not_name), IN_FOLDER(reports_a_shared_file_once),
	  IN_FOLDER(finds_deleted_and_replaced_files), IN_FOLDER(rewritten_file_is_reported_anew),
	  IN_FOLDER(refuses_files_with_another_soname),
	  IN_FOLDER(reports_nccl_only_beside_a_driver),
	  IN_FOLDER(finds_files_in_other_mount_namespaces),
	  IN_FOLDER(counts_files_beyond_the_limit), IN_FOLDER(updates_from_the_process_table))
