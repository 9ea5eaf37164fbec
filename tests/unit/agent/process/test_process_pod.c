// SPDX-License-Identifier: Apache-2.0
// Labels of a process before and after its pod is known.
// Subject: agent/process/process_entry.h
#include "agent/process/process_entry.h"

#include <stdlib.h>

#include "agent/containers/pod_json.h"
#include "base/clock.h"
#include "tests/test.h"
#include "tests/unit/agent/containers/pods_json.h"
#include "tests/unit/agent/relabel/rules_file.h"

static const struct pod_selection nothing;

static void put(struct pod_table *pods, const char *text)
{
	struct pod *pod = NULL;

	assert_int_equal(0, pod_json_read(text, strlen(text), &nothing, &pod));
	pod_table_put(pods, pod);
}

struct fixture {
	struct process_context context;
	struct process_entry *entry;
};

/* A process of this executable in a container of POD_UID. */
static void begin(struct fixture *fixture, const char *service, bool own_service,
		  const char *container)
{
	struct cgroup cgroup = { .pod_uid = POD_UID };
	struct label_set *set = calloc(1, sizeof(*set));

	*fixture = (struct fixture){ .context.pods = pod_table_new(),
				     .entry = calloc(1, sizeof(struct process_entry)) };
	snprintf(cgroup.container, sizeof(cgroup.container), "%s", container);
	set->holders = 1;
	set->own_service = own_service;
	assert_int_equal(0, labels_set(&set->labels, "service", service));
	assert_int_equal(0, labels_set(&set->labels, "container", container));
	assert_int_equal(0, labels_set(&set->labels, "node", "n1"));
	assert_int_equal(0, label_set_place(set, &cgroup, clock_monotonic_ns(), &fixture->context));
	process_entry_use_labels(fixture->entry, set);
}

static void finish(struct fixture *fixture)
{
	process_entry_free(fixture->entry);
	pod_table_free(fixture->context.pods);
	labels_deinit(&fixture->context.extra_labels);
}

static const char *label(const struct fixture *fixture, const char *name)
{
	const char *value = labels_get(&fixture->entry->process.labels, name);

	return value ? value : "";
}

static bool awaits(const struct fixture *fixture)
{
	return process_awaits_pod(&fixture->entry->process, clock_monotonic_ns());
}

static void find(struct fixture *fixture)
{
	struct label_set *exported = fixture->entry->was_exported ? fixture->entry->labels : NULL;

	if (exported)
		exported->holders++;
	process_entry_find_pod(fixture->entry, exported, &fixture->context);
	label_set_release(exported);
}

TEST(a_process_waits_until_its_container_is_known)
{
	struct fixture fixture;

	begin(&fixture, "python3", false, WEB_ID);
	find(&fixture);
	assert_true(awaits(&fixture));
	assert_string_equal(WEB_ID, label(&fixture, "container"));
	put(fixture.context.pods, POD_JSON(POD_UID, "", "", "")); // no container has an id yet
	find(&fixture);
	assert_true(awaits(&fixture));
	assert_string_equal("shop", label(&fixture, "namespace"));
	put(fixture.context.pods, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	find(&fixture);
	assert_false(awaits(&fixture));
	assert_string_equal("web", label(&fixture, "container"));
	assert_string_equal(WEB_ID, label(&fixture, "container_id"));
	assert_string_equal("web", label(&fixture, "service"));
	assert_string_equal("1.2.3", label(&fixture, "version"));
	assert_string_equal("web-7d4b9c-x2x4z", label(&fixture, "pod"));
	assert_string_equal("n1", label(&fixture, "node"));
	assert_int_equal(0, fixture.context.pods_late);
	finish(&fixture);
}

TEST(the_wait_is_bounded)
{
	struct fixture fixture;

	begin(&fixture, "python3", false, WEB_ID);
	assert_true(process_awaits_pod(&fixture.entry->process, clock_monotonic_ns()));
	assert_false(process_awaits_pod(&fixture.entry->process,
					clock_monotonic_ns() + 11 * NS_PER_SECOND));
	finish(&fixture);
}

TEST(counts_series_that_change_after_they_were_shipped)
{
	struct fixture fixture;

	begin(&fixture, "python3", false, WEB_ID);
	put(fixture.context.pods, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	fixture.entry->was_exported = true;
	find(&fixture);
	assert_int_equal(1, fixture.context.pods_late);
	put(fixture.context.pods, POD_JSON(OTHER_POD_UID, "", "", ""));
	find(&fixture); // another pod's
	assert_int_equal(1, fixture.context.pods_late);
	finish(&fixture);
}

TEST(a_deleted_pod_leaves_its_labels)
{
	struct fixture fixture;

	begin(&fixture, "python3", false, WEB_ID);
	put(fixture.context.pods, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	find(&fixture);
	pod_table_begin_list(fixture.context.pods);
	pod_table_end_list(fixture.context.pods);
	put(fixture.context.pods, POD_JSON(OTHER_POD_UID, "", "", ""));
	find(&fixture);
	assert_string_equal("web", label(&fixture, "service"));
	finish(&fixture);
}

TEST(a_process_names_its_own_service)
{
	struct fixture fixture;

	begin(&fixture, "llm", true, WEB_ID);
	put(fixture.context.pods, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	find(&fixture);
	assert_string_equal("llm", label(&fixture, "service"));
	assert_string_equal("web", label(&fixture, "workload"));
	finish(&fixture);
}

TEST(the_operator_has_the_last_word)
{
	struct fixture fixture;

	begin(&fixture, "python3", false, WEB_ID);
	assert_int_equal(0, labels_set(&fixture.context.extra_labels, "namespace", "mine"));
	put(fixture.context.pods, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	find(&fixture);
	assert_string_equal("mine", label(&fixture, "namespace"));
	finish(&fixture);
}

TEST(a_pause_process_is_its_pods)
{
	struct fixture fixture;

	begin(&fixture, "pause", false, PAUSE_ID);
	put(fixture.context.pods, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	find(&fixture);
	assert_false(awaits(&fixture)); // no list will ever have it
	assert_string_equal("pause", label(&fixture, "container"));
	assert_string_equal(PAUSE_ID, label(&fixture, "container_id"));
	assert_string_equal("web", label(&fixture, "service"));
	finish(&fixture);
}

TEST(an_excluded_pod_excludes_its_processes)
{
	struct fixture fixture;

	begin(&fixture, "python3", false, WEB_ID);
	put(fixture.context.pods,
	    POD_JSON(POD_UID, "", "\"cairn.dev/profile\":\"false\"", BOTH_STATUSES));
	find(&fixture);
	assert_true(fixture.entry->process.is_excluded);
	put(fixture.context.pods, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	find(&fixture);
	assert_false(fixture.entry->process.is_excluded);
	finish(&fixture);
}

TEST(a_forked_child_is_in_its_parents_pod)
{
	struct process_entry *child = calloc(1, sizeof(*child));
	struct fixture fixture;

	begin(&fixture, "python3", false, WEB_ID);
	process_entry_inherit(child, fixture.entry);
	put(fixture.context.pods, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	find(&fixture);
	process_entry_find_pod(child, NULL, &fixture.context);
	assert_string_equal("web", labels_get(&child->process.labels, "service"));
	process_entry_free(child);
	finish(&fixture);
}

TEST(replaced_program_keeps_pod)
{
	struct label_set *set = calloc(1, sizeof(*set));
	struct fixture fixture;

	begin(&fixture, "sh", false, WEB_ID);
	set->holders = 1;
	assert_int_equal(0, labels_set(&set->labels, "service", "curl"));
	assert_int_equal(0, label_set_place_as(set, fixture.entry->labels, &fixture.context));
	process_entry_use_labels(fixture.entry, set);
	assert_true(awaits(&fixture));
	put(fixture.context.pods, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	find(&fixture);
	assert_string_equal("web", label(&fixture, "service"));
	finish(&fixture);
}

/* ---- the node ------------------------------------------------------------------------------- */

static void put_node(struct pod_table *pods, const char *zone)
{
	struct labels labels = { 0 };

	assert_int_equal(0, labels_set(&labels, "zone", zone));
	pod_table_put_node(pods, &labels);
	assert_int_equal(0, labels.count);
}

TEST(process_outside_pods_waits_for_node)
{
	struct cgroup cgroup = { .unit = "nginx.service" };
	struct label_set *set = calloc(1, sizeof(*set));
	struct fixture fixture;

	begin(&fixture, "python3", false, WEB_ID);
	pod_table_await_node(fixture.context.pods);
	set->holders = 1;
	assert_int_equal(0, labels_set(&set->labels, "service", "nginx"));
	assert_int_equal(0, labels_set(&set->labels, "zone", "its own word"));
	assert_int_equal(0, label_set_place(set, &cgroup, clock_monotonic_ns(), &fixture.context));
	process_entry_use_labels(fixture.entry, set);
	find(&fixture);
	assert_true(awaits(&fixture));
	put_node(fixture.context.pods, "eu-1a");
	find(&fixture);
	assert_false(awaits(&fixture));
	assert_string_equal("eu-1a", label(&fixture, "zone"));
	assert_string_equal("nginx", label(&fixture, "service"));
	assert_int_equal(0, labels_set(&fixture.context.extra_labels, "zone", "mine"));
	put_node(fixture.context.pods, "eu-1b");
	find(&fixture);
	assert_string_equal("mine", label(&fixture, "zone"));
	finish(&fixture);
}

TEST(pod_and_node_in_any_order)
{
	for (int node_first = 0; node_first < 2; node_first++) {
		struct fixture fixture;

		begin(&fixture, "python3", false, WEB_ID);
		if (node_first)
			put_node(fixture.context.pods, "eu-1a");
		find(&fixture);
		put(fixture.context.pods, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
		find(&fixture);
		if (!node_first)
			put_node(fixture.context.pods, "eu-1a");
		find(&fixture);
		EXPECT_STR("eu-1a", label(&fixture, "zone"),
			   node_first ? "node first" : "pod first");
		EXPECT_STR("web", label(&fixture, "service"),
			   node_first ? "node first" : "pod first");
		finish(&fixture);
	}
}

/* ---- relabel rules -------------------------------------------------------------------------- */

static void use_rules(struct fixture *fixture, const char *text)
{
	struct relabel_rules *rules = NULL;
	struct error err = { 0 };

	if (read_rules(text, &rules, &err))
		fail_msg("%s", err.text);
	fixture->context.rules = rules;
}

static void put_for_rules(struct fixture *fixture, const char *text)
{
	const struct pod_selection selection = { .rules = fixture->context.rules };
	struct pod *pod = NULL;

	assert_int_equal(0, pod_json_read(text, strlen(text), &selection, &pod));
	pod_table_put(fixture->context.pods, pod);
}

static void finish_with_rules(struct fixture *fixture)
{
	relabel_rules_free((struct relabel_rules *)fixture->context.rules);
	finish(fixture);
}

/* As detect_labels() leaves a new process. */
static void detect(struct fixture *fixture)
{
	struct label_set *set = fixture->entry->labels;

	assert_int_equal(0, labels_copy(&set->labels, &set->detected));
	assert_int_equal(0, label_set_relabel(set, NULL, &fixture->context));
	set->holders++;
	process_entry_use_labels(fixture->entry, set);
	process_entry_apply_drop(fixture->entry, &fixture->context);
}

static void find_and_drop(struct fixture *fixture)
{
	find(fixture);
	process_entry_apply_drop(fixture->entry, &fixture->context);
}

TEST(rules_see_the_pod_when_it_is_known)
{
	struct fixture fixture;

	begin(&fixture, "python3", true, WEB_ID);
	labels_deinit(&fixture.entry->labels->detected);
	use_rules(&fixture,
		  "- {source_labels: [namespace, __meta_kubernetes_pod_label_team], "
		  "separator: /, regex: '(.+)/(.+)', target_label: service, replacement: '$1/$2'}\n"
		  "- {source_labels: [service], regex: '(.*)', target_label: seen, "
		  "replacement: '$1!'}");
	detect(&fixture);
	assert_string_equal("python3", label(&fixture, "service"));
	assert_string_equal("python3!", label(&fixture, "seen"));
	put_for_rules(&fixture, POD_JSON(POD_UID, "\"team\":\"core\",", "", BOTH_STATUSES));
	find(&fixture);
	assert_string_equal("shop/core",
			    label(&fixture, "service")); // it wins over OTEL_SERVICE_NAME
	assert_string_equal("shop/core!", label(&fixture, "seen")); // and is not applied twice
	assert_string_equal("", label(&fixture, "__meta_kubernetes_pod_label_team"));
	finish_with_rules(&fixture);
}

TEST(namespace_rule_waits_for_pod)
{
	static const struct {
		const char *namespace;
		bool is_excluded;
	} rows[] = { { "shop", false }, { "other", true } };

	for EACH (row, rows) {
		struct fixture fixture;
		char rules[128];

		begin(&fixture, "python3", false, WEB_ID);
		labels_deinit(&fixture.entry->labels->detected);
		snprintf(rules, sizeof(rules),
			 "- {source_labels: [namespace], regex: %s, action: keep}", row->namespace);
		use_rules(&fixture, rules);
		detect(&fixture);
		EXPECT_EQ(false, fixture.entry->process.is_excluded, row->namespace);
		EXPECT_EQ(true, awaits(&fixture), row->namespace);
		put_for_rules(&fixture, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
		find_and_drop(&fixture);
		EXPECT_EQ(row->is_excluded, fixture.entry->process.is_excluded, row->namespace);
		finish_with_rules(&fixture);
	}
}

TEST(a_rule_drops_what_its_pod_never_explains)
{
	struct fixture fixture;

	begin(&fixture, "python3", false, WEB_ID);
	labels_deinit(&fixture.entry->labels->detected);
	use_rules(&fixture, "- {source_labels: [namespace], regex: shop, action: keep}");
	fixture.entry->labels->wait_ns = 1; // long ago
	detect(&fixture);
	assert_true(fixture.entry->process.is_excluded);
	finish_with_rules(&fixture);
}

TEST(what_no_rule_reads_is_not_kept)
{
	static const char text[] =
		POD_JSON(POD_UID, "\"team\":\"core\",\"tier\":\"gold\",", "", BOTH_STATUSES);
	struct pod_selection selection = { 0 };
	struct relabel_rules *rules = NULL;
	struct pod *pod = NULL;

	assert_int_equal(0, read_rules("- {source_labels: [__meta_kubernetes_pod_label_tier], "
				       "target_label: tier}",
				       &rules, NULL));
	selection.rules = rules;
	assert_int_equal(0, pod_json_read(text, strlen(text), &selection, &pod));
	assert_int_equal(1, pod->meta.count);
	assert_int_equal(0, pod->containers[0].meta.count);
	pod_free(pod);
	relabel_rules_free(rules);
}

TEST(labels_that_are_detected_again_are_not_late)
{
	struct fixture fixture;

	begin(&fixture, "python3", false, WEB_ID);
	put(fixture.context.pods, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	find(&fixture);
	struct label_set *exported = fixture.entry->labels;
	struct label_set *again = calloc(1, sizeof(*again));

	exported->holders++;
	again->holders = 1;
	assert_int_equal(0, labels_set(&exported->detected, "process", "renamed"));
	assert_int_equal(0, labels_copy(&exported->detected, &again->labels));
	assert_int_equal(0, label_set_place_as(again, exported, &fixture.context));
	process_entry_use_labels(fixture.entry, again);
	process_entry_find_pod(fixture.entry, exported, &fixture.context);
	assert_string_equal("web", label(&fixture, "service"));
	assert_int_equal(0, fixture.context.pods_late);
	label_set_release(exported);
	finish(&fixture);
}

TEST(gone_program_keeps_container)
{
	struct process_entry *entry = calloc(1, sizeof(*entry));
	struct label_set *former = calloc(1, sizeof(*former));
	struct process_context context = { 0 };
	char folder[] = "/tmp/cairn-docker-XXXXXX", path[256];
	const struct container_folders folders = { .docker = folder };

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "mkdir -p %s/containers/" WEB_ID, folder);
	assert_int_equal(0, system(path));
	snprintf(path, sizeof(path), "%s/containers/" WEB_ID "/config.v2.json", folder);
	FILE *file = fopen(path, "w");

	fputs("{\"ID\":\"" WEB_ID "\",\"Name\":\"/web\",\"Config\":{}}", file);
	fclose(file);
	context.containers = container_records_new(&folders, NULL);
	former->holders = 1;
	strcpy(former->container, WEB_ID);
	entry->former_labels = former;
	entry->gone = true;
	strcpy(entry->process.name, "exe");
	assert_int_equal(0, process_entry_describe(entry, NULL, &context));
	assert_string_equal("web", labels_get(&entry->process.labels, "service"));
	assert_string_equal("web", labels_get(&entry->process.labels, "container"));
	process_entry_free(entry);
	container_records_free(context.containers);
	snprintf(path, sizeof(path), "rm -r %s", folder);
	assert_int_equal(0, system(path));
}

RUN_TESTS(cmocka_unit_test(a_process_waits_until_its_container_is_known),
	  cmocka_unit_test(the_wait_is_bounded),
	  cmocka_unit_test(counts_series_that_change_after_they_were_shipped),
	  cmocka_unit_test(a_deleted_pod_leaves_its_labels),
	  cmocka_unit_test(a_process_names_its_own_service),
	  cmocka_unit_test(the_operator_has_the_last_word),
	  cmocka_unit_test(a_pause_process_is_its_pods),
	  cmocka_unit_test(an_excluded_pod_excludes_its_processes),
	  cmocka_unit_test(a_forked_child_is_in_its_parents_pod),
	  cmocka_unit_test(replaced_program_keeps_pod),
	  cmocka_unit_test(process_outside_pods_waits_for_node),
	  cmocka_unit_test(pod_and_node_in_any_order),
	  cmocka_unit_test(rules_see_the_pod_when_it_is_known),
	  cmocka_unit_test(namespace_rule_waits_for_pod),
	  cmocka_unit_test(a_rule_drops_what_its_pod_never_explains),
	  cmocka_unit_test(what_no_rule_reads_is_not_kept),
	  cmocka_unit_test(labels_that_are_detected_again_are_not_late),
	  cmocka_unit_test(gone_program_keeps_container))
