// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_labels.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "agent/containers/cgroup.h"
#include "agent/process/resource_attributes.h"
#include "base/text.h"
#include "base/utf8.h"
#include "base/contract/label_names.h"

enum { VALUE_BYTES = 256 };

#define COMPOSE_PROJECT "compose_project"
#define PAUSE           "pause" // the executable of each runtime's sandbox image

/* The first variable @name, as getenv() finds it; NULL: none, or cut (no NUL). */
static const char *find_variable(const char *block, size_t block_size, const char *name,
				 size_t *ret_size)
{
	size_t name_size = strlen(name);

	while (block_size) {
		size_t size = strnlen(block, block_size);

		if (size == block_size)
			return NULL;
		if (size > name_size && block[name_size] == '=' &&
		    memcmp(block, name, name_size) == 0) {
			*ret_size = size - name_size - 1;
			return block + name_size + 1;
		}
		block += size + 1;
		block_size -= size + 1;
	}
	return NULL;
}

/* Only -ENOMEM is a failure: a value that cannot be a label is left out. */
static int set_label(struct labels *labels, const char *name, const char *value, size_t size)
{
	char clean[VALUE_BYTES];

	if (!size)
		return 0;
	snprintf(clean, sizeof(clean), "%.*s", (int)(size < sizeof(clean) ? size : sizeof(clean)),
		 value);
	utf8_clean(clean);
	return labels_set(labels, name, clean) == -ENOMEM ? -ENOMEM : 0;
}

static int set_string(struct labels *labels, const char *name, const char *value)
{
	return set_label(labels, name, value, strlen(value));
}

static int set_environ(struct labels *labels, const struct process_traits *traits,
		       uint64_t *refused)
{
	size_t size;
	const char *value = find_variable(traits->environ_, traits->environ_size,
					  "OTEL_RESOURCE_ATTRIBUTES", &size);
	int rc = value ? resource_attributes_add(labels, traits->attribute_patterns, value, size,
						 refused)
		       : 0;

	if (rc)
		return rc;
	value = find_variable(traits->environ_, traits->environ_size, "OTEL_SERVICE_NAME", &size);
	return value ? set_label(labels, LABEL_SERVICE, value, size) : 0;
}

/* The id gives way to the name. */
static int name_container(struct labels *labels, const char *name)
{
	const char *id = labels_get(labels, LABEL_CONTAINER);
	int rc = id && !labels_get(labels, LABEL_CONTAINER_ID)
			 ? set_string(labels, LABEL_CONTAINER_ID, id)
			 : 0;

	return rc ? rc : set_string(labels, LABEL_CONTAINER, name);
}

/* What the process says of itself is more exact than its image's tag. */
static int set_container(struct labels *labels, const struct container_record *container)
{
	int rc = container && container->name[0] ? name_container(labels, container->name) : 0;

	if (!rc && container && !labels_get(labels, LABEL_VERSION))
		rc = set_string(labels, LABEL_VERSION, container->version);
	if (!rc && container)
		rc = set_string(labels, COMPOSE_PROJECT, container->project);
	return rc;
}

static int set_cgroup(struct labels *labels, const struct cgroup *cgroup)
{
	const char *name =
		labels_get(labels, LABEL_CONTAINER) ? LABEL_CONTAINER_ID : LABEL_CONTAINER;
	int rc = set_string(labels, name, cgroup->container);

	if (!rc)
		rc = set_string(labels, LABEL_POD_UID, cgroup->pod_uid);
	if (!rc)
		rc = set_string(labels, LABEL_UNIT, cgroup->unit);
	return rc;
}

/*
 * The service of a unit: "nginx" of nginx.service, "getty" of getty@tty1.service. A user manager
 * (user@1000.service) is none.
 */
static size_t service_of_unit(const char *unit)
{
	static const char suffix[] = ".service";
	size_t size = strlen(unit);

	if (size <= strlen(suffix) || !text_ends_with(unit, suffix) ||
	    text_begins_with(unit, "user@"))
		return 0;
	size -= strlen(suffix);
	const char *instance = memchr(unit, '@', size);
	return instance ? (size_t)(instance - unit) : size;
}

/* A helper that a container's runtime starts names itself by the step that it is in: "runc:[1:CHILD]". */
static int set_name_service(struct labels *labels, const char *name)
{
	const char *step = name ? strstr(name, ":[") : NULL;

	if (!name || !name[0])
		return set_string(labels, LABEL_SERVICE, "unknown");
	return set_label(labels, LABEL_SERVICE, name,
			 step && step != name ? (size_t)(step - name) : strlen(name));
}

/* The name of a memory file says little: "/memfd:runc_cloned:/proc/self/exe (deleted)". */
bool process_labels_is_in_memory(const char *executable)
{
	return text_begins_with(executable, "/memfd:");
}

static int set_executable_service(struct labels *labels, const struct process_traits *traits)
{
	static const char deleted[] = " (deleted)";
	const char *path = traits->executable ? traits->executable : "";
	const char *name = path_base_name(process_labels_is_in_memory(path) ? "" : path);
	size_t size = strlen(name);

	if (size > strlen(deleted) && text_ends_with(name, deleted))
		size -= strlen(deleted); // an upgrade replaced it while it runs
	if (size)
		return set_label(labels, LABEL_SERVICE, name, size);
	// The kernel names a program in memory by its file, too: "memfd:sealed-91".
	if (traits->command && traits->name && text_begins_with(traits->name, "memfd:"))
		return set_name_service(labels, path_base_name(traits->command));
	return set_name_service(labels, traits->name);
}

static int set_service(struct labels *labels, const struct process_traits *traits,
		       const struct cgroup *cgroup)
{
	if (traits->kernel_thread)
		return set_string(labels, LABEL_SERVICE, "kernel");
	if (labels_get(labels, LABEL_SERVICE))
		return 0;
	if (traits->container && traits->container->service[0])
		return set_string(labels, LABEL_SERVICE, traits->container->service);
	const char *unit = path_base_name(cgroup->unit); // a user's is below the user's slice
	size_t size = service_of_unit(unit);
	return size ? set_label(labels, LABEL_SERVICE, unit, size)
		    : set_executable_service(labels, traits);
}

/* One series for all kernel workers of a kind: "kworker/3:1H" without CPU and number. */
static int set_process(struct labels *labels, const struct process_traits *traits)
{
	if (!traits->name)
		return 0;
	size_t size = traits->kernel_thread ? strcspn(traits->name, "/") : strlen(traits->name);

	return set_label(labels, LABEL_PROCESS, traits->name, size);
}

static int set_extra(struct labels *labels, const struct labels *extra)
{
	for (uint32_t i = 0; extra && i < extra->count; i++) {
		int rc = labels_set(labels, extra->pairs[i].name, extra->pairs[i].value);
		if (rc == -ENOMEM)
			return rc;
	}
	return 0;
}

int process_labels_detect(const struct process_traits *traits, const struct labels *extra,
			  struct labels *ret_labels, bool *ret_own_service, uint64_t *refused)
{
	struct labels labels = { 0 };
	struct cgroup cgroup;
	int rc;

	cgroup_parse(traits->cgroup, traits->cgroup_size, &cgroup);
	rc = set_environ(&labels, traits, refused);
	*ret_own_service = labels_get(&labels, LABEL_SERVICE) || traits->kernel_thread ||
			   (extra && labels_get(extra, LABEL_SERVICE));
	if (!rc)
		rc = set_service(&labels, traits, &cgroup);
	if (!rc)
		rc = set_cgroup(&labels, &cgroup);
	if (!rc)
		rc = set_container(&labels, traits->container);
	if (!rc)
		rc = set_process(&labels, traits);
	if (!rc && traits->node)
		rc = set_string(&labels, LABEL_NODE, traits->node);
	if (!rc)
		rc = set_extra(&labels, extra);
	if (rc) {
		labels_deinit(&labels);
		return rc;
	}
	*ret_labels = labels;
	return 0;
}

/* ---- the pod's word ------------------------------------------------------------------------- */

bool process_labels_is_pause(const struct labels *detected)
{
	const char *service = labels_get(detected, LABEL_SERVICE);

	return service && strcmp(service, PAUSE) == 0;
}

static int add_pod_label(struct labels *labels, const struct label *label)
{
	if (strcmp(label->name, LABEL_CONTAINER) == 0)
		return name_container(labels, label->value);
	// What the process says of itself is more exact than its image's tag, or a chosen label of its pod.
	bool is_own = labels_get(labels, label->name) &&
		      (strcmp(label->name, LABEL_VERSION) == 0 || !label_is_reserved(label->name));

	return is_own ? 0 : set_string(labels, label->name, label->value);
}

static int name_service(struct labels *labels, const struct pod_match *pod)
{
	const char *name = pod->service ? pod->service : labels_get(&pod->labels, LABEL_POD);

	// A container that is not known yet may have any name: only the pause process has none.
	if (!pod->service && !pod->has_container && !process_labels_is_pause(labels))
		return 0;
	return name ? set_string(labels, LABEL_SERVICE, name) : 0;
}

int process_labels_add_pod(struct labels *labels, const struct pod_match *pod, bool own_service,
			   const struct labels *extra)
{
	bool is_pause = !own_service && !pod->has_container && process_labels_is_pause(labels);
	int rc = is_pause ? name_container(labels, PAUSE) : 0;

	for (uint32_t i = 0; i < pod->labels.count && !rc; i++)
		rc = add_pod_label(labels, &pod->labels.pairs[i]);
	if (!rc && !own_service)
		rc = name_service(labels, pod);
	return rc ? rc : set_extra(labels, extra);
}

/* ---- the node's ----------------------------------------------------------------------------- */

int process_labels_add_node(struct labels *labels, const struct labels *node,
			    const struct labels *extra)
{
	int rc = 0;

	for (uint32_t i = 0; i < node->count && !rc; i++)
		rc = set_string(labels, node->pairs[i].name, node->pairs[i].value);
	return rc ? rc : set_extra(labels, extra);
}
