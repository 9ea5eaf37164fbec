// SPDX-License-Identifier: Apache-2.0
// The reader of GPU figures against a double of the library.
#include "agent/nvml.h"

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

TEST(figures_come_in_the_units_of_their_names)
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

TEST(performance_monitoring_needs_two_readings_and_says_what_is_missing)
{
	struct nvml *nvml = open_double();
	struct nvml_reading reading;

	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "first");
	EXPECT_EQ(0, reading.known & 1U << NVML_SM_ACTIVE_PERCENT, "no mean yet");
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "second");
	EXPECT_EQ(82, figure(&reading, NVML_SM_ACTIVE_PERCENT), "rounded");
	EXPECT_EQ(0, figure(&reading, NVML_TENSOR_ACTIVE_PERCENT), "0 is a figure");
	EXPECT_EQ(0, reading.known & 1U << NVML_DRAM_ACTIVE_PERCENT, "refused by the GPU");
	nvml_close(nvml);

	set_up();
	double_->no_gpm = true;
	EXPECT_EQ(0, nvml_open(library, &nvml, &(struct error){ 0 }), "an older GPU");
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "first");
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "second");
	EXPECT_EQ(0, reading.known & 1U << NVML_SM_ACTIVE_PERCENT, "has none");
	EXPECT_EQ(93, figure(&reading, NVML_BUSY_PERCENT), "has the rest");
	nvml_close(nvml);
}

TEST(processes_have_memory_and_fresh_work_only)
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

TEST(instances_of_a_partitioned_gpu_are_summed_and_their_use_is_unknown)
{
	struct nvml *nvml = open_double();
	struct nvml_process processes[NVML_PROCESSES_MAX];
	struct nvml_reading reading;
	uint32_t count = 0;

	double_->is_mig = true;
	double_->processes[1].pid = 1000;
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "read");
	EXPECT_EQ(0, reading.known & 1U << NVML_BUSY_PERCENT, "no utilisation");
	EXPECT_EQ(77ULL << 30, figure(&reading, NVML_MEMORY_USED_BYTES), "memory");
	EXPECT_EQ(0, nvml_read_processes(nvml, 0, processes, &count), "processes");
	EXPECT_EQ(1, count, "one process with two instances");
	EXPECT_EQ(6ULL << 30, processes[0].memory_bytes, "memory of both");
	assert_false(processes[0].busy_known);
	nvml_close(nvml);
}

TEST(a_link_of_an_unknown_generation_is_unknown)
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

TEST(after_a_reset_handles_are_had_anew)
{
	struct nvml *nvml = open_double();
	struct nvml_reading reading;

	double_->resets++;
	EXPECT_EQ(-ENODEV, nvml_read_gpu(nvml, 0, &reading), "the old handle");
	nvml_close(nvml);
	EXPECT_EQ(0, nvml_open(library, &nvml, &(struct error){ 0 }), "again");
	EXPECT_EQ(0, nvml_read_gpu(nvml, 0, &reading), "the new handle");
	EXPECT_EQ(1, nvml_gpu_index(nvml, 1), "number");
	assert_false(nvml_lacks_gpus(nvml));
	nvml_close(nvml);

	double_->is_hidden = true;
	EXPECT_EQ(0, nvml_open(library, &nvml, &(struct error){ 0 }), "one cannot be had");
	EXPECT_EQ(1, nvml_gpu_count(nvml), "the other one");
	EXPECT_EQ(1, nvml_gpu_index(nvml, 0), "its number is its own");
	assert_true(nvml_lacks_gpus(nvml));
	nvml_close(nvml);
}

TEST(a_lost_gpu_is_told_apart_from_one_that_knows_less)
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

TEST(a_machine_without_a_driver_is_no_failure)
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

TEST(every_figure_has_a_type)
{
	for (int i = 0; i < NVML_FIGURE_COUNT; i++)
		assert_non_null(strstr(nvml_figure_type((enum nvml_figure)i), ":gauge:second"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_come_in_the_units_of_their_names),
		cmocka_unit_test(
			performance_monitoring_needs_two_readings_and_says_what_is_missing),
		cmocka_unit_test(processes_have_memory_and_fresh_work_only),
		cmocka_unit_test(
			instances_of_a_partitioned_gpu_are_summed_and_their_use_is_unknown),
		cmocka_unit_test(a_link_of_an_unknown_generation_is_unknown),
		cmocka_unit_test(after_a_reset_handles_are_had_anew),
		cmocka_unit_test(a_lost_gpu_is_told_apart_from_one_that_knows_less),
		cmocka_unit_test(a_machine_without_a_driver_is_no_failure),
		cmocka_unit_test(every_figure_has_a_type),
	};

	return cmocka_run_group_tests(tests, load_double, NULL);
}
