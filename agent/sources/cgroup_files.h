// SPDX-License-Identifier: Apache-2.0
// Where the files of control groups are, and what they say: hierarchies of versions 1 and 2, which may
// both be mounted, a process's group in one, and numbers in files of "key value" lines.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CGROUP_PATH_BYTES = 1024, // of a group below its hierarchy; the kubelet's are some 200
	CGROUP_STAT_BYTES = 4096, // of a file of numbers
};

/** Where the groups of a controller are mounted. */
struct cgroup_hierarchy {
	char mount[CGROUP_PATH_BYTES];
	char root[CGROUP_PATH_BYTES]; // the group that is mounted there, as our namespace sees it
	char home[CGROUP_PATH_BYTES]; // our namespace's root below the mount; "": not known
	bool unified;                 // version 2
};

/**
 * Find in /proc/self/mountinfo where @controller's groups are: version 1 if it is mounted there, as a
 * controller is in one of the two only, else version 2. Where several are mounted, the one that is
 * highest. Its home is not known yet. Returns 0 or -ENOENT.
 */
int cgroup_find_hierarchy(const char *mountinfo, size_t size, const char *controller,
			  struct cgroup_hierarchy *ret_hierarchy);

/** How many groups the mounted one is above our namespace's root; 0: it is not above it. */
uint32_t cgroup_hierarchy_height(const struct cgroup_hierarchy *hierarchy);

/**
 * Find in a /proc/PID/cgroup the process's group for @controller, or in version 2 (NULL), as our namespace
 * sees it: from its root on, with "/.." before what is outside. Returns 0; -ENOENT if there is none;
 * -EBADMSG if it is too long or no path.
 */
int cgroup_find_path(const char *text, size_t size, const char *controller,
		     char ret_path[CGROUP_PATH_BYTES]);

/**
 * Where the group @path, as our namespace sees it, is below the mount; it begins with '/'. Returns 0;
 * -EBADMSG if it cannot be reached from there, or is too long.
 */
int cgroup_path_below_mount(const struct cgroup_hierarchy *hierarchy, const char *path,
			    char ret_path[CGROUP_PATH_BYTES]);

/** Find the number of the line "@key number". Returns 0, -ENOENT, or -EBADMSG if it is no number. */
int cgroup_find_number(const char *text, size_t size, const char *key, uint64_t *ret_number);
