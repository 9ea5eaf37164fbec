// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/cgroup_files.h"

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

// Is @word in a list separated by commas?
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
	struct part root, mount, type, super_options;
	bool unified;
};

// The kernel writes spaces and the like as \040: no cgroup mount has such a path.
static bool is_plain_path(struct part path)
{
	return path.size && path.at[0] == '/' && path.size < CGROUP_PATH_BYTES &&
	       !memchr(path.at, '\\', path.size);
}

static bool parse_mount(struct part line, struct mount *ret_mount)
{
	struct mount mount;

	for (int i = 0; i < 3; i++)
		cut(&line, ' ');
	mount.root = cut(&line, ' ');
	mount.mount = cut(&line, ' ');
	while (line.size && !equals(cut(&line, ' '), "-"))
		;
	mount.type = cut(&line, ' ');
	cut(&line, ' ');
	mount.super_options = line;
	mount.unified = equals(mount.type, "cgroup2");
	*ret_mount = mount;
	return is_plain_path(mount.root) && is_plain_path(mount.mount);
}

// Levels above the root of our namespace; negative: below.
static int height_of(struct part path)
{
	int height = 0;

	while (path.size) {
		struct part name = cut(&path, '/');

		if (name.size)
			height += equals(name, "..") ? 1 : -1;
	}
	return height;
}

static bool is_same(struct part a, struct part b)
{
	return a.size == b.size && memcmp(a.at, b.at, a.size) == 0;
}

/*
 * v1 first, as a controller is in one of the two only. Of several mounts the one with the most below it: a
 * container may have the host's beside its own. A later one at the same place hides the earlier one.
 */
static bool is_better(const struct mount *mount, const struct mount *best)
{
	if (mount->unified != best->unified)
		return best->unified;
	return is_same(mount->mount, best->mount) || height_of(mount->root) > height_of(best->root);
}

static void copy_path(struct part path, char ret_path[CGROUP_PATH_BYTES])
{
	memcpy(ret_path, path.at, path.size);
	ret_path[path.size] = '\0';
}

int cgroup_find_hierarchy(const char *mountinfo, size_t size, const char *controller,
			  struct cgroup_hierarchy *ret_hierarchy)
{
	struct part rest = { mountinfo, size };
	struct mount best = { .unified = true };

	while (rest.size) {
		struct mount mount;

		if (!parse_mount(cut(&rest, '\n'), &mount) ||
		    (!mount.unified &&
		     (!equals(mount.type, "cgroup") || !has_word(mount.super_options, controller))))
			continue;
		if (!best.mount.at || is_better(&mount, &best))
			best = mount;
	}
	if (!best.mount.at)
		return -ENOENT;
	*ret_hierarchy = (struct cgroup_hierarchy){ .unified = best.unified };
	copy_path(best.mount, ret_hierarchy->mount);
	copy_path(best.root, ret_hierarchy->root);
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

// How often "/.." is taken from the beginning of @path.
static uint32_t take_parents(struct part *path)
{
	uint32_t count = 0;

	for (; path->size >= 3 && memcmp(path->at, "/..", 3) == 0 &&
	       (path->size == 3 || path->at[3] == '/');
	     count++) {
		path->at += 3;
		path->size -= 3;
	}
	return count;
}

uint32_t cgroup_hierarchy_height(const struct cgroup_hierarchy *hierarchy)
{
	struct part root = { hierarchy->root, strlen(hierarchy->root) };
	uint32_t height = take_parents(&root);

	return root.size ? 0 : height;
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
		    memchr(path.at, '\0', path.size))
			return -EBADMSG;
		copy_path(path, ret_path);
		return 0;
	}
	return -ENOENT;
}

// The part of @path below @root; false: it is not below.
static bool take_root(struct part *path, const char *root)
{
	size_t size = strcmp(root, "/") == 0 ? 0 : strlen(root);

	if (path->size < size || memcmp(path->at, root, size) != 0 ||
	    (path->size > size && path->at[size] != '/'))
		return false;
	path->at += size;
	path->size -= size;
	return true;
}

// The first @count names of a path are left.
static void keep_names(struct part *path, uint32_t count)
{
	struct part rest = *path;

	for (uint32_t i = 0; i <= count; i++) // the first one is empty: before the '/'
		cut(&rest, '/');
	path->size = rest.size ? (size_t)(rest.at - path->at) - 1 : path->size;
}

int cgroup_path_below_mount(const struct cgroup_hierarchy *hierarchy, const char *path,
			    char ret_path[CGROUP_PATH_BYTES])
{
	struct part below = { path, strlen(path) }, above = { "", 0 };

	if (!take_root(&below, hierarchy->root)) {
		uint32_t height = cgroup_hierarchy_height(hierarchy);
		uint32_t parents = take_parents(&below);

		if (parents >= height || !hierarchy->home[0])
			return -EBADMSG;
		above = (struct part){ hierarchy->home, strlen(hierarchy->home) };
		keep_names(&above, height - parents);
	}
	if (leads_out(below) || above.size + below.size >= CGROUP_PATH_BYTES)
		return -EBADMSG;
	if (below.size == 1 && above.size)
		below.size = 0; // the namespace's root itself: no slash at the end
	memcpy(ret_path, above.at, above.size);
	memcpy(ret_path + above.size, below.at, below.size);
	ret_path[above.size + below.size] = '\0';
	if (!ret_path[0])
		memcpy(ret_path, "/", sizeof("/"));
	return 0;
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
