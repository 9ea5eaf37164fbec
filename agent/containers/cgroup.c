// SPDX-License-Identifier: Apache-2.0
#include "agent/containers/cgroup.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"

/* A part of a text, without a NUL. */
struct slice {
	const char *at;
	size_t size;
};

static bool is_hex_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool starts_with(struct slice slice, const char *start)
{
	size_t size = strlen(start);

	return slice.size >= size && memcmp(slice.at, start, size) == 0;
}

static bool ends_with(struct slice slice, const char *end)
{
	size_t size = strlen(end);

	return slice.size >= size && memcmp(slice.at + slice.size - size, end, size) == 0;
}

static struct slice without_ends(struct slice slice, size_t start, size_t end)
{
	return (struct slice){ slice.at + start, slice.size - start - end };
}

static void copy_slice(struct slice slice, char *ret_text, size_t size)
{
	if (slice.size >= size)
		slice.size = size - 1;
	if (slice.size) // an empty one is nowhere
		memcpy(ret_text, slice.at, slice.size);
	ret_text[slice.size] = '\0';
}

static size_t count_hex(struct slice slice)
{
	size_t count = 0;

	while (count < slice.size && is_hex_digit(slice.at[count]))
		count++;
	return count;
}

/* 64 hexadecimal digits, or ECS Fargate's 32 digits, '-' and a decimal number. */
static bool is_container_id(struct slice slice)
{
	size_t hex = count_hex(slice);

	if (hex == 64 && slice.size == 64)
		return true;
	if (hex != 32 || slice.size < 34 || slice.size > 52 || slice.at[32] != '-')
		return false;
	for (size_t i = 33; i < slice.size; i++)
		if (slice.at[i] < '0' || slice.at[i] > '9')
			return false;
	return true;
}

/*
 * <id>, docker-<id>.scope, cri-containerd-<id>.scope, crio-<id>.scope, libpod-<id>.scope, and containerd's
 * <slice>:cri-containerd:<id>. A runtime's monitor (crio-conmon-<id>.scope) is not the container.
 */
static bool find_container_id(struct slice component, struct slice *ret_id)
{
	struct slice id = component;

	if (ends_with(id, ".scope"))
		id = without_ends(id, 0, strlen(".scope"));
	for (size_t i = id.size; i-- > 0;) {
		bool separates = id.at[i] == ':' || (id.at[i] == '-' && i + 65 == id.size);

		if (!separates)
			continue;
		if (strlen("conmon") <= i && ends_with((struct slice){ id.at, i }, "conmon"))
			return false;
		id = without_ends(id, i + 1, 0);
		break;
	}
	if (!is_container_id(id))
		return false;
	*ret_id = id;
	return true;
}

/* pod<uid>, kubepods-burstable-pod<uid with _>.slice. */
static bool find_pod_uid(struct slice component, char ret_uid[POD_UID_BYTES])
{
	struct slice uid = component;

	if (starts_with(uid, "kubepods") || starts_with(uid, "kubelet-kubepods")) {
		struct slice head = uid;

		// containerd's <slice>:cri-containerd:<id> names the pod before the first colon
		const char *colon = memchr(head.at, ':', head.size);
		if (colon)
			head.size = (size_t)(colon - head.at);
		if (!ends_with(head, ".slice"))
			return false;
		head.size -= strlen(".slice");
		const char *pod = memmem(head.at, head.size, "-pod", strlen("-pod"));
		if (!pod)
			return false;
		uid = without_ends(head, (size_t)(pod - head.at) + 1, 0);
	}
	if (!starts_with(uid, "pod"))
		return false;
	uid = without_ends(uid, strlen("pod"), 0);
	if (uid.size != 32 && uid.size != 36)
		return false;
	for (size_t i = 0; i < uid.size; i++)
		if (!is_hex_digit(uid.at[i]) && uid.at[i] != '-' && uid.at[i] != '_')
			return false;
	copy_slice(uid, ret_uid, POD_UID_BYTES);
	for (char *at = ret_uid; (at = strchr(at, '_'));)
		*at = '-';
	return true;
}

static bool is_unit(struct slice component)
{
	static const char *const suffixes[] = { ".service", ".scope" };

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (component.size > strlen(suffixes[i]) && ends_with(component, suffixes[i]))
			return true;
	return false;
}

/* user-1000.slice */
static bool is_user_slice(struct slice component)
{
	size_t digits = strlen("user-");

	if (!starts_with(component, "user-"))
		return false;
	while (digits < component.size && component.at[digits] >= '0' &&
	       component.at[digits] <= '9')
		digits++;
	struct slice rest = without_ends(component, digits, 0);
	return digits > strlen("user-") && rest.size == strlen(".slice") &&
	       starts_with(rest, ".slice");
}

/* A path that is being parsed. */
struct reading {
	struct cgroup cgroup;
	struct slice user; // its slice; empty: the path is not below one
	struct slice unit; // the outermost
};

/* What a user's own groups say is below the user's name. */
static void set_name(const struct reading *reading, struct slice name, char *ret_text, size_t size)
{
	size_t begin = reading->user.size ? reading->user.size + 1 : 0;

	if (begin + name.size >= size)
		return;
	copy_slice(reading->user, ret_text, size);
	if (begin)
		ret_text[begin - 1] = '/';
	copy_slice(name, ret_text + begin, size - begin);
}

/*
 * The outermost pod, container or user is the system's word; what is within may be anybody's. A unit within is of a service
 * manager there: the last one.
 */
static void parse_component(struct slice component, struct reading *reading)
{
	struct cgroup *cgroup = &reading->cgroup;
	bool is_outer = !cgroup->container[0] && !cgroup->pod_uid[0] && !reading->user.size;
	struct slice id;

	if (is_outer && is_user_slice(component))
		reading->user = component;
	if (is_outer && find_pod_uid(component, cgroup->pod_uid))
		cgroup->unit[0] = '\0';
	if (!cgroup->container[0] && find_container_id(component, &id)) {
		set_name(reading, id, cgroup->container, sizeof(cgroup->container));
		cgroup->unit[0] = '\0';
	} else if (is_unit(component)) {
		if (!reading->unit.size)
			reading->unit = component;
		set_name(reading, component, cgroup->unit, sizeof(cgroup->unit));
	}
}

/* A user's containers are not payers of their own: the user makes as many as it likes. */
static void set_payer(const struct reading *reading, struct cgroup *cgroup)
{
	if (reading->user.size)
		copy_slice(reading->user, cgroup->payer, sizeof(cgroup->payer));
	else if (cgroup->pod_uid[0])
		memcpy(cgroup->payer, cgroup->pod_uid, sizeof(cgroup->pod_uid));
	else if (cgroup->container[0])
		memcpy(cgroup->payer, cgroup->container, sizeof(cgroup->container));
	else
		copy_slice(reading->unit, cgroup->payer, sizeof(cgroup->payer));
}

static void parse_path(struct slice path, struct cgroup *ret_cgroup)
{
	struct reading reading = { 0 };

	while (path.size) {
		const char *slash = memchr(path.at, '/', path.size);
		size_t size = slash ? (size_t)(slash - path.at) : path.size;

		parse_component((struct slice){ path.at, size }, &reading);
		path = without_ends(path, slash ? size + 1 : size, 0);
	}
	set_payer(&reading, &reading.cgroup);
	*ret_cgroup = reading.cgroup;
}

static int weight_of(const struct cgroup *cgroup)
{
	return (cgroup->container[0] ? 4 : 0) + (cgroup->pod_uid[0] ? 2 : 0) +
	       (cgroup->unit[0] ? 1 : 0);
}

/* Version 1 has a line per hierarchy, not all of them in use: the path with the most information counts. */
void cgroup_parse(const char *text, size_t size, struct cgroup *ret_cgroup)
{
	struct slice rest = { text, size };

	memset(ret_cgroup, 0, sizeof(*ret_cgroup));
	while (rest.size) {
		const char *newline = memchr(rest.at, '\n', rest.size);
		struct slice line = { rest.at, newline ? (size_t)(newline - rest.at) : rest.size };
		const char *colon = memchr(line.at, ':', line.size);
		struct cgroup cgroup;

		rest = without_ends(rest, newline ? line.size + 1 : line.size, 0);
		if (!colon)
			continue;
		line = without_ends(line, (size_t)(colon - line.at) + 1, 0);
		colon = memchr(line.at, ':', line.size); // hierarchy:controllers:path
		if (!colon)
			continue;
		parse_path(without_ends(line, (size_t)(colon - line.at) + 1, 0), &cgroup);
		if (weight_of(&cgroup) > weight_of(ret_cgroup))
			*ret_cgroup = cgroup;
	}
}
