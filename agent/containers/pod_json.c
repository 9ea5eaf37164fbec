// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/pod_json.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/containers/bounded_json.h"
#include "agent/containers/image_version.h"
#include "agent/containers/workload.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/label_patterns.h"
#include "base/text.h"
#include "base/utf8.h"

enum { VALUE_BYTES = 256 };

#define PROFILE_ANNOTATION     "cairn.dev/profile"
#define NAME_LABEL             "app.kubernetes.io/name"
#define STATIC_HASH_ANNOTATION "kubernetes.io/config.hash"

/* ---- containers ---------------------------------------------------------------------------- */

/* "containerd://ID", "cri-o://ID", "docker://ID". */
static void set_container_id(struct pod_container *container, const char *id)
{
	const char *begin = strstr(id, "://");
	size_t size = begin ? strspn(begin + 3, "0123456789abcdef-") : 0;

	if (size && size < sizeof(container->id) && !begin[3 + size])
		memcpy(container->id, begin + 3, size + 1);
}

static struct pod_container *find_by_name(struct pod *pod, const char *name)
{
	for (uint32_t i = 0; i < pod->container_count; i++)
		if (strcmp(pod->containers[i].name, name) == 0)
			return &pod->containers[i];
	return NULL;
}

static int add_container(struct pod *pod, const json_t *spec)
{
	char name[VALUE_BYTES], version[IMAGE_VERSION_BYTES];

	snprintf(name, sizeof(name), "%s", bounded_json_string(spec, "name"));
	utf8_clean(name);
	if (!name[0] || find_by_name(pod, name))
		return 0;
	struct pod_container *container = &pod->containers[pod->container_count];
	container->name = strdup(name);
	if (!container->name)
		return -ENOMEM;
	pod->container_count++;
	image_version(bounded_json_string(spec, "image"), version);
	if (version[0])
		container->version = strdup(version);
	return version[0] && !container->version ? -ENOMEM : 0;
}

/* Where a pod has containers, and what runs of them. */
static const char *const container_lists[][2] = {
	{ "containers", "containerStatuses" },
	{ "initContainers", "initContainerStatuses" },
	{ "ephemeralContainers", "ephemeralContainerStatuses" },
};

static size_t count_containers(const json_t *spec)
{
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(container_lists); i++)
		count += json_array_size(json_object_get(spec, container_lists[i][0]));
	return count < POD_CONTAINERS_MAX ? count : POD_CONTAINERS_MAX;
}

/* "" if no container of the pod has this name. */
static const char *image_of(const json_t *spec, const char *name)
{
	const json_t *container;
	size_t k;

	for (size_t i = 0; i < ARRAY_SIZE(container_lists); i++)
		json_array_foreach(
			json_object_get(spec, container_lists[i][0]), k,
			container) if (strcmp(bounded_json_string(container, "name"), name) ==
				       0) return bounded_json_string(container, "image");
	return "";
}

static int add_list(struct pod *pod, const json_t *containers, size_t count_max)
{
	const json_t *container;
	size_t i;
	int rc = 0;

	json_array_foreach(containers, i, container) if (!rc && pod->container_count < count_max)
		rc = add_container(pod, container);
	return rc;
}

static void add_ids(struct pod *pod, const json_t *statuses)
{
	const json_t *status;
	size_t i;

	json_array_foreach(statuses, i, status)
	{
		struct pod_container *container =
			find_by_name(pod, bounded_json_string(status, "name"));

		if (container)
			set_container_id(container, bounded_json_string(status, "containerID"));
	}
}

static int add_containers(struct pod *pod, const json_t *spec, const json_t *status)
{
	size_t count = count_containers(spec);
	int rc = array_allocate(&pod->containers, count, sizeof(*pod->containers));

	for (size_t i = 0; i < ARRAY_SIZE(container_lists) && !rc; i++) {
		rc = add_list(pod, json_object_get(spec, container_lists[i][0]), count);
		add_ids(pod, json_object_get(status, container_lists[i][1]));
	}
	return rc;
}

/* ---- labels -------------------------------------------------------------------------------- */

/* Only -ENOMEM is a failure: a value that cannot be a label is left out. */
static int set_label(struct labels *labels, const char *name, const char *value)
{
	char clean[VALUE_BYTES];

	snprintf(clean, sizeof(clean), "%s", value);
	utf8_clean(clean);
	return labels_set(labels, name, clean) == -ENOMEM ? -ENOMEM : 0;
}

/* Those of @values that match @patterns, unless cairn sets a label of that name itself. */
static int add_chosen(struct pod *pod, const json_t *values, const char *patterns, uint32_t *left)
{
	const char *key;
	json_t *value;
	int rc = 0;

	if (!patterns)
		return 0;
	json_object_foreach((json_t *)values, key, value)
	{
		char name[LABEL_NAME_BYTES_MAX];

		if (!*left || rc || !label_patterns_match(patterns, key))
			continue;
		snprintf(name, sizeof(name), "%s", key);
		label_name_from(name, sizeof(name));
		const char *text = json_string_value(value);
		if (label_is_reserved(name) || labels_get(&pod->labels, name) || !text)
			continue;
		rc = set_label(&pod->labels, name, text);
		--*left;
	}
	return rc;
}

static int add_labels(struct pod *pod, const json_t *metadata,
		      const struct pod_selection *selection)
{
	uint32_t left = POD_LABELS_MAX;
	int rc = set_label(&pod->labels, LABEL_NAMESPACE,
			   bounded_json_string(metadata, "namespace"));

	if (!rc)
		rc = set_label(&pod->labels, LABEL_POD, bounded_json_string(metadata, "name"));
	if (!rc)
		rc = add_chosen(pod, json_object_get(metadata, "labels"), selection->label_patterns,
				&left);
	if (!rc)
		rc = add_chosen(pod, json_object_get(metadata, "annotations"),
				selection->annotation_patterns, &left);
	return rc;
}

/* The owner that made it: at most one is the controller. */
static const json_t *controller_of(const json_t *metadata)
{
	const json_t *owner;
	size_t i;

	json_array_foreach(
		json_object_get(metadata, "ownerReferences"), i,
		owner) if (json_is_true(json_object_get(owner, "controller"))) return owner;
	return NULL;
}

/* ---- what relabel rules read ---------------------------------------------------------------- */

#define POD_META "__meta_kubernetes_pod_"

static int add_meta(struct meta_labels *meta, const struct pod_selection *selection,
		    const char *prefix, const char *name, const char *value)
{
	char full_name[META_LABEL_NAME_BYTES_MAX + 1];

	meta_labels_name(prefix, name, full_name);
	return relabel_rules_read_label(selection->rules, full_name)
		       ? meta_labels_add(meta, prefix, name, value)
		       : 0;
}

/* @kind is "label" or "annotation". */
static int add_meta_of(struct pod *pod, const struct pod_selection *selection, const json_t *values,
		       const char *kind)
{
	char prefix[sizeof(POD_META) + 32], present[sizeof(POD_META) + 32];
	uint32_t left = POD_META_KEYS_MAX;
	const char *key;
	json_t *value;
	int rc = 0;

	snprintf(prefix, sizeof(prefix), POD_META "%s_", kind);
	snprintf(present, sizeof(present), POD_META "%spresent_", kind);
	json_object_foreach((json_t *)values, key, value)
	{
		if (rc || !left || !json_is_string(value))
			continue;
		left--;
		rc = add_meta(&pod->meta, selection, prefix, key, json_string_value(value));
		if (!rc)
			rc = add_meta(&pod->meta, selection, present, key, "true");
	}
	return rc;
}

static int add_pod_meta(struct pod *pod, const json_t *json, const struct pod_selection *selection)
{
	const json_t *metadata = json_object_get(json, "metadata");
	const json_t *owner = controller_of(metadata);
	const char *node = bounded_json_string(json_object_get(json, "spec"), "nodeName");
	const struct {
		const char *name, *value;
	} rows[] = {
		{ "__meta_kubernetes_namespace", bounded_json_string(metadata, "namespace") },
		{ POD_META "name", bounded_json_string(metadata, "name") },
		{ POD_META "uid", pod->uid },
		{ POD_META "controller_kind", bounded_json_string(owner, "kind") },
		{ POD_META "controller_name", bounded_json_string(owner, "name") },
		{ POD_META "node_name", node },
		{ "__meta_kubernetes_node_name", node },
	};
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(rows) && !rc; i++)
		rc = add_meta(&pod->meta, selection, rows[i].name, "", rows[i].value);
	if (!rc)
		rc = add_meta_of(pod, selection, json_object_get(metadata, "labels"), "label");
	return rc ? rc
		  : add_meta_of(pod, selection, json_object_get(metadata, "annotations"),
				"annotation");
}

static int add_container_meta(struct pod *pod, const json_t *spec,
			      const struct pod_selection *selection)
{
	int rc = 0;

	for (uint32_t i = 0; i < pod->container_count && !rc; i++) {
		struct pod_container *container = &pod->containers[i];
		const struct {
			const char *name, *value;
		} rows[] = {
			{ POD_META "container_name", container->name },
			{ POD_META "container_id", container->id },
			{ POD_META "container_image", image_of(spec, container->name) },
		};

		for (size_t row = 0; row < ARRAY_SIZE(rows) && !rc; row++)
			rc = add_meta(&container->meta, selection, rows[row].name, "",
				      rows[row].value);
	}
	return rc;
}

/* ---- workload, service, exclusion ---------------------------------------------------------- */

static int add_workload(struct pod *pod, const json_t *metadata)
{
	const json_t *owner = controller_of(metadata);
	const json_t *labels = json_object_get(metadata, "labels");
	const struct pod_owner of = {
		.kind = bounded_json_string(owner, "kind"),
		.name = bounded_json_string(owner, "name"),
		.pod = bounded_json_string(metadata, "name"),
		.template_hash = bounded_json_string(labels, "pod-template-hash"),
	};
	struct workload workload;

	if (!owner || !workload_of(&of, &workload))
		return 0;
	int rc = set_label(&pod->labels, LABEL_WORKLOAD, workload.name);
	return rc ? rc : set_label(&pod->labels, LABEL_WORKLOAD_KIND, workload.kind);
}

static int add_service(struct pod *pod, const json_t *metadata)
{
	char service[VALUE_BYTES];
	const char *name = bounded_json_string(json_object_get(metadata, "labels"), NAME_LABEL);

	if (!name[0])
		name = labels_get(&pod->labels, LABEL_WORKLOAD);
	if (!name)
		return 0;
	snprintf(service, sizeof(service), "%s", name);
	utf8_clean(service);
	pod->service = strdup(service);
	return pod->service ? 0 : -ENOMEM;
}

/* A pod's own word wins over its namespace's. */
static bool is_excluded(const json_t *metadata, const struct pod_selection *selection)
{
	const char *word =
		bounded_json_string(json_object_get(metadata, "annotations"), PROFILE_ANNOTATION);

	if (strcmp(word, "false") == 0 || strcmp(word, "true") == 0)
		return word[0] == 'f';
	return label_patterns_match(selection->excluded_namespaces,
				    bounded_json_string(metadata, "namespace"));
}

/* ---- pods ---------------------------------------------------------------------------------- */

static bool is_uid(const char *uid)
{
	size_t size = strlen(uid);

	return (size == 32 || size == 36) && strspn(uid, "0123456789abcdef-") == size;
}

/*
 * A static pod's cgroup is named after the hash of its file, which the mirror that the API server has carries as an
 * annotation. Everybody may write annotations: only a hash without dashes counts, which no other pod's uid is.
 */
static int set_uids(struct pod *pod, const json_t *metadata)
{
	const char *uid = bounded_json_string(metadata, "uid");
	const char *hash = bounded_json_string(json_object_get(metadata, "annotations"),
					       STATIC_HASH_ANNOTATION);
	bool is_static =
		strcmp(bounded_json_string(controller_of(metadata), "kind"), "Node") == 0 &&
		strlen(hash) == 32 && is_uid(hash) && !strchr(hash, '-');

	if (!is_uid(uid))
		return -EBADMSG;
	snprintf(pod->uid, sizeof(pod->uid), "%s", uid);
	snprintf(pod->cgroup_uid, sizeof(pod->cgroup_uid), "%s", is_static ? hash : uid);
	return 0;
}

static int read_pod(const json_t *json, const struct pod_selection *selection, struct pod **ret_pod)
{
	const json_t *metadata = json_object_get(json, "metadata");
	_cleanup_(pod_freep) struct pod *pod = calloc(1, sizeof(*pod));
	int rc = pod ? set_uids(pod, metadata) : -ENOMEM;

	if (!rc)
		rc = add_labels(pod, metadata, selection);
	if (!rc)
		rc = add_workload(pod, metadata);
	if (!rc)
		rc = add_service(pod, metadata);
	if (!rc)
		rc = add_containers(pod, json_object_get(json, "spec"),
				    json_object_get(json, "status"));
	if (!rc && selection->rules)
		rc = add_pod_meta(pod, json, selection);
	if (!rc && selection->rules)
		rc = add_container_meta(pod, json_object_get(json, "spec"), selection);
	if (rc)
		return rc;
	pod->is_excluded = is_excluded(metadata, selection);
	*ret_pod = take(pod);
	return 0;
}

int pod_json_read(const char *text, size_t size, const struct pod_selection *selection,
		  struct pod **ret_pod)
{
	_cleanup_json_ json_t *json = bounded_json_parse(text, size);

	return json ? read_pod(json, selection, ret_pod) : -EBADMSG;
}

/* ---- events -------------------------------------------------------------------------------- */

/* It goes into a URL: an opaque token without anything that would have to be quoted. */
static void copy_token(const char *token, char *ret_token, size_t size)
{
	size_t length = strlen(token);
	bool is_good = length < size;

	for (size_t i = 0; i < length && is_good; i++)
		is_good = isalnum((unsigned char)token[i]) || strchr("-._~=", token[i]);
	snprintf(ret_token, size, "%s", is_good ? token : "");
}

static void read_version(const json_t *metadata, char ret_version[POD_VERSION_BYTES_MAX])
{
	copy_token(bounded_json_string(metadata, "resourceVersion"), ret_version,
		   POD_VERSION_BYTES_MAX);
}

static int read_kind(const char *type, enum pod_event_kind *ret_kind)
{
	static const struct {
		const char *type;
		enum pod_event_kind kind;
	} kinds[] = {
		{ "ADDED", POD_CHANGED },   { "MODIFIED", POD_CHANGED },
		{ "DELETED", POD_DELETED }, { "BOOKMARK", POD_BOOKMARK },
		{ "ERROR", POD_ERROR },
	};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strcmp(kinds[i].type, type) == 0) {
			*ret_kind = kinds[i].kind;
			return 0;
		}
	return -EBADMSG;
}

int pod_json_read_event(const char *text, size_t size, const struct pod_selection *selection,
			struct pod_event *ret_event)
{
	_cleanup_json_ json_t *json = bounded_json_parse(text, size);
	const json_t *object = json_object_get(json, "object");
	const json_t *metadata = json_object_get(object, "metadata");
	struct pod_event event = { 0 };
	int rc = json ? read_kind(bounded_json_string(json, "type"), &event.kind) : -EBADMSG;

	if (rc)
		return rc;
	read_version(metadata, event.version);
	if (event.kind == POD_CHANGED)
		rc = read_pod(object, selection, &event.pod);
	if (event.kind == POD_DELETED)
		snprintf(event.uid, sizeof(event.uid), "%s", bounded_json_string(metadata, "uid"));
	if (event.kind == POD_ERROR)
		event.status = (long)json_integer_value(json_object_get(object, "code"));
	// What is wrong with one pod is no reason to ask for it again: the version counts.
	*ret_event = event;
	return rc;
}

int pod_json_read_metadata(const char *text, size_t size, struct pod_list_metadata *ret_metadata)
{
	_cleanup_json_ json_t *json = bounded_json_parse(text, size);

	if (!json)
		return -EBADMSG;
	read_version(json, ret_metadata->version);
	copy_token(bounded_json_string(json, "continue"), ret_metadata->next_page,
		   sizeof(ret_metadata->next_page));
	return 0;
}

/* ---- the node ------------------------------------------------------------------------------ */

static const struct {
	const char *key, *label;
} node_labels[] = {
	{ "topology.kubernetes.io/zone", "zone" },
	{ "topology.kubernetes.io/region", "region" },
	{ "node.kubernetes.io/instance-type", "instance_type" },
	{ "nvidia.com/gpu.product", LABEL_GPU_MODEL },
};

/* False: cairn has a label of that name. */
static bool name_node_label(const char *key, char ret_name[LABEL_NAME_BYTES_MAX])
{
	for (size_t i = 0; i < ARRAY_SIZE(node_labels); i++)
		if (strcmp(node_labels[i].key, key) == 0) {
			snprintf(ret_name, LABEL_NAME_BYTES_MAX, "%s", node_labels[i].label);
			return true;
		}
	snprintf(ret_name, LABEL_NAME_BYTES_MAX, "%s", key);
	label_name_from(ret_name, LABEL_NAME_BYTES_MAX);
	return !label_is_reserved(ret_name);
}

int pod_json_read_node(const char *text, size_t size, const char *patterns,
		       struct labels *ret_labels)
{
	_cleanup_json_ json_t *json = bounded_json_parse(text, size);
	const json_t *metadata = json_object_get(json, "metadata");
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	const char *key;
	json_t *value;
	int rc = json_is_object(metadata) ? 0 : -EBADMSG;

	json_object_foreach(json_object_get(metadata, "labels"), key, value)
	{
		char name[LABEL_NAME_BYTES_MAX];

		if (rc || labels.count == NODE_LABELS_MAX || !json_is_string(value) ||
		    !label_patterns_match(patterns, key) || !name_node_label(key, name))
			continue;
		rc = set_label(&labels, name, json_string_value(value));
	}
	if (rc)
		return rc;
	*ret_labels = labels;
	labels = (struct labels){ 0 };
	return 0;
}
