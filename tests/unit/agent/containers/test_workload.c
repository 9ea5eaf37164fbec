// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/workload.h"

#include "tests/test.h"

static const struct {
	const char *what;
	struct pod_owner owner;
	const char *kind, *name; // NULL: none
} cases[] = {
	{ "deployment",
	  { "ReplicaSet", "shop-web-7d4b9c", "p", "7d4b9c" },
	  "deployment",
	  "shop-web" },
	{ "bare replica set", { "ReplicaSet", "shop", "p", "" }, "replicaset", "shop" },
	{ "another's hash", { "ReplicaSet", "shop-abc", "p", "def" }, "replicaset", "shop-abc" },
	{ "only a hash", { "ReplicaSet", "-7d4b9c", "p", "7d4b9c" }, "replicaset", "-7d4b9c" },
	{ "hash without dash",
	  { "ReplicaSet", "shop7d4b9c", "p", "7d4b9c" },
	  "replicaset",
	  "shop7d4b9c" },
	{ "stateful set", { "StatefulSet", "db", "db-0", "" }, "statefulset", "db" },
	{ "daemon set", { "DaemonSet", "cairn-agent", "p", "x" }, "daemonset", "cairn-agent" },
	{ "job", { "Job", "import", "import-x7", "" }, "job", "import" },
	{ "cron job", { "Job", "backup-29012345", "p", "" }, "cronjob", "backup" },
	{ "job with a short number", { "Job", "import-2024", "p", "" }, "job", "import-2024" },
	{ "job with a word", { "Job", "import-2901234x", "p", "" }, "job", "import-2901234x" },
	{ "static pod", { "Node", "n1", "kube-apiserver-n1", "" }, "static", "kube-apiserver" },
	{ "static pod of another name", { "Node", "n1", "etcd", "" }, "node", "n1" },
	{ "custom resource", { "Rollout.X", "shop", "p", "" }, "rollout_x", "shop" },
	{ "no owner", { "", "", "p", "" }, NULL, NULL },
	{ "no name", { "Job", "", "p", "" }, NULL, NULL },
};

TEST(an_owner_is_a_workload)
{
	for EACH (row, cases) {
		struct workload workload;
		bool found = workload_of(&row->owner, &workload);

		EXPECT_EQ(row->kind != NULL, found, row->what);
		if (!found)
			continue;
		EXPECT_STR(row->kind, workload.kind, row->what);
		EXPECT_STR(row->name, workload.name, row->what);
	}
}

RUN_TESTS(cmocka_unit_test(an_owner_is_a_workload))
