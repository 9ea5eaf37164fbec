// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/pod_json.h"

#include <errno.h>

#include "tests/test.h"
#include "tests/unit/agent/containers/pods_json.h"
#include "tests/unit/agent/relabel/rules_file.h"

static const struct pod_selection nothing;

static struct pod *read_with(const char *text, const struct pod_selection *selection)
{
	struct pod *pod = NULL;

	assert_int_equal(0, pod_json_read(text, strlen(text), selection, &pod));
	return pod;
}

TEST(a_pod_names_its_containers)
{
	struct pod *pod = read_with(POD_JSON(POD_UID, "", "", BOTH_STATUSES), &nothing);

	assert_string_equal(POD_UID, pod->uid);
	assert_string_equal(POD_UID, pod->cgroup_uid);
	assert_string_equal("shop", labels_get(&pod->labels, "namespace"));
	assert_string_equal("web-7d4b9c-x2x4z", labels_get(&pod->labels, "pod"));
	assert_string_equal("web", labels_get(&pod->labels, "workload"));
	assert_string_equal("deployment", labels_get(&pod->labels, "workload_kind"));
	assert_int_equal(4, pod->labels.count);
	assert_string_equal("web", pod->service);
	assert_int_equal(2, pod->container_count);
	const struct pod_container *web = pod_find_container(pod, WEB_ID);
	assert_string_equal("web", web->name);
	assert_string_equal("1.2.3", web->version);
	const struct pod_container *proxy = pod_find_container(pod, PROXY_ID);
	assert_string_equal("proxy", proxy->name);
	assert_string_equal("sha256:abcdef012345", proxy->version);
	assert_null(pod_find_container(pod, PAUSE_ID));
	assert_null(pod_find_container(pod, ""));
	pod_free(pod);
}

TEST(a_name_label_wins_over_the_workload)
{
	struct pod *pod = read_with(
		POD_JSON(POD_UID, "\"app.kubernetes.io/name\":\"storefront\",", "", ""), &nothing);

	assert_string_equal("storefront", pod->service);
	pod_free(pod);
}

TEST(only_chosen_labels_are_read)
{
	const struct pod_selection selection = { .label_patterns = "team,example.com/*,node",
						 .annotation_patterns = "tier" };
	struct pod *pod =
		read_with(POD_JSON(POD_UID,
				   "\"team\":\"core\",\"example.com/"
				   "x\":\"1\",\"node\":\"forged\",\"a\":\"b\",",
				   "\"tier\":\"gold\",\"secret\":\"s\",\"team\":\"second\"", ""),
			  &selection);

	assert_string_equal("core", labels_get(&pod->labels, "team"));
	assert_string_equal("1", labels_get(&pod->labels, "example_com_x"));
	assert_string_equal("gold", labels_get(&pod->labels, "tier"));
	assert_null(labels_get(&pod->labels, "node")); // cairn's own
	assert_int_equal(4 + 3, pod->labels.count);
	pod_free(pod);
}

TEST(chosen_labels_are_few)
{
	const struct pod_selection selection = { .label_patterns = "*" };
	struct pod *pod = read_with(
		POD_JSON(POD_UID,
			 "\"a\":\"1\",\"b\":\"1\",\"c\":\"1\",\"d\":\"1\",\"e\":\"1\",\"f\":\"1\","
			 "\"g\":\"1\",\"h\":\"1\",\"i\":\"1\",\"j\":\"1\",",
			 "", ""),
		&selection);

	assert_int_equal(4 + POD_LABELS_MAX, pod->labels.count);
	pod_free(pod);
}

static const struct {
	const char *what, *text, *namespaces;
	bool excluded;
} exclusions[] = {
	{ "nobody says so", POD_JSON(POD_UID, "", "", ""), NULL, false },
	{ "its own word", POD_JSON(POD_UID, "", "\"cairn.dev/profile\":\"false\"", ""), NULL,
	  true },
	{ "its namespace's", POD_JSON(POD_UID, "", "", ""), "x,sho*", true },
	{ "another namespace's", POD_JSON(POD_UID, "", "", ""), "x,sh", false },
	{ "its own word first", POD_JSON(POD_UID, "", "\"cairn.dev/profile\":\"true\"", ""), "*",
	  false },
	{ "no word", POD_JSON(POD_UID, "", "\"cairn.dev/profile\":\"no\"", ""), NULL, false },
};

TEST(pods_are_excluded_by_annotation_or_namespace)
{
	for EACH (row, exclusions) {
		struct pod_selection selection = { .excluded_namespaces = row->namespaces };
		struct pod *pod = read_with(row->text, &selection);

		EXPECT_EQ(row->excluded, pod->is_excluded, row->what);
		pod_free(pod);
	}
}

#define STATIC_POD(kind, hash)                                                               \
	"{\"metadata\":{\"name\":\"etcd-n1\",\"uid\":\"" POD_UID "\",\"annotations\":{"      \
	"\"kubernetes.io/config.hash\":\"" hash "\"},\"ownerReferences\":[{\"kind\":\"" kind \
	"\",\"name\":\"n1\",\"controller\":true}]}}"

TEST(a_static_pod_has_another_uid_in_cgroups)
{
	static const struct {
		const char *what, *text, *uid;
	} rows[] = {
		{ "static", STATIC_POD("Node", STATIC_HASH), STATIC_HASH },
		{ "not a node's", STATIC_POD("DaemonSet", STATIC_HASH), POD_UID },
		{ "another pod's uid", STATIC_POD("Node", OTHER_POD_UID), POD_UID },
		{ "no hash", STATIC_POD("Node", "x"), POD_UID },
	};

	for EACH (row, rows) {
		struct pod *pod = read_with(row->text, &nothing);

		EXPECT_STR(row->uid, pod->cgroup_uid, row->what);
		pod_free(pod);
	}
}

static const struct {
	const char *what, *image, *version;
} images[] = {
	{ "tag", "web:1.2", "1.2" },
	{ "port and tag", "registry:5000/web:1.2", "1.2" },
	{ "port, no tag", "registry:5000/web", NULL },
	{ "tag and digest", "web:1.2@sha256:abcdef0123456789", "1.2" },
	{ "digest", "web@sha256:abcdef0123456789", "sha256:abcdef012345" },
	{ "neither", "web", NULL },
	{ "empty tag", "web:", NULL },
	{ "nothing", "", NULL },
};

TEST(the_version_is_the_image_tag)
{
	for EACH (row, images) {
		char text[512];

		snprintf(text, sizeof(text),
			 "{\"metadata\":{\"uid\":\"" POD_UID "\"},\"spec\":{\"containers\":["
			 "{\"name\":\"a\",\"image\":\"%s\"}]}}",
			 row->image);
		struct pod *pod = read_with(text, &nothing);
		EXPECT_EQ(1, pod->container_count, row->what);
		if (row->version)
			EXPECT_STR(row->version, pod->containers[0].version, row->what);
		else
			EXPECT_EQ(1, pod->containers[0].version == NULL, row->what);
		pod_free(pod);
	}
}

static const struct {
	const char *what, *text;
} hostile[] = {
	{ "no JSON", "{" },
	{ "no object", "[]" },
	{ "no metadata", "{}" },
	{ "metadata is a string", "{\"metadata\":\"x\"}" },
	{ "no uid", "{\"metadata\":{\"name\":\"a\"}}" },
	{ "a path for a uid",
	  "{\"metadata\":{\"uid\":\"../../../../../../etc/passwd/123456789a\"}}" },
	{ "a short uid", "{\"metadata\":{\"uid\":\"0b9f\"}}" },
	{ "a number for a uid", "{\"metadata\":{\"uid\":7}}" },
};

TEST(refuses_what_is_no_pod)
{
	for EACH (row, hostile) {
		struct pod *pod;

		EXPECT_EQ(-EBADMSG, pod_json_read(row->text, strlen(row->text), &nothing, &pod),
			  row->what);
	}
}

TEST(members_of_other_types_are_left_out)
{
	struct pod *pod = read_with(
		"{\"metadata\":{\"uid\":\"" POD_UID
		"\",\"name\":[],\"namespace\":{},\"labels\":[1],"
		"\"annotations\":\"x\",\"ownerReferences\":{\"kind\":1}},\"spec\":{\"containers\":"
		"[1,\"a\",{\"name\":2},{\"name\":\"ok\",\"image\":[]},{\"name\":\"ok\"}]},"
		"\"status\":"
		"{\"containerStatuses\":[{\"name\":\"ok\",\"containerID\":\"docker://../x\"},{}]}}",
		&nothing);

	assert_int_equal(0, pod->labels.count);
	assert_int_equal(1, pod->container_count);
	assert_string_equal("", pod->containers[0].id);
	assert_null(pod->service);
	pod_free(pod);
}

TEST(control_characters_become_question_marks)
{
	struct pod *pod =
		read_with("{\"metadata\":{\"uid\":\"" POD_UID "\",\"name\":\"a\\nb\"}}", &nothing);

	assert_string_equal("a?b", labels_get(&pod->labels, "pod"));
	pod_free(pod);
}

TEST(memory_of_one_object_is_bounded)
{
	enum { BYTES = 1 << 20 };
	char *text = malloc(BYTES + 64);
	struct pod *pod;

	size_t size = (size_t)sprintf(text, "{\"metadata\":{\"uid\":\"" POD_UID "\"},\"x\":[");
	while (size < BYTES)
		size += (size_t)sprintf(text + size, "[],");
	size += (size_t)sprintf(text + size, "1]}");
	assert_int_equal(-EBADMSG, pod_json_read(text, size, &nothing, &pod));
	free(text);
	// What was used of the bound has been given back.
	pod_free(read_with(POD_JSON(POD_UID, "", "", ""), &nothing));
}

#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}"

TEST(events_say_what_became_of_a_pod)
{
	static const struct {
		const char *what, *text;
		int rc;
		enum pod_event_kind kind;
		const char *version;
		long status;
	} rows[] = {
		{ "added", EVENT("ADDED", POD_JSON(POD_UID, "", "", "")), 0, POD_CHANGED, "4711",
		  0 },
		{ "modified", EVENT("MODIFIED", POD_JSON(POD_UID, "", "", "")), 0, POD_CHANGED,
		  "4711", 0 },
		{ "deleted", EVENT("DELETED", POD_JSON(POD_UID, "", "", "")), 0, POD_DELETED,
		  "4711", 0 },
		{ "bookmark", EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"9\"}}"), 0,
		  POD_BOOKMARK, "9", 0 },
		{ "error", EVENT("ERROR", "{\"kind\":\"Status\",\"code\":410}"), 0, POD_ERROR, "",
		  410 },
		{ "no pod", EVENT("ADDED", "{\"metadata\":{\"resourceVersion\":\"9\"}}"), -EBADMSG,
		  POD_CHANGED, "9", 0 },
		{ "a version that is an address",
		  EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"9&x=/..\"}}"), 0,
		  POD_BOOKMARK, "", 0 },
		{ "unknown", EVENT("RENAMED", "{}"), -EBADMSG, POD_CHANGED, "", 0 },
		{ "no event", "[1]", -EBADMSG, POD_CHANGED, "", 0 },
	};

	for EACH (row, rows) {
		struct pod_event event = { 0 };

		EXPECT_EQ(row->rc,
			  pod_json_read_event(row->text, strlen(row->text), &nothing, &event),
			  row->what);
		EXPECT_EQ(row->kind, event.kind, row->what);
		EXPECT_STR(row->version, event.version, row->what);
		EXPECT_EQ(row->status, event.status, row->what);
		EXPECT_EQ(!row->rc && row->kind == POD_CHANGED, event.pod != NULL, row->what);
		if (row->kind == POD_DELETED)
			EXPECT_STR(POD_UID, event.uid, row->what);
		pod_free(event.pod);
	}
}

TEST(reads_list_version_and_next_page)
{
	static const char text[] = "{\"resourceVersion\":\"12\",\"continue\":\"eyJ2IjoibWV0YSJ9\"}";
	static const char bad[] = "{\"resourceVersion\":12,\"continue\":\"a b\"}";
	struct pod_list_metadata metadata;

	assert_int_equal(0, pod_json_read_metadata(text, strlen(text), &metadata));
	assert_string_equal("12", metadata.version);
	assert_string_equal("eyJ2IjoibWV0YSJ9", metadata.next_page);
	assert_int_equal(0, pod_json_read_metadata(bad, strlen(bad), &metadata));
	assert_string_equal("", metadata.version);
	assert_string_equal("", metadata.next_page);
}

static const char *meta_of(const struct meta_labels *meta, const char *wanted)
{
	const char *name, *value;
	size_t at = 0;

	while (meta_labels_next(meta, &at, &name, &value))
		if (strcmp(name, wanted) == 0)
			return value;
	return "(none)";
}

TEST(what_rules_read_has_prometheus_names)
{
	static const struct {
		const char *name, *value;
		bool is_containers;
	} rows[] = {
		{ "__meta_kubernetes_namespace", "shop", false },
		{ "__meta_kubernetes_pod_name", "web-7d4b9c-x2x4z", false },
		{ "__meta_kubernetes_pod_uid", POD_UID, false },
		{ "__meta_kubernetes_pod_controller_kind", "ReplicaSet", false },
		{ "__meta_kubernetes_pod_controller_name", "web-7d4b9c", false },
		{ "__meta_kubernetes_pod_node_name", "n1", false },
		{ "__meta_kubernetes_node_name", "n1", false },
		{ "__meta_kubernetes_pod_label_example_com_team", "core", false },
		{ "__meta_kubernetes_pod_labelpresent_example_com_team", "true", false },
		{ "__meta_kubernetes_pod_annotation_tier", "gold?", false },
		{ "__meta_kubernetes_pod_annotationpresent_tier", "true", false },
		{ "__meta_kubernetes_pod_container_name", "web", true },
		{ "__meta_kubernetes_pod_container_id", WEB_ID, true },
		{ "__meta_kubernetes_pod_container_image", "registry:5000/shop/web:1.2.3", true },
	};
	struct pod_selection selection = { 0 };
	struct relabel_rules *rules = NULL;

	assert_int_equal(0, read_rules("- {action: labelmap, regex: __meta_(.+)}", &rules, NULL));
	selection.rules = rules;
	struct pod *pod = read_with(POD_JSON(POD_UID, "\"example.com/team\":\"core\",",
					     "\"tier\":\"gold\\n\",\"number\":7", BOTH_STATUSES),
				    &selection);
	for EACH (row, rows)
		EXPECT_STR(row->value,
			   meta_of(row->is_containers ? &pod->containers[0].meta : &pod->meta,
				   row->name),
			   row->name);
	EXPECT_STR("(none)", meta_of(&pod->meta, "__meta_kubernetes_pod_annotation_number"),
		   "a number");
	pod_free(pod);
	relabel_rules_free(rules);
}

static const struct {
	const char *what, *labels, *patterns;
	const char *label, *value;
} nodes[] = {
	{ "zone", "\"topology.kubernetes.io/zone\":\"eu-1a\"", "topology.kubernetes.io/*", "zone",
	  "eu-1a" },
	{ "region", "\"topology.kubernetes.io/region\":\"eu-1\"", "topology.kubernetes.io/region",
	  "region", "eu-1" },
	{ "instance type", "\"node.kubernetes.io/instance-type\":\"p5\"", "*", "instance_type",
	  "p5" },
	{ "GPU", "\"nvidia.com/gpu.product\":\"NVIDIA-H100\"", "nvidia.com/gpu.product",
	  "gpu_model", "NVIDIA-H100" },
	{ "another", "\"pool.example.com/name\":\"batch\"", "pool.example.com/name",
	  "pool_example_com_name", "batch" },
	{ "not chosen", "\"topology.kubernetes.io/zone\":\"eu-1a\"",
	  "topology.kubernetes.io/region", "zone", NULL },
	{ "cairn's own", "\"node\":\"forged\"", "*", "node", NULL },
	{ "another's GPU label", "\"gpu_model\":\"x\"", "*", "gpu_model", NULL },
	{ "a number", "\"rack\":7", "*", "rack", NULL },
	{ "control characters", "\"rack\":\"a\\u001bb\"", "*", "rack", "a?b" },
};

TEST(a_node_has_labels_of_short_names)
{
	for EACH (row, nodes) {
		struct labels labels = { 0 };
		char text[256];

		snprintf(text, sizeof(text), "{\"kind\":\"Node\",\"metadata\":{\"labels\":{%s}}}",
			 row->labels);
		EXPECT_EQ(0, pod_json_read_node(text, strlen(text), row->patterns, &labels),
			  row->what);
		const char *value = labels_get(&labels, row->label);
		EXPECT_STR(row->value ? row->value : "(none)", value ? value : "(none)", row->what);
		labels_deinit(&labels);
	}
}

TEST(refuses_what_is_no_node)
{
	static const char *const bad[] = { "", "[]", "{}", "{\"metadata\":7}", "{\"metadata\":{" };
	struct labels labels = { 0 };

	for EACH (text, bad)
		EXPECT_EQ(-EBADMSG, pod_json_read_node(*text, strlen(*text), "*", &labels), *text);
	assert_int_equal(0, pod_json_read_node("{\"metadata\":{\"labels\":[]}}", 26, "*", &labels));
	assert_int_equal(0, labels.count);
}

TEST(a_nodes_chosen_labels_are_few)
{
	struct labels labels = { 0 };
	char text[1024] = "{\"metadata\":{\"labels\":{\"a\":\"b\"";

	for (int i = 0; i < 20; i++)
		sprintf(text + strlen(text), ",\"l%d\":\"x\"", i);
	strcat(text, "}}}");
	assert_int_equal(0, pod_json_read_node(text, strlen(text), "*", &labels));
	assert_int_equal(NODE_LABELS_MAX, labels.count);
	labels_deinit(&labels);
}

RUN_TESTS(cmocka_unit_test(a_pod_names_its_containers),
	  cmocka_unit_test(a_name_label_wins_over_the_workload),
	  cmocka_unit_test(only_chosen_labels_are_read), cmocka_unit_test(chosen_labels_are_few),
	  cmocka_unit_test(pods_are_excluded_by_annotation_or_namespace),
	  cmocka_unit_test(a_static_pod_has_another_uid_in_cgroups),
	  cmocka_unit_test(the_version_is_the_image_tag), cmocka_unit_test(refuses_what_is_no_pod),
	  cmocka_unit_test(members_of_other_types_are_left_out),
	  cmocka_unit_test(control_characters_become_question_marks),
	  cmocka_unit_test(memory_of_one_object_is_bounded),
	  cmocka_unit_test(events_say_what_became_of_a_pod),
	  cmocka_unit_test(reads_list_version_and_next_page),
	  cmocka_unit_test(what_rules_read_has_prometheus_names),
	  cmocka_unit_test(a_node_has_labels_of_short_names),
	  cmocka_unit_test(refuses_what_is_no_node),
	  cmocka_unit_test(a_nodes_chosen_labels_are_few))
