// SPDX-License-Identifier: Apache-2.0
#include "cgroup.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { CONTAINER_DIGITS = CONTAINER_ID_BYTES - 1 };

static bool is_hex(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (!isxdigit((unsigned char)text[i]) || isupper((unsigned char)text[i]))
			return false;
	}
	return true;
}

/** "cri-containerd-<64 hex>.scope", "<64 hex>": the digits that end the name, suffix aside. */
static bool take_container(const char *name, size_t size, struct cgroup *cgroup)
{
	static const char SCOPE[] = ".scope";
	size_t scope = sizeof(SCOPE) - 1;

	if (size > scope && !memcmp(name + size - scope, SCOPE, scope))
		size -= scope;
	if (size < CONTAINER_DIGITS)
		return false;
	const char *digits = name + size - CONTAINER_DIGITS;
	if (!is_hex(digits, CONTAINER_DIGITS) ||
	    (digits > name && isxdigit((unsigned char)digits[-1])))
		return false;
	memcpy(cgroup->container, digits, CONTAINER_DIGITS);
	cgroup->container[CONTAINER_DIGITS] = '\0';
	return true;
}

static bool take_unit(const char *name, size_t size, struct cgroup *cgroup)
{
	static const char SERVICE[] = ".service";
	size_t service = sizeof(SERVICE) - 1;

	if (size <= service || size >= UNIT_BYTES ||
	    memcmp(name + size - service, SERVICE, service))
		return false;
	memcpy(cgroup->unit, name, size);
	cgroup->unit[size] = '\0';
	return true;
}

/** From the innermost component outwards; the first container and the first unit win. */
static void take_path(const char *path, size_t size, struct cgroup *cgroup)
{
	while (size > 0) {
		const char *slash = memrchr(path, '/', size);
		const char *name = slash ? slash + 1 : path;
		size_t name_size = path + size - name;

		if (!cgroup->container[0])
			take_container(name, name_size, cgroup);
		if (!cgroup->unit[0])
			take_unit(name, name_size, cgroup);
		size = slash ? (size_t)(slash - path) : 0;
	}
}

void cgroup_parse(const char *text, size_t size, struct cgroup *ret_cgroup)
{
	const char *end = text + size;

	*ret_cgroup = (struct cgroup){ 0 };
	while (text < end) {
		const char *newline = memchr(text, '\n', end - text);
		const char *line_end = newline ? newline : end;
		const char *colon = memchr(text, ':', line_end - text);

		if (colon)
			colon = memchr(colon + 1, ':', line_end - colon - 1);
		if (colon)
			take_path(colon + 1, line_end - colon - 1, ret_cgroup);
		text = line_end + 1;
	}
}
