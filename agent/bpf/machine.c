// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/machine.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"

/* 6.1 has bpf_loop() in all program types used here; it is the oldest kernel that is tested. */
enum { KERNEL_MAJOR_MIN = 6, KERNEL_MINOR_MIN = 1 };

/* PROC_PID_INIT_INO of the kernel's proc_ns.h: the root pid namespace. */
#define ROOT_PID_NAMESPACE "pid:[4026531836]"
#define BTF_PATH           "/sys/kernel/btf/vmlinux"

int machine_check_release(const char *release, struct error *err)
{
	unsigned int major, minor;

	if (sscanf(release, "%u.%u", &major, &minor) != 2)
		return error_set(err, -ENOSYS, "kernel release \"%s\" cannot be parsed", release);
	if (major > KERNEL_MAJOR_MIN || (major == KERNEL_MAJOR_MIN && minor >= KERNEL_MINOR_MIN))
		return 0;
	return error_set(err, -ENOSYS,
			 "cairn needs Linux %d.%d or newer, this is %s: run it on a newer kernel "
			 "(Debian 12, Ubuntu 23.04 and later releases have one)",
			 KERNEL_MAJOR_MIN, KERNEL_MINOR_MIN, release);
}

static const struct capability capabilities[] = {
	{ CAP_BPF, CAPABILITY_NEEDED, "CAP_BPF", "no BPF program can be loaded" },
	{ CAP_PERFMON, CAPABILITY_NEEDED, "CAP_PERFMON", "nothing can be sampled" },
	{ CAP_SYS_PTRACE, CAPABILITY_NEEDED, "CAP_SYS_PTRACE",
	  "other processes' programs and memory cannot be read" },
	{ CAP_SYSLOG, CAPABILITY_NAMES, "CAP_SYSLOG", "kernel functions have no names" },
	{ CAP_DAC_READ_SEARCH, CAPABILITY_NAMES, "CAP_DAC_READ_SEARCH",
	  "processes of other users have no names" },
	{ CAP_CHECKPOINT_RESTORE, CAPABILITY_NAMES, "CAP_CHECKPOINT_RESTORE",
	  "deleted and replaced files have no unwind tables" },
	{ CAP_SYS_NICE, CAPABILITY_OPTIONAL, "CAP_SYS_NICE",
	  "on a busy node more first stacks are truncated; it may be left out" },
};

static bool has(uint64_t effective, int capability)
{
	return effective >> capability & 1;
}

/* CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON, not CAP_SYS_PTRACE. */
static bool has_or_includes(uint64_t effective, int capability)
{
	return has(effective, capability) || (has(effective, CAP_SYS_ADMIN) &&
					      (capability == CAP_BPF || capability == CAP_PERFMON));
}

const struct capability *machine_next_missing(uint64_t effective, uint32_t *position)
{
	while (*position < ARRAY_SIZE(capabilities)) {
		const struct capability *capability = &capabilities[(*position)++];

		if (!has_or_includes(effective, capability->number))
			return capability;
	}
	return NULL;
}

int machine_check_capabilities(uint64_t effective, bool is_root, struct error *err)
{
	const struct capability *missing;
	char names[128] = "";
	uint32_t position = 0;

	while ((missing = machine_next_missing(effective, &position))) {
		size_t size = strlen(names);

		if (missing->use == CAPABILITY_NEEDED)
			snprintf(names + size, sizeof(names) - size, " %s", missing->name);
	}
	if (!names[0])
		return 0;
	if (is_root)
		return error_set(err, -EPERM,
				 "cairn runs as root, but needs these capabilities, which it "
				 "lacks:%s; add them to the container "
				 "(securityContext.capabilities.add) or the unit "
				 "(AmbientCapabilities=, CapabilityBoundingSet=)",
				 names);
	return error_set(err, -EPERM,
			 "cairn needs root, or these capabilities, which it lacks:%s; run it with "
			 "sudo, or give it CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_SYSLOG, "
			 "CAP_DAC_READ_SEARCH and CAP_CHECKPOINT_RESTORE",
			 names);
}

int machine_check_btf(const char *path, struct error *err)
{
	if (!path)
		path = BTF_PATH;
	if (access(path, F_OK) == 0)
		return 0;
	return error_set(err, -ENOENT,
			 "%s is missing: the kernel was built without CONFIG_DEBUG_INFO_BTF, or "
			 "/sys is not mounted; run a distribution's kernel, or mount sysfs on /sys",
			 path);
}

int machine_check_pid_namespace(const char *link, struct error *err)
{
	if (!strcmp(link, ROOT_PID_NAMESPACE))
		return 0;
	return error_set(
		err, -EXDEV,
		"not in the root pid namespace: cairn cannot see the processes that it samples; "
		"start the container with hostPID: true (Kubernetes) or --pid=host (docker, "
		"podman)");
}

int machine_read_capabilities(uint64_t *ret_effective, struct error *err)
{
	_cleanup_fclose_ FILE *status = fopen("/proc/self/status", "re");
	char line[256];

	if (!status)
		return error_errno(err, -errno, "open /proc/self/status; is /proc mounted?");
	while (fgets(line, sizeof(line), status)) {
		if (sscanf(line, "CapEff: %" SCNx64, ret_effective) == 1)
			return 0;
	}
	return error_set(err, -EBADMSG, "/proc/self/status has no CapEff");
}

bool machine_has_capability(int capability)
{
	struct error err;
	uint64_t effective = 0;

	return !machine_read_capabilities(&effective, &err) && has(effective, capability);
}

int machine_check(struct error *err)
{
	struct utsname name;
	uint64_t effective = 0;
	char link[64];
	ssize_t size;
	int rc;

	if (uname(&name) < 0)
		return error_errno(err, -errno, "uname");
	rc = machine_check_release(name.release, err);
	if (!rc)
		rc = machine_read_capabilities(&effective, err);
	if (!rc)
		rc = machine_check_capabilities(effective, geteuid() == 0, err);
	if (!rc)
		rc = machine_check_btf(NULL, err);
	if (rc)
		return rc;

	size = readlink("/proc/self/ns/pid", link, sizeof(link) - 1);
	if (size < 0)
		return error_errno(err, -errno, "read /proc/self/ns/pid; is /proc mounted?");
	link[size] = 0;
	return machine_check_pid_namespace(link, err);
}
