// SPDX-License-Identifier: Apache-2.0
// The NVML reader with a double of the library.
#include "agent/gpu/nvml.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "tests/gpu/load_double.h"
#include "tests/gpu/nvml_double.h"
#include "tests/test.h"

static char library[PATH_MAX];
static struct nvml_double *double_;

static int load_double(void **state __attribute__((unused)))
{
	if (double_path("libnvidia-ml.so.1", library))
		double_ = double_state(library, "nvml_double");
	return double_ ? 0 : -1;
}

static void set_up(void)
{
	*double_ = (struct nvml_double){
		.gpu_count = 2,
		.busy = 93,
		.memory_busy = 41,
		.power_mw = 512345,
		.temperature = 64,
		.sm_mhz = 1980,
		.memory_mhz = 3201,
		.sent_kib = 7,
		.received_kib = 2048,
		.link_generation = 5,
		.link_width = 16,
		.used_bytes = 77ULL << 30,
		.reasons = NVML_THROTTLE_POWER_CAP | 0x1,
		.sm_active = 81.6,
		.tensor_active = 0,
		.processes = { { 1000, 5ULL << 30, 60, 1000 }, { 1001, 1ULL << 30, 0, 0 } },
	};
}

static struct nvml *open_double(void)
{
	struct error err = { 0 };
	struct nvml *nvml = NULL;

	set_up();
	EXPECT_EQ(0, nvml_open(library, &nvml, &err), err.text);
	return nvml;
}

static uint64_t figure(const struct nvml_reading *reading, enum nvml_figure number)
{
	assert_true(reading->known & 1U << number);
	return reading->figures[number];
}

TEST(figures_have_their_names_units)
{
	struct nvml *nvml = open_double();
	struct nvml_reading reading;

	EXPECT_EQ(2, nvml_gpu_count(nvml), "GPUs");
	EXPECT_STR("Double of a GPU 1", nvml_gpu_model(nvml, 1), "model");
	assert_non_null(strstr(nvml_gpu_uuid(nvml, 1), "GPU-"));
	EXPECT_EQ(0, nvml_read_gpu(nvml, 1, &reading), "read");
	EXPECT_EQ(93, figure(&reading, NVML_BUSY_PERCENT), "busy");
	EXPECT_EQ(41, figure(&reading, NVML_MEMORY_BUSY_PERCENT), "memory busy");
	EXPECT_EQ(77ULL << 30, figure(&reading, NVML_MEMORY_USED_BYTES), "memory");
	EXPECT_EQ(512345, figure(&reading, NVML_POWER_MILLIWATTS), "power");
	EXPECT_EQ(64, figure(&reading, NVML_TEMPERATURE_CELSIUS), "temperature");
	EXPECT_EQ(1980000000, figure(&reading, NVML_SM_CLOCK_HERTZ), "clock of the SMs");
	EXPECT_EQ(3201000000, figure(&reading, NVML_MEMORY_CLOCK_HERTZ), "clock of the memory");
	EXPECT_EQ(7 * 1024, figure(&reading, NVML_PCIE_SENT_BYTES), "sent");
	EXPECT_EQ(2048 * 1024, figure(&reading, NVML_PCIE_RECEIVED_BYTES), "received");
	EXPECT_EQ(63015392000, figure(&reading, NVML_PCIE_LINK_BYTES), "16 lanes of PCIe 5");
	assert_true(reading.throttle_known);
	assert_true(reading.throttle & NVML_THROTTLE_POWER_CAP);
	nvml_close(nvml);
	EXPECT_EQ(double_->inits, double_->shutdowns, "shut down");
	EXPECT_EQ(0, double_->samples_alive, "samples freed");
}

TEST(gpm_needs_two_readings)
{
	struct nvml *nvml = open_double();
	struct nvml_reading reading;

	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "first");
	EXPECT_EQ(0, reading.known & 1U << NVML_SM_ACTIVE_PERCENT, "no mean yet");
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "second");
	EXPECT_EQ(82, figure(&reading, NVML_SM_ACTIVE_PERCENT), "rounded");
	EXPECT_EQ(0, figure(&reading, NVML_TENSOR_ACTIVE_PERCENT), "0 is a figure");
	EXPECT_EQ(0, reading.known & 1U << NVML_DRAM_ACTIVE_PERCENT, "not supported by the GPU");
	nvml_close(nvml);

	set_up();
	double_->no_gpm = true;
	EXPECT_EQ(0, nvml_open(library, &nvml, &(struct error){ 0 }), "an older GPU");
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "first");
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "second");
	EXPECT_EQ(0, reading.known & 1U << NVML_SM_ACTIVE_PERCENT, "has no GPM");
	EXPECT_EQ(93, figure(&reading, NVML_BUSY_PERCENT), "has all else");
	nvml_close(nvml);
}

TEST(reads_memory_and_fresh_utilization_of_processes)
{
	struct nvml *nvml = open_double();
	struct nvml_process processes[NVML_PROCESSES_MAX];
	uint32_t count = 0;

	EXPECT_EQ(0, nvml_read_processes(nvml, 0, processes, &count), "read");
	EXPECT_EQ(2, count, "processes");
	EXPECT_EQ(1000, processes[0].pid, "pid");
	EXPECT_EQ(5ULL << 30, processes[0].memory_bytes, "memory");
	assert_true(processes[0].busy_known);
	EXPECT_EQ(60, processes[0].busy_percent, "busy");
	assert_false(processes[1].busy_known);

	EXPECT_EQ(0, nvml_read_processes(nvml, 0, processes, &count), "nothing new");
	assert_false(processes[0].busy_known);

	double_->processes[0].time_us = 2000;
	double_->processes[0].sm = 30;
	EXPECT_EQ(0, nvml_read_processes(nvml, 0, processes, &count), "something new");
	EXPECT_EQ(30, processes[0].busy_percent, "busy");
	nvml_close(nvml);
}

/** Two instances: number 3 in the second place, and number 5 with two compute instances in both others. */
static void divide(void)
{
	double_->is_mig = true;
	double_->instances[0] = (struct nvml_double_instance){ true, 5, 1, 20ULL << 30, 35 };
	double_->instances[1] = (struct nvml_double_instance){ true, 3, 2, 4ULL << 30, 90 };
	double_->instances[2] = (struct nvml_double_instance){ true, 5, 3, 20ULL << 30, 35 };
}

TEST(reads_a_mig_gpu_without_instances)
{
	struct nvml *nvml = open_double();
	struct nvml_reading reading;

	double_->is_mig = true;
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "read");
	EXPECT_EQ(0, nvml_instance_count(nvml, 0), "none");
	EXPECT_EQ(0, reading.known & 1U << NVML_BUSY_PERCENT, "no utilisation");
	EXPECT_EQ(77ULL << 30, figure(&reading, NVML_MEMORY_USED_BYTES), "memory");
	nvml_close(nvml);
}

TEST(reads_memory_and_utilization_of_instances)
{
	struct nvml *nvml = open_double();
	struct nvml_reading reading;

	divide();
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(0, nvml_read_gpu(nvml, 1, &reading), "the GPU");
	EXPECT_EQ(512345, figure(&reading, NVML_POWER_MILLIWATTS), "of the whole board");
	EXPECT_EQ(0, reading.known & 1U << NVML_MEMORY_USED_BYTES, "memory is its instances'");
	EXPECT_EQ(0, reading.known & 1U << NVML_SM_ACTIVE_PERCENT, "so is activity");

	EXPECT_EQ(2, nvml_instance_count(nvml, 1), "instances");
	EXPECT_EQ(5, nvml_instance(nvml, 1, 0)->id, "number");
	EXPECT_EQ(3, nvml_instance(nvml, 1, 1)->id, "number");
	assert_non_null(strstr(nvml_instance(nvml, 1, 1)->uuid, "MIG-"));
	EXPECT_STR("Double of a GPU MIG 1g.2", nvml_instance(nvml, 1, 1)->model, "profile");
	EXPECT_EQ(0, nvml_read_instance(nvml, 1, 1, &reading), "first");
	EXPECT_EQ(4ULL << 30, figure(&reading, NVML_MEMORY_USED_BYTES), "memory");
	EXPECT_EQ(0, reading.known & 1U << NVML_BUSY_PERCENT, "no mean yet");
	EXPECT_EQ(0, nvml_read_gpu(nvml, 1, &reading), "a second later");
	EXPECT_EQ(0, nvml_read_instance(nvml, 1, 1, &reading), "second");
	EXPECT_EQ(90, figure(&reading, NVML_BUSY_PERCENT), "busy");
	EXPECT_EQ(82, figure(&reading, NVML_SM_ACTIVE_PERCENT), "active");
	EXPECT_EQ(0, nvml_read_instance(nvml, 1, 0, &reading), "the other one");
	EXPECT_EQ(20ULL << 30, figure(&reading, NVML_MEMORY_USED_BYTES), "memory");
	nvml_close(nvml);
	EXPECT_EQ(0, double_->samples_alive, "samples freed");
}

TEST(finds_instances_after_repartitioning)
{
	struct nvml *nvml = open_double();
	struct nvml_reading reading;

	divide();
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "before");
	EXPECT_EQ(0, nvml_read_instance(nvml, 0, 1, &reading), "before");
	// Another instance with the same number, place and handle.
	double_->instances[1].uuid = 7;
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "after");
	assert_non_null(strstr(nvml_instance(nvml, 0, 1)->uuid, "MIG-"));
	EXPECT_EQ('7', nvml_instance(nvml, 0, 1)->uuid[strlen(nvml_instance(nvml, 0, 1)->uuid) - 1],
		  "the new one");
	EXPECT_EQ(0, nvml_read_instance(nvml, 0, 1, &reading), "after");
	EXPECT_EQ(0, reading.known & 1U << NVML_BUSY_PERCENT, "no mean over both");

	// Destroyed between the two calls.
	double_->instances[1].is_there = false;
	assert_true(nvml_read_instance(nvml, 0, 1, &reading) < 0);
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "one less");
	EXPECT_EQ(1, nvml_instance_count(nvml, 0), "instances");

	double_->is_lost = true;
	EXPECT_EQ(-ENODEV, nvml_read_gpu(nvml, 0, &reading), "lost");
	EXPECT_EQ(0, nvml_instance_count(nvml, 0), "its instances, too");
	double_->is_lost = false;

	double_->is_mig = false;
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "whole");
	EXPECT_EQ(77ULL << 30, figure(&reading, NVML_MEMORY_USED_BYTES), "memory");
	EXPECT_EQ(93, figure(&reading, NVML_BUSY_PERCENT), "busy");
	nvml_close(nvml);
	EXPECT_EQ(0, double_->samples_alive, "samples freed");
}

TEST(lists_processes_by_mig_instance)
{
	struct nvml *nvml = open_double();
	struct nvml_process processes[NVML_PROCESSES_MAX];
	uint32_t count = 0;

	EXPECT_EQ(0, nvml_read_processes(nvml, 0, processes, &count), "whole");
	EXPECT_EQ(NVML_NO_INSTANCE, processes[0].instance, "none");
	divide();
	double_->processes[0].instance = 5;
	double_->processes[1] = (struct nvml_double_process){ 1000, 1ULL << 30, 0, 0, 5 };
	double_->processes[2] = (struct nvml_double_process){ 1000, 2ULL << 30, 0, 0, 3 };
	EXPECT_EQ(0, nvml_read_processes(nvml, 0, processes, &count), "processes");
	EXPECT_EQ(2, count, "one process on two instances");
	EXPECT_EQ(5, processes[0].instance, "first");
	EXPECT_EQ(6ULL << 30, processes[0].memory_bytes, "of both compute instances");
	assert_false(processes[0].busy_known);
	EXPECT_EQ(3, processes[1].instance, "second");
	EXPECT_EQ(2ULL << 30, processes[1].memory_bytes, "memory");
	nvml_close(nvml);
}

TEST(unknown_pcie_generation_has_no_capacity)
{
	struct nvml *nvml = open_double();
	struct nvml_reading reading;
	static const struct {
		unsigned int generation, width;
	} links[] = { { 0, 16 }, { 4, 0 }, { 99, 16 } };

	for EACH (link, links) {
		double_->link_generation = link->generation;
		double_->link_width = link->width;
		EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "read");
		EXPECT_EQ(0, reading.known & 1U << NVML_PCIE_LINK_BYTES, "link");
	}
	nvml_close(nvml);
}

TEST(reopening_renews_handles_after_a_reset)
{
	struct nvml *nvml = open_double();
	struct nvml_reading reading;

	double_->resets++;
	EXPECT_EQ(-ENODEV, nvml_read_gpu(nvml, 0, &reading), "the old handle");
	nvml_close(nvml);
	EXPECT_EQ(0, nvml_open(library, &nvml, &(struct error){ 0 }), "again");
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "the new handle");
	EXPECT_EQ(1, nvml_gpu_index(nvml, 1), "number");
	assert_false(nvml_has_failed_gpus(nvml));
	nvml_close(nvml);

	double_->is_hidden = true;
	EXPECT_EQ(0, nvml_open(library, &nvml, &(struct error){ 0 }), "one fails to open");
	EXPECT_EQ(1, nvml_gpu_count(nvml), "the other one");
	EXPECT_EQ(1, nvml_gpu_index(nvml, 0), "NVML's index");
	assert_true(nvml_has_failed_gpus(nvml));
	nvml_close(nvml);
}

TEST(tells_lost_gpus_from_limited_ones)
{
	struct nvml *nvml = open_double();
	struct nvml_process processes[NVML_PROCESSES_MAX];
	struct nvml_reading reading = { .known = 7 };
	uint32_t count = 0;

	double_->is_lost = true;
	EXPECT_EQ(-ENODEV, nvml_read_gpu(nvml, 0, &reading), "figures");
	EXPECT_EQ(7, reading.known, "untouched");
	EXPECT_EQ(-ENODEV, nvml_read_processes(nvml, 0, processes, &count), "processes");
	double_->is_lost = false;
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "it comes back");
	nvml_close(nvml);
}

TEST(missing_driver_is_no_failure)
{
	struct error err = { 0 };
	struct nvml *nvml;

	EXPECT_EQ(-ENOENT, nvml_open("/nowhere/libnvidia-ml.so.1", &nvml, &err), "no library");
	set_up();
	double_->no_driver = true;
	EXPECT_EQ(-ENOENT, nvml_open(library, &nvml, &err), "no driver");
	EXPECT_EQ(-ENOSYS, nvml_open("libc.so.6", &nvml, &err), "another library");
	assert_non_null(strstr(err.text, "nvmlInit_v2"));
}

TEST(each_figure_has_a_profile_type)
{
	for (int i = 0; i < NVML_FIGURE_COUNT; i++)
		assert_non_null(strstr(nvml_figure_type((enum nvml_figure)i), ":gauge:second"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_have_their_names_units),
		cmocka_unit_test(gpm_needs_two_readings),
		cmocka_unit_test(reads_memory_and_fresh_utilization_of_processes),
		cmocka_unit_test(reads_a_mig_gpu_without_instances),
		cmocka_unit_test(reads_memory_and_utilization_of_instances),
		cmocka_unit_test(finds_instances_after_repartitioning),
		cmocka_unit_test(lists_processes_by_mig_instance),
		cmocka_unit_test(unknown_pcie_generation_has_no_capacity),
		cmocka_unit_test(reopening_renews_handles_after_a_reset),
		cmocka_unit_test(tells_lost_gpus_from_limited_ones),
		cmocka_unit_test(missing_driver_is_no_failure),
		cmocka_unit_test(each_figure_has_a_profile_type),
	};

	return cmocka_run_group_tests(tests, load_double, NULL);
}
