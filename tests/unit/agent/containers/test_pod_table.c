// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/pod_table.h"

#include <errno.h>

#include "agent/containers/pod_json.h"
#include "base/clock.h"
#include "tests/test.h"
#include "tests/unit/agent/containers/pods_json.h"

static const struct pod_selection nothing;

static struct pod *pod_from(const char *text)
{
	struct pod *pod = NULL;

	assert_int_equal(0, pod_json_read(text, strlen(text), &nothing, &pod));
	return pod;
}

static void put(struct pod_table *table, const char *text)
{
	pod_table_put(table, pod_from(text));
}

static int look_up(struct pod_table *table, const char *uid, const char *container)
{
	struct pod_match match;
	int rc = pod_table_find(table, uid, container, 0, &match);

	if (!rc)
		pod_match_deinit(&match);
	return rc;
}

TEST(a_pod_describes_its_container)
{
	struct pod_table *table = pod_table_new();
	struct pod_match match;

	put(table, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	assert_int_equal(0, pod_table_find(table, POD_UID, WEB_ID, 0, &match));
	assert_string_equal("web", labels_get(&match.labels, "container"));
	assert_string_equal("1.2.3", labels_get(&match.labels, "version"));
	assert_string_equal("shop", labels_get(&match.labels, "namespace"));
	assert_string_equal("web", match.service);
	assert_true(match.has_container);
	pod_match_deinit(&match);

	assert_int_equal(0, pod_table_find(table, POD_UID, PAUSE_ID, 0, &match));
	assert_false(match.has_container);
	assert_null(labels_get(&match.labels, "container"));
	assert_string_equal("shop", labels_get(&match.labels, "namespace"));
	pod_match_deinit(&match);

	assert_int_equal(0, look_up(table, "", PROXY_ID)); // a path without the pod
	assert_int_equal(-ENOENT, look_up(table, "", PAUSE_ID));
	assert_int_equal(-ENOENT, look_up(table, "", ""));
	assert_int_equal(-ENOENT, look_up(table, OTHER_POD_UID, ""));
	pod_table_free(table);
}

TEST(a_pod_without_owner_is_its_container)
{
	struct pod_table *table = pod_table_new();
	struct pod_match match;

	put(table,
	    "{\"metadata\":{\"uid\":\"" POD_UID "\",\"name\":\"p\"},\"spec\":{\"containers\":["
	    "{\"name\":\"c\"}]},\"status\":{\"containerStatuses\":[" STATUS_JSON("c",
										 WEB_ID) "]}}");
	assert_int_equal(0, pod_table_find(table, POD_UID, WEB_ID, 0, &match));
	assert_string_equal("c", match.service);
	pod_match_deinit(&match);
	assert_int_equal(0, pod_table_find(table, POD_UID, PAUSE_ID, 0, &match));
	assert_null(match.service);
	pod_match_deinit(&match);
	pod_table_free(table);
}

TEST(the_version_changes_with_what_names_processes)
{
	struct pod_table *table = pod_table_new();
	uint64_t version = pod_table_version(table);
	struct pod_match match;

	put(table, POD_JSON(POD_UID, "", "", ""));
	assert_true(pod_table_version(table) > version);
	version = pod_table_version(table);
	put(table, POD_JSON(POD_UID, "\"a\":\"b\",", "\"c\":\"d\"", "")); // nobody chose them
	assert_int_equal(version, pod_table_version(table));
	assert_int_equal(-EALREADY, pod_table_find(table, POD_UID, WEB_ID, version, &match));
	put(table, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	assert_true(pod_table_version(table) > version);
	assert_int_equal(0, pod_table_find(table, POD_UID, WEB_ID, version, &match));
	assert_true(match.version > version);
	pod_match_deinit(&match);
	pod_table_free(table);
}

static uint64_t pods_of(struct pod_table *table)
{
	struct pod_table_stats stats;

	pod_table_read_stats(table, &stats);
	return stats.pods;
}

TEST(a_deleted_pod_stays_for_late_samples)
{
	struct pod_table *table = pod_table_new();

	put(table, POD_JSON(POD_UID, "", "", BOTH_STATUSES));
	put(table, POD_JSON(OTHER_POD_UID, "", "", ""));
	assert_int_equal(2, pods_of(table));
	pod_table_remove(table, POD_UID);
	pod_table_remove(table, POD_UID);
	pod_table_remove(table, "unknown");
	assert_int_equal(1, pods_of(table));
	assert_int_equal(0, look_up(table, POD_UID, WEB_ID));
	put(table, POD_JSON(POD_UID, "", "", BOTH_STATUSES)); // it is back: an event was old
	assert_int_equal(2, pods_of(table));
	pod_table_free(table);
}

TEST(a_list_deletes_what_it_has_not)
{
	struct pod_table *table = pod_table_new();

	put(table, POD_JSON(POD_UID, "", "", ""));
	put(table, POD_JSON(OTHER_POD_UID, "", "", ""));
	pod_table_begin_list(table);
	put(table, POD_JSON(POD_UID, "", "", ""));
	assert_int_equal(2, pods_of(table)); // the list may still have it
	pod_table_end_list(table);
	assert_int_equal(1, pods_of(table));
	pod_table_free(table);
}

TEST(a_recreated_static_pod_replaces_the_former)
{
#define MIRROR(uid)                                                                          \
	"{\"metadata\":{\"name\":\"etcd-n1\",\"uid\":\"" uid "\",\"annotations\":{"          \
	"\"kubernetes.io/config.hash\":\"" STATIC_HASH "\"},\"ownerReferences\":[{\"kind\":" \
	"\"Node\",\"name\":\"n1\",\"controller\":true}]}}"
	struct pod_table *table = pod_table_new();

	put(table, MIRROR(POD_UID));
	put(table, MIRROR(OTHER_POD_UID));
	assert_int_equal(1, pods_of(table));
	pod_table_remove(table, POD_UID); // the event of the former comes late
	assert_int_equal(1, pods_of(table));
	assert_int_equal(0, look_up(table, STATIC_HASH, ""));
	pod_table_free(table);
}

static void put_number(struct pod_table *table, int number)
{
	char text[256];

	snprintf(text, sizeof(text), "{\"metadata\":{\"uid\":\"%032d\",\"name\":\"p%d\"}}", number,
		 number);
	put(table, text);
}

TEST(pods_are_bounded_and_deleted_ones_go_first)
{
	struct pod_table *table = pod_table_new();
	struct pod_table_stats stats;

	for (int i = 0; i < PODS_MAX; i++)
		put_number(table, i);
	assert_int_equal(PODS_MAX, pods_of(table));
	put_number(table, PODS_MAX);
	pod_table_read_stats(table, &stats);
	assert_int_equal(1, stats.dropped);
	assert_int_equal(PODS_MAX, stats.pods);
	pod_table_remove(table, "00000000000000000000000000000007");
	put_number(table, PODS_MAX + 1);
	pod_table_read_stats(table, &stats);
	assert_int_equal(1, stats.dropped);
	assert_int_equal(PODS_MAX, stats.pods);
	assert_int_equal(-ENOENT, look_up(table, "00000000000000000000000000000007", ""));
	assert_int_equal(0, look_up(table, "00000000000000000000000000000008", ""));
	pod_table_free(table);
}

RUN_TESTS(cmocka_unit_test(a_pod_describes_its_container),
	  cmocka_unit_test(a_pod_without_owner_is_its_container),
	  cmocka_unit_test(the_version_changes_with_what_names_processes),
	  cmocka_unit_test(a_deleted_pod_stays_for_late_samples),
	  cmocka_unit_test(a_list_deletes_what_it_has_not),
	  cmocka_unit_test(a_recreated_static_pod_replaces_the_former),
	  cmocka_unit_test(pods_are_bounded_and_deleted_ones_go_first))
