// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/cpu_programs.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/bpf/perf_events.h"
#include "base/cleanup.h"

struct cpu_program {
	uint32_t cpu;
	int fd;
};

struct cpu_programs {
	struct cpu_program *cpus;
	uint32_t count;
	uint64_t software_event;
	int program_fd;
};

static int open_cpu(const struct cpu_programs *programs, uint32_t cpu, int *ret_fd)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = programs->software_event,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_ADDR, // the program wants it
		.disabled = 1,
	};
	_cleanup_close_ int fd =
		(int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, programs->program_fd) < 0 ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return -errno;
	*ret_fd = take_fd(fd);
	return 0;
}

// The descriptor of @cpu leaves its place; -1: it has none.
static int take_cpu(struct cpu_programs *programs, uint32_t cpu)
{
	for (uint32_t i = 0; i < programs->count; i++) {
		if (programs->cpus[i].cpu == cpu)
			return take_fd(programs->cpus[i].fd);
	}
	return -1;
}

static void close_cpus(struct cpu_programs *programs)
{
	for (uint32_t i = 0; i < programs->count; i++) {
		if (programs->cpus[i].fd >= 0)
			close(programs->cpus[i].fd);
	}
	free(programs->cpus);
	programs->cpus = NULL;
	programs->count = 0;
}

static int set_cpus(struct cpu_programs *programs, const uint32_t *cpus, uint32_t count)
{
	struct cpu_program *wanted = calloc(count, sizeof(*wanted));
	uint32_t opened = 0;
	int rc = 0;

	if (!wanted)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		int fd = take_cpu(programs, cpus[i]);
		int open_rc = fd < 0 ? open_cpu(programs, cpus[i], &fd) : 0;

		// A CPU may go offline between the list and here; the next look finds it again.
		if (!open_rc)
			wanted[opened++] = (struct cpu_program){ cpus[i], fd };
		else if (open_rc != -ENODEV && !rc)
			rc = open_rc;
	}
	close_cpus(programs);
	programs->cpus = wanted;
	programs->count = opened;
	return rc;
}

static bool same_cpus(const struct cpu_programs *programs, const uint32_t *cpus, uint32_t count)
{
	if (count != programs->count)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (programs->cpus[i].cpu != cpus[i])
			return false;
	}
	return true;
}

static int follow(struct cpu_programs *programs)
{
	_cleanup_free_ uint32_t *cpus = malloc(PERF_CPUS_MAX * sizeof(*cpus));
	int count = cpus ? cpu_list_read_online(cpus) : -ENOMEM;

	if (count < 0)
		return count;
	return same_cpus(programs, cpus, count) ? 0 : set_cpus(programs, cpus, count);
}

int cpu_programs_open(uint64_t software_event, int program_fd, struct cpu_programs **ret_programs,
		      struct error *err)
{
	struct cpu_programs *programs = calloc(1, sizeof(*programs));

	if (!programs)
		return error_set(err, -ENOMEM, "out of memory");
	programs->software_event = software_event;
	programs->program_fd = program_fd;

	int rc = follow(programs);
	if (rc || !programs->count) {
		cpu_programs_close(programs);
		return error_errno(err, rc ? rc : -ENODEV,
				   "a software event cannot be opened on all CPUs");
	}
	*ret_programs = programs;
	return 0;
}

void cpu_programs_close(struct cpu_programs *programs)
{
	if (!programs)
		return;
	close_cpus(programs);
	free(programs);
}

void cpu_programs_follow(struct cpu_programs *programs)
{
	follow(programs); // what fails is tried again the next time
}
