// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_family.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/process/proc.h"
#include "agent/process/process_table.h"
#include "base/array.h"
#include "base/cleanup.h"

enum membership { UNKNOWN, MEMBER, STRANGER };

struct relative {
	pid_t pid;
	pid_t parent;
	enum membership membership;
};

struct relatives {
	struct relative *list; // sorted by pid
	uint32_t count, capacity;
};

static int compare_relatives(const void *a, const void *b)
{
	const struct relative *left = a, *right = b;

	return (left->pid > right->pid) - (left->pid < right->pid);
}

static int compare_pids(const void *a, const void *b)
{
	const pid_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static int add_running(struct relatives *relatives, pid_t pid)
{
	struct proc proc;

	if (proc_open(pid, &proc))
		return 0; // it has exited
	proc_close(&proc);
	int rc = array_reserve(&relatives->list, sizeof(*relatives->list), &relatives->capacity,
			       relatives->count, 1, PROCESSES_MAX);
	if (rc)
		return rc == -E2BIG ? 0 : rc;
	relatives->list[relatives->count++] =
		(struct relative){ .pid = pid, .parent = proc.stat.parent };
	return 0;
}

static int read_running(struct relatives *relatives)
{
	DIR *folder = opendir("/proc");
	struct dirent *process;
	int rc = 0;

	if (!folder)
		return -errno;
	while (!rc && (process = readdir(folder)))
		if (isdigit((unsigned char)process->d_name[0]))
			rc = add_running(relatives, (pid_t)strtoul(process->d_name, NULL, 10));
	closedir(folder);
	if (relatives->count)
		qsort(relatives->list, relatives->count, sizeof(*relatives->list),
		      compare_relatives);
	return rc;
}

static struct relative *parent_of(const struct relatives *relatives,
				  const struct relative *relative)
{
	const struct relative key = { .pid = relative->parent };

	return relatives->count ? bsearch(&key, relatives->list, relatives->count,
					  sizeof(*relatives->list), compare_relatives)
				: NULL;
}

/** Walk up to one whose membership is known, and give it to all on the way. Pids may be reused while /proc is read: a loop ends. */
static void judge(struct relatives *relatives, struct relative *first)
{
	enum membership found = STRANGER;
	uint32_t steps = 0;

	for (struct relative *at = first; at && steps <= relatives->count; steps++) {
		if (at->membership != UNKNOWN) {
			found = at->membership;
			break;
		}
		at = parent_of(relatives, at);
	}
	for (struct relative *at = first; at && at->membership == UNKNOWN;
	     at = parent_of(relatives, at))
		at->membership = found;
}

int process_family_read(pid_t pid, struct process_family *ret_family)
{
	struct relatives relatives = { 0 };
	int rc = read_running(&relatives);
	_cleanup_free_ struct relative *list = relatives.list;
	struct process_family family = { 0 };

	if (!rc)
		rc = array_allocate(&family.pids, relatives.count, sizeof(*family.pids));
	if (rc)
		return rc;
	// The root is known before anybody else: those above it are no members, whatever their pids.
	for (uint32_t i = 0; i < relatives.count; i++)
		if (list[i].pid == pid)
			list[i].membership = MEMBER;
	for (uint32_t i = 0; i < relatives.count; i++) {
		judge(&relatives, &list[i]);
		if (list[i].membership == MEMBER)
			family.pids[family.count++] = list[i].pid;
	}
	*ret_family = family;
	return 0;
}

void process_family_deinit(struct process_family *family)
{
	free(family->pids);
	*family = (struct process_family){ 0 };
}

bool process_family_has(const struct process_family *family, pid_t pid)
{
	return family->count &&
	       bsearch(&pid, family->pids, family->count, sizeof(pid), compare_pids);
}
