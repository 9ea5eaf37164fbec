// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/cgroup.h"

#include <stdlib.h>

#include "tests/test.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define OTHER "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

static const struct {
	const char *what;
	const char *text;
	const char *container;
	const char *unit;
} cases[] = {
	{ "kubepods on v1", "4:memory:/kubepods/burstable/pod1-2/" ID "\n", ID, "" },
	{ "kubepods by systemd",
	  "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID ".scope\n", ID, "" },
	{ "private namespace", "0::/../../pod1/" ID "\n", ID, "" },
	{ "docker scope", "0::/system.slice/docker-" ID ".scope\n", ID, "" },
	{ "podman", "0::/machine.slice/libpod-" ID ".scope/container\n", ID, "" },
	{ "a service", "0::/system.slice/nginx.service\n", "", "nginx.service" },
	{ "innermost service", "0::/user.slice/user@0.service/app.slice/a.service\n", "",
	  "a.service" },
	{ "second line decides", "2:cpu:/\n0::/system.slice/b.service\n", "", "b.service" },
	{ "no newline at the end", "0::/system.slice/c.service", "", "c.service" },
	{ "runtime's helper", "0::/machine.slice/libpod-conmon-" ID ".scope\n", "",
	  "libpod-conmon-" ID ".scope" },
	{ "containerd in a service's group",
	  "0::/system.slice/containerd.service/kubepods-burstable-pod1.slice:cri-containerd:" ID,
	  ID, "" },
	{ "service within a container", "0::/docker/" ID "/system.slice/nginx.service", ID,
	  "nginx.service" },
	{ "container within a container", "0::/docker/" ID "/docker/" OTHER, ID, "" },
	{ "scope within a container", "0::/docker/" ID "/docker-" OTHER ".scope", ID,
	  "docker-" OTHER ".scope" },
	{ "a user's unit", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/a.service",
	  "", "user-1000.slice/a.service" },
	{ "a user's container",
	  "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope",
	  "user-1000.slice/" ID, "" },
	{ "a user's slice within a container", "0::/docker/" ID "/user-1.slice/a.service", ID,
	  "a.service" },
	{ "ECS Fargate",
	  "1:cpu:/ecs/0123456789abcdef0123456789abcdef/"
	  "0123456789abcdef0123456789abcdef-1234567890",
	  "0123456789abcdef0123456789abcdef-1234567890", "" },
	{ "32 digits", "4:memory:/x/c17e51d4ed81b70245ec26b77f9f0b34\n", "", "" },
	{ "session", "0::/user.slice/user-1000.slice/session-3.scope", "",
	  "user-1000.slice/session-3.scope" },
	{ "container line among others",
	  "2:cpu:/system.slice/a.service\n1:name=systemd:/x/" ID "\n", ID, "" },
	{ "root", "0::/\n", "", "" },
	{ "empty", "", "", "" },
	{ "65 digits", "0::/0" ID "\n", "", "" },
	{ "63 digits", "0::/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n", "",
	  "" },
	{ "capitals", "0::/ABCDEF6789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n", "",
	  "" },
	{ "only a suffix", "0::/.service\n0::/.scope\n", "", "" },
	{ "no colons", "nonsense\n\n::\n:\n", "", "" },
};

TEST(finds_containers_and_units)
{
	for EACH (row, cases) {
		struct cgroup cgroup;

		cgroup_parse(row->text, strlen(row->text), &cgroup);
		EXPECT_STR(row->container, cgroup.container, row->what);
		EXPECT_STR(row->unit, cgroup.unit, row->what);
	}
}

static const struct {
	const char *what;
	const char *text;
	const char *pod_uid;
} pods[] = {
	{ "cgroupfs", "0::/kubepods/burstable/pod12345678-1234-1234-1234-123456789abc/" ID,
	  "12345678-1234-1234-1234-123456789abc" },
	{ "private namespace", "0::/../../pod12345678-1234-1234-1234-123456789abc/" ID,
	  "12345678-1234-1234-1234-123456789abc" },
	{ "systemd",
	  "0::/kubepods.slice/kubepods-burstable.slice/"
	  "kubepods-burstable-pod12345678_1234_1234_1234_123456789abc.slice/crio-" ID ".scope",
	  "12345678-1234-1234-1234-123456789abc" },
	{ "guaranteed", "0::/kubepods.slice/kubepods-pod12345678_1234_1234_1234_123456789abc.slice",
	  "12345678-1234-1234-1234-123456789abc" },
	{ "kind",
	  "0::/kubelet.slice/kubelet-kubepods.slice/"
	  "kubelet-kubepods-pod12345678_1234_1234_1234_123456789abc.slice",
	  "12345678-1234-1234-1234-123456789abc" },
	{ "static pod", "0::/kubepods/pod0123456789abcdef0123456789abcdef/" ID,
	  "0123456789abcdef0123456789abcdef" },
	{ "too short", "0::/kubepods/pod1-2/" ID, "" },
	{ "other letters", "0::/kubepods/podg2345678-1234-1234-1234-123456789abc", "" },
};

TEST(finds_pods_by_uid)
{
	for EACH (row, pods) {
		struct cgroup cgroup;

		cgroup_parse(row->text, strlen(row->text), &cgroup);
		EXPECT_STR(row->pod_uid, cgroup.pod_uid, row->what);
	}
}

#define POD     "12345678-1234-1234-1234-123456789abc"
#define VICTIM  "abcdef01-1234-1234-1234-123456789abc"
#define A_USERS "0::/user.slice/user-1000.slice/user@1000.service/app.slice/"

/* Who may make groups, which have any names, would have another pod's labels. */
TEST(takes_no_pod_from_groups_within_others)
{
	static const struct {
		const char *what;
		const char *text;
		const char *pod_uid, *container;
	} rows[] = {
		{ "in a pod", "0::/kubepods/pod" POD "/" ID "/kubepods/pod" VICTIM "/" OTHER, POD,
		  ID },
		{ "in a pod, without a container of its own",
		  "0::/kubepods/pod" POD "/kubepods/pod" VICTIM "/" OTHER, POD, OTHER },
		{ "in a container", "0::/docker/" ID "/kubepods/pod" VICTIM "/" OTHER, "", ID },
		{ "in a scope", "0::/system.slice/docker-" ID ".scope/pod" VICTIM "/" OTHER, "",
		  ID },
		{ "a user's", A_USERS "kubepods/pod" VICTIM "/" OTHER, "",
		  "user-1000.slice/" OTHER },
		{ "a user's, in one component",
		  A_USERS "kubepods-pod" VICTIM ".slice:cri-containerd:" OTHER, "",
		  "user-1000.slice/" OTHER },
	};

	for EACH (row, rows) {
		struct cgroup cgroup;

		cgroup_parse(row->text, strlen(row->text), &cgroup);
		EXPECT_STR(row->pod_uid, cgroup.pod_uid, row->what);
		EXPECT_STR(row->container, cgroup.container, row->what);
	}
}

/* Or who may make groups would have as many shares of the agent as it likes, or spend another's. */
TEST(the_outermost_pod_container_or_user_pays)
{
	static const struct {
		const char *what;
		const char *text;
		const char *payer;
	} rows[] = {
		{ "pod", "0::/kubepods/pod" POD "/" ID, POD },
		{ "container", "0::/system.slice/docker-" ID ".scope", ID },
		{ "container of a unit",
		  "2:cpu:/system.slice/a.service\n1:name=systemd:/x/" ID "\n", ID },
		{ "containerd's pod in its unit",
		  "0::/system.slice/containerd.service/kubepods-burstable-pod" POD
		  ".slice:cri-containerd:" ID,
		  POD },
		{ "a container's own groups", "0::/docker/" ID "/kubepods/pod" POD "/" OTHER, ID },
		{ "a pod's own groups", "0::/kubepods/pod" POD "/" ID "/docker/" OTHER, POD },
		{ "unit", "0::/system.slice/nginx.service", "nginx.service" },
		{ "a unit's own groups", "0::/system.slice/a.service/b.service", "a.service" },
		{ "session", "0::/user.slice/user-1000.slice/session-3.scope", "user-1000.slice" },
		{ "a user's unit",
		  "0::/user.slice/user-1000.slice/user@1000.service/app.slice/nginx.service",
		  "user-1000.slice" },
		{ "a user's container",
		  "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope",
		  "user-1000.slice" },
		{ "a user within a container",
		  "0::/docker/" ID "/user.slice/user-1000.slice/session-3.scope", ID },
		{ "no user's number", "0::/user-.slice/user-1a.slice/a.service", "a.service" },
		{ "none", "0::/", "" },
	};

	for EACH (row, rows) {
		struct cgroup cgroup;

		cgroup_parse(row->text, strlen(row->text), &cgroup);
		EXPECT_STR(row->payer, cgroup.payer, row->what);
	}
}

TEST(survives_random_bytes)
{
	char text[512];
	struct cgroup cgroup;

	srand(1);
	for (int round = 0; round < 20000; round++) {
		size_t size = rand() % sizeof(text);
		for (size_t i = 0; i < size; i++)
			text[i] = "/:\n.0af-servicop"[rand() % 16];
		cgroup_parse(text, size, &cgroup);
	}
}

RUN_TESTS(cmocka_unit_test(finds_containers_and_units), cmocka_unit_test(finds_pods_by_uid),
	  cmocka_unit_test(takes_no_pod_from_groups_within_others),
	  cmocka_unit_test(the_outermost_pod_container_or_user_pays),
	  cmocka_unit_test(survives_random_bytes))
