// SPDX-License-Identifier: Apache-2.0
#include "agent/cgroup_files.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

/* A part of a text: not ended by a NUL. */
struct part {
	const char *at;
	size_t size;
};

// The part of @rest before @separator, which is taken from it; all of it if there is none.
static struct part cut(struct part *rest, char separator)
{
	const char *end = memchr(rest->at, separator, rest->size);
	struct part part = { rest->at, end ? (size_t)(end - rest->at) : rest->size };
	size_t taken = part.size + (end ? 1 : 0);

	rest->at += taken;
	rest->size -= taken;
	return part;
}

static bool equals(struct part part, const char *text)
{
	return part.size == strlen(text) && memcmp(part.at, text, part.size) == 0;
}

// Is @word one of a list with commas?
static bool has_word(struct part list, const char *word)
{
	while (list.size) {
		if (equals(cut(&list, ','), word))
			return true;
	}
	return false;
}

// ID PARENT MAJOR:MINOR ROOT MOUNT OPTIONS [TAG...] - TYPE SOURCE SUPER_OPTIONS, see proc(5).
struct mount {
	struct part mount, type, super_options;
};

static bool parse_mount(struct part line, struct mount *ret_mount)
{
	struct mount mount;

	for (int i = 0; i < 4; i++)
		cut(&line, ' ');
	mount.mount = cut(&line, ' ');
	while (line.size && !equals(cut(&line, ' '), "-"))
		;
	mount.type = cut(&line, ' ');
	cut(&line, ' ');
	mount.super_options = line;
	*ret_mount = mount;
	// The kernel writes spaces and the like as \040: nobody mounts control groups at such a path.
	return mount.mount.size && mount.mount.size < CGROUP_PATH_BYTES &&
	       !memchr(mount.mount.at, '\\', mount.mount.size);
}

int cgroup_find_hierarchy(const char *mountinfo, size_t size, const char *controller,
			  struct cgroup_hierarchy *ret_hierarchy)
{
	struct part rest = { mountinfo, size };
	struct part found = { 0 };
	bool unified = false;

	while (rest.size) {
		struct mount mount;

		if (!parse_mount(cut(&rest, '\n'), &mount))
			continue;
		if (equals(mount.type, "cgroup") && has_word(mount.super_options, controller)) {
			found = mount.mount;
			unified = false;
			break;
		}
		if (equals(mount.type, "cgroup2") && !found.at) {
			found = mount.mount;
			unified = true;
		}
	}
	if (!found.at)
		return -ENOENT;
	memcpy(ret_hierarchy->mount, found.at, found.size);
	ret_hierarchy->mount[found.size] = '\0';
	ret_hierarchy->unified = unified;
	return 0;
}

static bool leads_out(struct part path)
{
	while (path.size) {
		if (equals(cut(&path, '/'), ".."))
			return true;
	}
	return false;
}

int cgroup_find_path(const char *text, size_t size, const char *controller,
		     char ret_path[CGROUP_PATH_BYTES])
{
	struct part rest = { text, size };

	while (rest.size) {
		struct part path = cut(&rest, '\n');
		struct part number = cut(&path, ':'), controllers = cut(&path, ':');

		if (controller ? !has_word(controllers, controller)
			       : !equals(number, "0") || controllers.size)
			continue;
		if (!path.size || path.at[0] != '/' || path.size >= CGROUP_PATH_BYTES ||
		    leads_out(path) || memchr(path.at, '\0', path.size))
			return -EBADMSG;
		memcpy(ret_path, path.at, path.size);
		ret_path[path.size] = '\0';
		return 0;
	}
	return -ENOENT;
}

static int parse_number(struct part text, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (!text.size)
		return -EBADMSG;
	for (size_t i = 0; i < text.size; i++) {
		if (text.at[i] < '0' || text.at[i] > '9' ||
		    __builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, (uint64_t)(text.at[i] - '0'), &number))
			return -EBADMSG;
	}
	*ret_number = number;
	return 0;
}

int cgroup_find_number(const char *text, size_t size, const char *key, uint64_t *ret_number)
{
	struct part rest = { text, size };

	while (rest.size) {
		struct part value = cut(&rest, '\n');

		if (equals(cut(&value, ' '), key))
			return parse_number(value, ret_number);
	}
	return -ENOENT;
}
