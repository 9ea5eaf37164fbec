// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/cpu_programs.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/bpf/per_cpu.h"
#include "base/cleanup.h"

struct cpu_program {
	uint32_t cpu;
	int fd;
};

struct cpu_programs {
	struct per_cpu cpus; // of struct cpu_program
	uint64_t software_event;
	int program_fd;
};

static int open_cpu(void *context, uint32_t cpu, void *item)
{
	const struct cpu_programs *programs = context;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = programs->software_event,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_ADDR, // the program reads it
		.disabled = 1,
	};
	_cleanup_close_ int fd =
		(int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, programs->program_fd) < 0 ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return -errno;
	*(struct cpu_program *)item = (struct cpu_program){ cpu, take_fd(fd) };
	return 0;
}

static void close_cpu(void *context, void *item)
{
	(void)context;
	close(((struct cpu_program *)item)->fd);
}

int cpu_programs_open(uint64_t software_event, int program_fd, struct cpu_programs **ret_programs,
		      struct error *err)
{
	struct cpu_programs *programs = calloc(1, sizeof(*programs));
	bool changed;

	if (!programs)
		return error_set(err, -ENOMEM, "out of memory");
	programs->software_event = software_event;
	programs->program_fd = program_fd;
	programs->cpus = (struct per_cpu){ .item_size = sizeof(struct cpu_program),
					   .open = open_cpu,
					   .close = close_cpu,
					   .context = programs };

	int rc = per_cpu_update(&programs->cpus, &changed);
	if (rc || !programs->cpus.count) {
		cpu_programs_close(programs);
		return error_errno(err, rc ? rc : -ENODEV,
				   "software events cannot be opened on all CPUs");
	}
	*ret_programs = programs;
	return 0;
}

void cpu_programs_close(struct cpu_programs *programs)
{
	if (!programs)
		return;
	per_cpu_close(&programs->cpus);
	free(programs);
}

void cpu_programs_update(struct cpu_programs *programs)
{
	bool changed;

	per_cpu_update(&programs->cpus, &changed);
}
