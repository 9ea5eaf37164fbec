// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <linux/capability.h>

#include "tests/test.h"

#include "agent/bpf/machine.h"

#define CAP(name) (1ULL << CAP_##name)

TEST(refuses_old_kernels_by_name)
{
	static const struct {
		const char *release;
		int rc;
	} cases[] = {
		{ "6.1.0-28-amd64", 0 },
		{ "6.18.44", 0 },
		{ "7.0", 0 },
		{ "6.0.19", -ENOSYS },
		{ "5.15.0-generic", -ENOSYS },
		{ "", -ENOSYS },
		{ "not a kernel", -ENOSYS },
		{ "10.0-rc1", 0 },
	};

	for EACH (c, cases) {
		struct error err = { 0 };

		EXPECT_EQ(c->rc, machine_check_release(c->release, &err), c->release);
		if (c->rc)
			assert_non_null(strstr(err.text, c->release));
	}
}

TEST(names_missing_capabilities)
{
	static const struct {
		const char *what;
		uint64_t effective;
		int rc;
		const char *missing; // in the text
	} cases[] = {
		{ "all of root's", ~0ULL, 0, NULL },
		{ "just enough", CAP(SYS_PTRACE) | 1ULL << 38 | 1ULL << 39, 0, NULL },
		{ "administration stands for two", CAP(SYS_PTRACE) | CAP(SYS_ADMIN), 0, NULL },
		{ "none", 0, -EPERM, "lacks: CAP_BPF CAP_PERFMON CAP_SYS_PTRACE;" },
		{ "no tracing", 1ULL << 38 | 1ULL << 39, -EPERM, "lacks: CAP_SYS_PTRACE;" },
		{ "no bpf", CAP(SYS_PTRACE) | 1ULL << 38, -EPERM, "lacks: CAP_BPF;" },
	};

	for EACH (c, cases) {
		struct error err = { 0 };

		EXPECT_EQ(c->rc, machine_check_capabilities(c->effective, false, &err), c->what);
		if (c->missing && !strstr(err.text, c->missing))
			fail_msg("%s: %s", c->what, err.text);
		if (c->rc)
			assert_non_null(strstr(err.text, "sudo"));
	}
}

TEST(sends_root_to_its_container_or_unit)
{
	struct error err = { 0 };

	EXPECT_EQ(-EPERM, machine_check_capabilities(1ULL << 38 | 1ULL << 39, true, &err), "none");
	EXPECT_STR(
		"cairn runs as root, but needs these capabilities, which it lacks: CAP_SYS_PTRACE; "
		"add "
		"them to the container (securityContext.capabilities.add) or the unit "
		"(AmbientCapabilities=, CapabilityBoundingSet=)",
		err.text, "remedy");
}

TEST(names_each_missing_capability)
{
	static const struct {
		const char *name;
		uint64_t bit;
		enum capability_use use;
	} cases[] = {
		{ "CAP_BPF", CAP(BPF), CAPABILITY_NEEDED },
		{ "CAP_PERFMON", CAP(PERFMON), CAPABILITY_NEEDED },
		{ "CAP_SYS_PTRACE", CAP(SYS_PTRACE), CAPABILITY_NEEDED },
		{ "CAP_SYSLOG", CAP(SYSLOG), CAPABILITY_NAMES },
		{ "CAP_DAC_READ_SEARCH", CAP(DAC_READ_SEARCH), CAPABILITY_NAMES },
		{ "CAP_CHECKPOINT_RESTORE", CAP(CHECKPOINT_RESTORE), CAPABILITY_NAMES },
		{ "CAP_SYS_NICE", CAP(SYS_NICE), CAPABILITY_OPTIONAL },
	};

	for EACH (c, cases) {
		uint64_t others = ~(c->bit | CAP(SYS_ADMIN));
		uint32_t position = 0;
		const struct capability *missing = machine_next_missing(others, &position);

		assert_non_null(missing);
		assert_string_equal(c->name, missing->name);
		EXPECT_EQ(c->use, missing->use, c->name);
		EXPECT_EQ(NULL, machine_next_missing(others, &position), c->name);
		assert_true(missing->without[0]);
	}
}

TEST(administration_includes_two_capabilities)
{
	uint32_t position = 0;

	assert_string_equal("CAP_SYS_PTRACE",
			    machine_next_missing(CAP(SYS_ADMIN), &position)->name);
}

TEST(refuses_a_kernel_without_btf)
{
	struct error err = { 0 };

	EXPECT_EQ(0, machine_check_btf("/proc/self/status", &err), "a file that is there");
	EXPECT_EQ(-ENOENT, machine_check_btf("/nowhere/vmlinux", &err), "no file");
	assert_non_null(strstr(err.text, "CONFIG_DEBUG_INFO_BTF"));
}

TEST(refuses_a_pid_namespace_with_the_remedy)
{
	struct error err = { 0 };

	EXPECT_EQ(0, machine_check_pid_namespace("pid:[4026531836]", &err), "the first one");
	EXPECT_EQ(-EXDEV, machine_check_pid_namespace("pid:[4026532295]", &err), "a container's");
	assert_non_null(strstr(err.text, "hostPID"));
}

RUN_TESTS(cmocka_unit_test(refuses_old_kernels_by_name),
	  cmocka_unit_test(names_missing_capabilities),
	  cmocka_unit_test(sends_root_to_its_container_or_unit),
	  cmocka_unit_test(names_each_missing_capability),
	  cmocka_unit_test(administration_includes_two_capabilities),
	  cmocka_unit_test(refuses_a_kernel_without_btf),
	  cmocka_unit_test(refuses_a_pid_namespace_with_the_remedy))
