// SPDX-License-Identifier: Apache-2.0
// Any bytes as the API server's answers: a list or events, cut into parts anywhere. What comes of them goes into a pod
// table; every text of it is within its bounds.

#include <stdlib.h>
#include <string.h>

#include "agent/containers/json_parts.h"
#include "agent/containers/pod_json.h"
#include "agent/containers/pod_table.h"
#include "base/contract/label_names.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static const struct pod_selection selection = {
	.label_patterns = "*",
	.annotation_patterns = "*",
	.excluded_namespaces = "kube-*",
};

static void check(bool condition)
{
	if (!condition)
		abort();
}

static void check_pod(const struct pod *pod)
{
	static const char *const reserved[] = { LABEL_NODE, LABEL_TENANT, LABEL_SERVICE,
						LABEL_POD_UID };

	check(strlen(pod->uid) >= 32 && strlen(pod->cgroup_uid) >= 32);
	check(pod->container_count <= POD_CONTAINERS_MAX &&
	      pod->labels.count <= 4 + POD_LABELS_MAX);
	for (size_t i = 0; i < sizeof(reserved) / sizeof(*reserved); i++)
		check(!labels_get(&pod->labels, reserved[i]));
	check(!pod->service || utf8_is_valid(pod->service, strlen(pod->service)));
	for (uint32_t i = 0; i < pod->container_count; i++)
		check(pod->containers[i].name[0] &&
		      memchr(pod->containers[i].id, '\0', CONTAINER_ID_BYTES));
}

static void put(struct pod_table *table, struct pod *pod)
{
	char uid[POD_UID_BYTES];
	struct pod_match match;

	check_pod(pod);
	memcpy(uid, pod->cgroup_uid, sizeof(uid));
	pod_table_put(table, pod);
	check(pod_table_find(table, uid, "", 0, &match) == 0);
	check(match.labels.count <= LABELS_MAX);
	pod_match_deinit(&match);
}

static int on_part(void *context, enum json_part part, const char *text, size_t size)
{
	struct pod_list_metadata metadata;
	struct pod_event event = { 0 };
	struct pod *pod;

	if (part == JSON_PART_METADATA && pod_json_read_metadata(text, size, &metadata) == 0)
		check(!strpbrk(metadata.version, "&/? ") && !strpbrk(metadata.next_page, "&/? "));
	if (part == JSON_PART_ITEM && pod_json_read(text, size, &selection, &pod) == 0)
		put(context, pod);
	if (part != JSON_PART_EVENT)
		return 0;
	int rc = pod_json_read_event(text, size, &selection, &event);
	check(!strpbrk(event.version, "&/? "));
	check(!event.pod || !rc);
	if (event.pod)
		put(context, event.pod);
	if (event.kind == POD_DELETED)
		pod_table_remove(context, event.uid);
	return 0;
}

/* The first byte says which shape, the second where it is cut. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct pod_table *table = pod_table_new();
	struct json_parts parts;
	int rc = 0;

	check(table != NULL);
	if (size >= 2) {
		size_t step = 1U + bytes[1];

		json_parts_init(&parts, bytes[0] & 1 ? JSON_LIST : JSON_EVENTS);
		for (size_t at = 2; at < size && !rc; at += step)
			rc = json_parts_feed(&parts, (const char *)bytes + at,
					     size - at < step ? size - at : step, on_part, table);
		check(rc || parts.depth <= JSON_DEPTH_MAX);
		json_parts_deinit(&parts);
	}
	pod_table_free(table);
	return 0;
}
