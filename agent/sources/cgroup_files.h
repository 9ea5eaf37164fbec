// SPDX-License-Identifier: Apache-2.0
// Paths and files of cgroups: mounted hierarchies of v1 and v2, a process's cgroup, and numbers in files of
// "key value" lines.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CGROUP_PATH_BYTES = 1024, // of a cgroup below its mount; the kubelet's have some 200
	CGROUP_STAT_BYTES = 4096, // of a file of numbers
};

/** Where a controller's cgroups are mounted. */
struct cgroup_hierarchy {
	char mount[CGROUP_PATH_BYTES];
	char root[CGROUP_PATH_BYTES]; // the cgroup that is mounted there, as seen in our namespace
	char home[CGROUP_PATH_BYTES]; // our namespace's root below the mount; "": unknown
	bool unified;                 // cgroup v2
};

/**
 * Find @controller's hierarchy in /proc/self/mountinfo: v1 if it is mounted there, as a controller is in one
 * of the two only, else v2. Of several mounts, the highest. Its home stays unknown. Returns 0 or -ENOENT.
 */
int cgroup_find_hierarchy(const char *mountinfo, size_t size, const char *controller,
			  struct cgroup_hierarchy *ret_hierarchy);

/** How many levels the mounted cgroup is above our namespace's root; 0: it is not above it. */
uint32_t cgroup_hierarchy_height(const struct cgroup_hierarchy *hierarchy);

/**
 * Find in a /proc/PID/cgroup the process's cgroup of @controller, or in v2 (NULL), as seen in our namespace:
 * from its root on, with "/.." before what is outside. Returns 0; -ENOENT if there is none; -EBADMSG if it is
 * too long or no path.
 */
int cgroup_find_path(const char *text, size_t size, const char *controller,
		     char ret_path[CGROUP_PATH_BYTES]);

/**
 * Where the cgroup @path, as seen in our namespace, is below the mount; it begins with '/'. Returns 0;
 * -EBADMSG if it is not below it, or too long.
 */
int cgroup_path_below_mount(const struct cgroup_hierarchy *hierarchy, const char *path,
			    char ret_path[CGROUP_PATH_BYTES]);

/** Find the number of the line "@key number". Returns 0, -ENOENT, or -EBADMSG if it is no number. */
int cgroup_find_number(const char *text, size_t size, const char *key, uint64_t *ret_number);
