// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/perf_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/bpf/per_cpu.h"
#include "base/cleanup.h"
#include "base/clock.h"

/*
 * How long a CPU keeps a period: a random time in between, some 100 ticks at 99 Hz. A change interrupts the CPU;
 * an idle virtual CPU takes half a millisecond to answer, and the agent waits for it.
 */
#define CHANGE_MIN_NS       (600 * NS_PER_MS)
#define CHANGE_MAX_NS       (1400 * NS_PER_MS)
#define HOTPLUG_INTERVAL_NS (5 * NS_PER_SECOND)
/* Measures a clock of GHz to 0.1 %. */
#define CYCLES_MEASURED_NS (5 * NS_PER_MS)
/*
 * For a loop in step with the mean period, the standard error of n samples is about
 * 0.5 / sqrt(2 * spread * n): 0.42 points for 20,000 samples with 0.35; 0.65 with 0.15.
 */
#define PERIOD_SPREAD 0.35

struct cpu_event {
	uint32_t cpu;
	int fd;
	uint64_t change_ns; // when its period changes next
};

struct perf_events {
	struct per_cpu cpus; // of struct cpu_event
	uint32_t periods_us[PERF_PERIODS];
	uint64_t ns_per_1024_cycles;
	uint64_t hotplug_ns; // next check of online CPUs
	uint64_t random;
	bool stopped;
	int program_fd;
	struct period_listener listener;
};

static int perf_event_open(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	attr->size = sizeof(*attr);
	int fd = syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

// xorshift64*: good enough to choose periods.
static uint32_t next_random(struct perf_events *events, uint32_t limit)
{
	uint64_t x = events->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	events->random = x;
	return (x * 0x2545f4914f6cdd1dULL >> 32) % limit;
}

// ---- periods ----------------------------------------------------------------------------------

static bool is_prime(uint32_t number)
{
	if (number % 2 == 0)
		return number == 2;
	for (uint32_t divisor = 3; divisor * divisor <= number; divisor += 2) {
		if (number % divisor == 0)
			return false;
	}
	return number > 1;
}

// Terminates soon: gaps between primes of this size are below 100.
static uint32_t nearest_prime(uint32_t number)
{
	for (uint32_t distance = 0;; distance++) {
		if (distance < number && is_prime(number - distance))
			return number - distance;
		if (is_prime(number + distance))
			return number + distance;
	}
}

void perf_periods_of(uint32_t frequency_hz, uint32_t ret_periods_us[PERF_PERIODS])
{
	double mean_us = 1e6 / frequency_hz;

	for (uint32_t i = 0; i < PERF_PERIODS; i++) {
		double at = (2.0 * i + 1) / PERF_PERIODS - 1; // evenly in (-1, 1)

		ret_periods_us[i] = nearest_prime(mean_us * (1 + PERIOD_SPREAD * at) + 0.5);
	}
}

static uint64_t choose_period_ns(struct perf_events *events)
{
	return events->periods_us[next_random(events, PERF_PERIODS)] * NS_PER_US;
}

// The event counts nanoseconds or cycles.
static uint64_t in_event_unit(const struct perf_events *events, uint64_t period_ns)
{
	return events->ns_per_1024_cycles ? period_ns * 1024 / events->ns_per_1024_cycles
					  : period_ns;
}

static uint64_t choose_change(struct perf_events *events, uint64_t now_ns)
{
	uint32_t range_us = (CHANGE_MAX_NS - CHANGE_MIN_NS) / NS_PER_US;

	return now_ns + CHANGE_MIN_NS + next_random(events, range_us) * NS_PER_US;
}

// ---- cycles ---------------------------------------------------------------------------------

uint64_t perf_events_cycle_ns(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.read_format = PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	_cleanup_close_ int fd = perf_event_open(&attr, 0, -1);
	struct {
		uint64_t cycles;
		uint64_t running_ns;
	} counted;

	if (fd < 0)
		return 0;
	for (uint64_t end_ns = clock_monotonic_ns() + CYCLES_MEASURED_NS;
	     clock_monotonic_ns() < end_ns;)
		;
	// Some hypervisors have a counter that does not count.
	if (read(fd, &counted, sizeof(counted)) != sizeof(counted) || counted.cycles < 1024)
		return 0;
	return counted.running_ns * 1024 / counted.cycles;
}

// ---- CPUs -----------------------------------------------------------------------------------

static int open_cpu(void *context, uint32_t cpu, void *item)
{
	struct perf_events *events = context;
	bool cycles = events->ns_per_1024_cycles != 0;
	uint64_t period_ns = choose_period_ns(events);
	struct perf_event_attr attr = {
		.type = cycles ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE,
		.config = cycles ? (uint64_t)PERF_COUNT_HW_CPU_CYCLES
				 : (uint64_t)PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = in_event_unit(events, period_ns),
		.disabled = 1,
	};
	_cleanup_close_ int fd = perf_event_open(&attr, -1, (int)cpu);

	if (fd < 0)
		return fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, events->program_fd) < 0 ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return -errno;
	uint64_t now_ns = clock_monotonic_ns();
	events->listener.fn(events->listener.context, cpu, period_ns, now_ns);
	*(struct cpu_event *)item = (struct cpu_event){
		.cpu = cpu,
		.fd = take_fd(fd),
		.change_ns = choose_change(events, now_ns),
	};
	return 0;
}

static void close_cpu(void *context, void *item)
{
	(void)context;
	close(((struct cpu_event *)item)->fd);
}

static int update_cpus(struct perf_events *events, uint64_t now_ns)
{
	bool changed;

	events->hotplug_ns = now_ns + HOTPLUG_INTERVAL_NS;
	return per_cpu_update(&events->cpus, &changed);
}

static struct cpu_event *cpu_events(const struct perf_events *events)
{
	return events->cpus.items;
}

// ---- life -----------------------------------------------------------------------------------

/* kernel.perf_event_paranoid; 0 if it cannot be read. */
static int read_paranoid_level(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	int level = 0;

	return file && fscanf(file, "%d", &level) == 1 ? level : 0;
}

/*
 * Debian's and Ubuntu's kernels have CONFIG_SECURITY_PERF_EVENTS_RESTRICT, or one like it: a level above 2, their default, lets
 * only CAP_SYS_ADMIN open perf events. In others a level above 2 is as 2.
 */
static int refuse(int rc, struct error *err)
{
	int level = read_paranoid_level();

	if (rc == -EACCES && level > 2)
		return error_errno(
			err, rc,
			"perf events cannot be opened: kernel.perf_event_paranoid is %d, and this "
			"kernel then asks for CAP_SYS_ADMIN; set it to 2 (sysctl -w "
			"kernel.perf_event_paranoid=2, in /etc/sysctl.d for good), or give the "
			"agent CAP_SYS_ADMIN",
			level);
	return error_errno(err, rc,
			   "perf events cannot be opened on the online CPUs; give the agent "
			   "CAP_PERFMON and allow perf_event_open() in its seccomp profile");
}

int perf_events_open(uint32_t frequency_hz, uint64_t ns_per_1024_cycles, int program_fd,
		     const struct period_listener *listener, struct perf_events **ret_events,
		     struct error *err)
{
	struct perf_events *events = calloc(1, sizeof(*events));

	if (!events)
		return error_set(err, -ENOMEM, "out of memory");
	events->cpus = (struct per_cpu){ .item_size = sizeof(struct cpu_event),
					 .open = open_cpu,
					 .close = close_cpu,
					 .context = events };
	events->program_fd = program_fd;
	events->listener = *listener;
	events->ns_per_1024_cycles = ns_per_1024_cycles;
	perf_periods_of(frequency_hz, events->periods_us);
	if (getrandom(&events->random, sizeof(events->random), 0) < 0 || !events->random)
		events->random = clock_realtime_ns();

	int rc = update_cpus(events, clock_monotonic_ns());
	if (rc < 0 || !events->cpus.count) {
		perf_events_close(events);
		return refuse(rc < 0 ? rc : -ENODEV, err);
	}
	*ret_events = events;
	return 0;
}

void perf_events_close(struct perf_events *events)
{
	if (!events)
		return;
	per_cpu_close(&events->cpus);
	free(events);
}

void perf_events_vary(struct perf_events *events, uint64_t now_ns)
{
	if (events->stopped)
		return;
	if (now_ns >= events->hotplug_ns)
		update_cpus(events, now_ns);

	for (uint32_t i = 0; i < events->cpus.count; i++) {
		struct cpu_event *event = &cpu_events(events)[i];
		uint64_t period_ns, period;

		if (now_ns < event->change_ns)
			continue;
		period_ns = choose_period_ns(events);
		period = in_event_unit(events, period_ns);
		// Fails on a CPU that went offline: the next update closes it.
		if (ioctl(event->fd, PERF_EVENT_IOC_PERIOD, &period) == 0)
			events->listener.fn(events->listener.context, event->cpu, period_ns,
					    clock_monotonic_ns());
		event->change_ns = choose_change(events, now_ns);
	}
}

// Its period is changed at once, so that the program knows since when the timer runs.
static void start_cpu(struct cpu_event *event)
{
	ioctl(event->fd, PERF_EVENT_IOC_ENABLE, 0);
	event->change_ns = 0;
}

void perf_events_set_running(struct perf_events *events, bool running)
{
	events->stopped = !running;
	// Fails on a CPU that went offline: the next update closes it.
	for (uint32_t i = 0; i < events->cpus.count; i++) {
		if (running)
			start_cpu(&cpu_events(events)[i]);
		else
			ioctl(cpu_events(events)[i].fd, PERF_EVENT_IOC_DISABLE, 0);
	}
	if (running)
		perf_events_vary(events, clock_monotonic_ns());
}

void perf_events_set_frequency(struct perf_events *events, uint32_t frequency_hz)
{
	perf_periods_of(frequency_hz, events->periods_us);
}

uint64_t perf_events_due_ns(const struct perf_events *events)
{
	uint64_t due_ns = events->hotplug_ns;

	if (events->stopped)
		return UINT64_MAX;
	for (uint32_t i = 0; i < events->cpus.count; i++) {
		if (cpu_events(events)[i].change_ns < due_ns)
			due_ns = cpu_events(events)[i].change_ns;
	}
	return due_ns;
}
