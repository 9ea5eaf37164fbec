// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/cgroup_counter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/process/proc.h"
#include "agent/sources/cgroup_files.h"
#include "agent/sources/cpu_allowance.h"
#include "base/array.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/id128.h"
#include "base/contract/label_names.h"

enum {
	MOUNTINFO_BYTES_MAX = 1 << 20,
	PROC_CGROUP_BYTES_MAX = 64 << 10,
	DEPTH_MAX = 16,        // of nested cgroups; the kubelet's are five deep
	SERVICES_MAX = 32,     // of one cgroup
	PASSES_PER_SECOND = 5, // that look for new and exited processes
};

#define PASS_INTERVAL_NS (NS_PER_SECOND / PASSES_PER_SECOND)
/* Between two searches for removed cgroups: walking 10,000 of them takes 0.1 s. */
#define PRUNE_INTERVAL_NS (600 * NS_PER_SECOND)

/* Where the counts are, in cgroup v1 and v2. */
static const struct stat_file {
	const char *controller, *type;
	const char *file, *key; // version 1
	uint64_t unit;
	const char *unified_file, *unified_key;
	uint64_t unified_unit;
	const char *active_key; // while its number is 0, nothing is counted; NULL: always counted
} stat_files[] = {
	// Documentation/scheduler/sched-bwc.rst: a cgroup's own quota only.
	[CGROUP_COUNTER_THROTTLED] = { "cpu", PROFILE_TYPE_THROTTLED, "cpu.stat", "throttled_time",
				       1, "cpu.stat", "throttled_usec", NS_PER_US, "nr_periods" },
	// Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst: the cgroup's own processes.
	[CGROUP_COUNTER_OOM_KILLS] = { "memory", PROFILE_TYPE_OOM_KILLS, "memory.oom_control",
				       "oom_kill", 1, "memory.events.local", "oom_kill", 1, NULL },
};

/* Between two reads of a cgroup that may count, and of one that does not. */
#define READ_INTERVAL_NS NS_PER_SECOND
#define IDLE_INTERVAL_NS (10 * NS_PER_SECOND)

struct group {
	char *path; // NULL: free
	uint64_t value;
	uint64_t read_ns;  // Unix time of the last reading
	uint64_t again_ns; // monotonic
	uint32_t members;  // processes in it and below
};

struct member {
	struct process_key key;
	uint32_t groups[DEPTH_MAX]; // its own first
	uint32_t depth;
};

/* An increase, for the next export interval. */
struct value {
	struct labels labels;
	uint64_t from_ns, to_ns; // Unix time
	uint64_t amount;
};

/* The count from which a cgroup's increase is measured: of one older than the agent, or tracked before. */
struct baseline {
	uint64_t hash; // of its path
	uint64_t value;
	bool exists; // while removed ones are searched
};

struct cgroup_counter {
	const struct stat_file *file;
	struct process_table *processes;
	struct cgroup_hierarchy hierarchy;
	char own_path[CGROUP_PATH_BYTES]; // while our namespace's root is searched
	int mount_fd;
	struct group *groups;
	uint32_t group_count, group_capacity; // with free ones
	struct hash_table group_index;        // by path
	struct member *members;
	uint32_t member_count, member_capacity;
	struct hash_table member_index; // by process
	struct value *values;
	uint32_t value_count, value_capacity;
	struct baseline *baselines; // sorted
	uint32_t baseline_count, baseline_capacity;
	bool baselines_truncated; // not all cgroups have one
	uint64_t pruned_ns;
	uint64_t pass_ns;
	uint64_t version;    // of the process table's sampled processes, when last read
	uint32_t next_group; // to be read
	struct cpu_allowance allowance;
	struct buffer text;
	struct cgroup_counter_stats stats;
};

static uint64_t hash_of_path(const char *path)
{
	return hash64_of(path, strlen(path));
}

// ---- reading --------------------------------------------------------------------------------

// @path is relative to the mount. *ret_active: this cgroup may count at all.
static int read_number(const struct cgroup_counter *counter, const char *path, uint64_t *ret_value,
		       bool *ret_active)
{
	const struct stat_file *file = counter->file;
	bool unified = counter->hierarchy.unified;
	char name[CGROUP_PATH_BYTES + 32], text[CGROUP_STAT_BYTES];
	uint64_t active = 1, number;

	snprintf(name, sizeof(name), "%s/%s", path[0] ? path : ".",
		 unified ? file->unified_file : file->file);
	_cleanup_close_ int fd = openat(counter->mount_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t size = read(fd, text, sizeof(text));
	if (size < 0)
		return -errno;
	int rc = cgroup_find_number(text, size, unified ? file->unified_key : file->key, &number);
	if (rc)
		return rc;
	if (file->active_key)
		cgroup_find_number(text, size, file->active_key, &active);
	*ret_value = number * (unified ? file->unified_unit : file->unit);
	*ret_active = active || number;
	return 0;
}

// ---- walking all cgroups ---------------------------------------------------------------

/* Of a cgroup at @depth, from 1 on. Returns 0; above 0 to skip its children; below 0 to end the walk. */
typedef int visit_fn(struct cgroup_counter *counter, const char *path, uint32_t depth);

// @path holds CGROUP_PATH_BYTES and is the same on return.
static int walk(struct cgroup_counter *counter, char *path, uint32_t depth, visit_fn *visit)
{
	size_t size = strlen(path);
	int fd =
		openat(counter->mount_fd, path[0] ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	int rc = 0;

	if (!folder) {
		if (fd >= 0)
			close(fd);
		return 0; // just removed
	}
	while (rc >= 0 && (entry = readdir(folder))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if (depth == DEPTH_MAX || size + 1 + strlen(entry->d_name) >= CGROUP_PATH_BYTES) {
			counter->baselines_truncated = true;
			continue;
		}
		sprintf(path + size, "%s%s", size ? "/" : "", entry->d_name);
		rc = visit(counter, path, depth);
		if (rc == 0)
			rc = walk(counter, path, depth + 1, visit);
		path[size] = '\0';
	}
	closedir(folder);
	return rc < 0 ? rc : 0;
}

// ---- our own cgroup ----------------------------------------------------------------------------

// As seen in our namespace.
static int read_path(struct cgroup_counter *counter, uint32_t pid, char path[CGROUP_PATH_BYTES])
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/%u/cgroup", pid);
	buffer_clear(&counter->text);
	int rc = proc_read(AT_FDCWD, name, PROC_CGROUP_BYTES_MAX, &counter->text);
	if (rc)
		return rc;
	return cgroup_find_path((const char *)counter->text.bytes, counter->text.size,
				counter->hierarchy.unified ? NULL : counter->file->controller,
				path);
}

// Is this process in the cgroup? Its pid is that of our pid namespace.
static bool is_our_group(struct cgroup_counter *counter, const char *path)
{
	char name[2 * CGROUP_PATH_BYTES + 32];
	const char *text;
	char *end;

	snprintf(name, sizeof(name), "%s%s/cgroup.procs", path, counter->own_path);
	buffer_clear(&counter->text);
	if (proc_read(counter->mount_fd, name, PROC_CGROUP_BYTES_MAX, &counter->text))
		return false;
	text = buffer_string(&counter->text);
	while (*text) {
		if (strtol(text, &end, 10) == getpid())
			return true;
		text = *end ? end + 1 : end;
	}
	return false;
}

static int visit_for_home(struct cgroup_counter *counter, const char *path, uint32_t depth)
{
	struct cgroup_hierarchy *hierarchy = &counter->hierarchy;

	if (depth < cgroup_hierarchy_height(hierarchy))
		return 0;
	if (!is_our_group(counter, path))
		return 1;
	snprintf(hierarchy->home, sizeof(hierarchy->home), "/%s", path);
	return -EEXIST; // the only one
}

/*
 * In a container, paths of cgroups begin at its own; those of others have "/.." in front. Where the host's
 * hierarchy is mounted, ours is the cgroup in it that has this process.
 */
static void find_home(struct cgroup_counter *counter)
{
	char path[CGROUP_PATH_BYTES] = "";

	if (!cgroup_hierarchy_height(&counter->hierarchy) ||
	    read_path(counter, getpid(), counter->own_path) ||
	    strncmp(counter->own_path, "/..", 3) == 0)
		return;
	walk(counter, path, 1, visit_for_home);
}

// ---- baselines ------------------------------------------------------------

static int add_baseline(struct cgroup_counter *counter, const char *path)
{
	uint64_t value = 0;
	bool active;

	if (counter->baseline_count == CGROUP_BASELINES_MAX) {
		counter->baselines_truncated = true;
		counter->stats.baselines_dropped++;
		return -E2BIG;
	}
	if (array_reserve(&counter->baselines, sizeof(*counter->baselines),
			  &counter->baseline_capacity, counter->baseline_count, 1,
			  CGROUP_BASELINES_MAX))
		return -ENOMEM;
	read_number(counter, path, &value, &active); // without the file it counted nothing
	counter->baselines[counter->baseline_count++] =
		(struct baseline){ .hash = hash_of_path(path), .value = value };
	return 0;
}

static int visit_for_baseline(struct cgroup_counter *counter, const char *path, uint32_t depth)
{
	(void)depth;
	return add_baseline(counter, path);
}

static int compare_baselines(const void *a, const void *b)
{
	const struct baseline *first = a, *second = b;

	return first->hash < second->hash ? -1 : first->hash > second->hash;
}

static struct baseline *find_baseline(const struct cgroup_counter *counter, const char *path)
{
	struct baseline key = { .hash = hash_of_path(path) };

	if (!counter->baseline_count)
		return NULL;
	return bsearch(&key, counter->baselines, counter->baseline_count, sizeof(key),
		       compare_baselines);
}

// From where the count of a cgroup is taken that is read for the first time; @value: its count now.
static uint64_t beginning_of(const struct cgroup_counter *counter, const char *path, uint64_t value)
{
	const struct baseline *baseline = find_baseline(counter, path);

	if (baseline)
		return baseline->value <= value ? baseline->value
						: 0; // else a new one of that name
	return counter->baselines_truncated ? value : 0;
}

static int visit_existing(struct cgroup_counter *counter, const char *path, uint32_t depth)
{
	struct baseline *baseline = find_baseline(counter, path);

	(void)depth;
	if (baseline)
		baseline->exists = true;
	return 0;
}

// cgroups come and go for months: removed ones need no baseline.
static void prune_baselines(struct cgroup_counter *counter)
{
	uint64_t now_ns = clock_monotonic_ns();
	char path[CGROUP_PATH_BYTES] = "";
	uint32_t kept = 0;

	if (counter->pruned_ns && now_ns - counter->pruned_ns < PRUNE_INTERVAL_NS)
		return;
	counter->pruned_ns = now_ns;
	for (uint32_t i = 0; i < counter->baseline_count; i++)
		counter->baselines[i].exists = false;
	walk(counter, path, 1, visit_existing);
	for (uint32_t i = 0; i < counter->baseline_count; i++) {
		if (counter->baselines[i].exists)
			counter->baselines[kept++] = counter->baselines[i];
	}
	counter->baseline_count = kept;
}

// ---- owners ----------------------------------------------------------------------------------

struct votes {
	const struct process *process[SERVICES_MAX];
	uint32_t count[SERVICES_MAX];
	uint32_t services;
};

static const char *service_of(const struct process *process)
{
	const char *service = labels_get(&process->labels, LABEL_SERVICE);

	return service ? service : "";
}

static void vote(struct votes *votes, const struct process *process)
{
	uint32_t at = 0;

	while (at < votes->services &&
	       strcmp(service_of(votes->process[at]), service_of(process)) != 0)
		at++;
	if (at == SERVICES_MAX)
		return;
	if (at == votes->services) {
		votes->process[votes->services++] = process;
		votes->count[at] = 0;
	}
	votes->count[at]++;
}

static bool is_in(const struct member *member, uint32_t group)
{
	for (uint32_t i = 0; i < member->depth; i++) {
		if (member->groups[i] == group)
			return true;
	}
	return false;
}

// A process of the service with the most processes in @group and below; NULL: none is known.
static const struct process *find_owner(const struct cgroup_counter *counter, uint32_t group)
{
	struct votes votes = { .services = 0 };
	uint32_t best = 0;

	for (uint32_t i = 0; i < counter->member_count; i++) {
		const struct member *member = &counter->members[i];
		const struct process *process =
			is_in(member, group) ? process_table_find(counter->processes, &member->key)
					     : NULL;

		if (process)
			vote(&votes, process);
	}
	for (uint32_t i = 1; i < votes.services; i++) {
		if (votes.count[i] > votes.count[best])
			best = i;
	}
	return votes.services ? votes.process[best] : NULL;
}

static int keep_value(struct cgroup_counter *counter, uint32_t group, uint64_t from_ns,
		      uint64_t to_ns, uint64_t amount)
{
	const struct process *owner = find_owner(counter, group);
	struct value value = { .from_ns = from_ns, .to_ns = to_ns, .amount = amount };

	if (!owner)
		return -ESRCH;
	int rc = array_reserve(&counter->values, sizeof(*counter->values), &counter->value_capacity,
			       counter->value_count, 1, CGROUP_VALUES_MAX);
	if (!rc)
		rc = labels_copy(&owner->labels, &value.labels);
	// The whole cgroup's, not one program's.
	if (!rc && labels_set(&value.labels, LABEL_PROCESS, "") == -ENOMEM)
		rc = -ENOMEM;
	if (rc) {
		labels_deinit(&value.labels);
		return rc;
	}
	counter->values[counter->value_count++] = value;
	return 0;
}

// ---- groups ---------------------------------------------------------------------------------

static bool path_equals(const void *context, uint32_t item, const void *path)
{
	const struct cgroup_counter *counter = context;

	return strcmp(counter->groups[item].path, path) == 0;
}

static void read_group(struct cgroup_counter *counter, uint32_t at, uint64_t now_ns)
{
	struct group *group = &counter->groups[at];
	uint64_t value, realtime_ns = clock_realtime_ns(), from_ns = group->read_ns;
	bool active = false;

	counter->stats.reads++;
	group->again_ns = now_ns + IDLE_INTERVAL_NS;
	if (read_number(counter, group->path, &value, &active))
		return; // removed, or without this controller
	if (active)
		group->again_ns = now_ns + READ_INTERVAL_NS;
	if (!from_ns) {
		group->value = beginning_of(counter, group->path, value);
		from_ns = realtime_ns;
	} else if (value < group->value) {
		group->value = 0; // a new one of that name
	}
	if (value > group->value &&
	    keep_value(counter, at, from_ns, realtime_ns, value - group->value))
		counter->stats.values_dropped++;
	group->value = value;
	group->read_ns = realtime_ns;
}

// Find or add; *ret_group is untouched on failure.
static int get_group(struct cgroup_counter *counter, const char *path, uint32_t *ret_group)
{
	uint64_t hash = hash_of_path(path);
	uint32_t at = hash_table_find(&counter->group_index, hash, path_equals, counter, path);

	if (at != HASH_TABLE_NONE) {
		*ret_group = at;
		return 0;
	}
	if (counter->stats.groups == CGROUPS_MAX)
		return -E2BIG;
	for (at = 0; at < counter->group_count && counter->groups[at].path; at++)
		;
	if (at == counter->group_count &&
	    array_reserve(&counter->groups, sizeof(*counter->groups), &counter->group_capacity, at,
			  1, CGROUPS_MAX))
		return -ENOMEM;
	char *copy = strdup(path);
	if (!copy || hash_table_add(&counter->group_index, hash, at)) {
		free(copy);
		return -ENOMEM;
	}
	counter->groups[at] = (struct group){ .path = copy };
	if (at == counter->group_count)
		counter->group_count++;
	counter->stats.groups++;
	*ret_group = at;
	return 0;
}

static void keep_baseline(struct cgroup_counter *counter, const struct group *group)
{
	struct baseline *baseline = find_baseline(counter, group->path);

	if (!baseline && counter->baseline_count == CGROUP_BASELINES_MAX)
		prune_baselines(counter);
	if (baseline) {
		baseline->value = group->value;
	} else if (!add_baseline(counter, group->path)) {
		counter->baselines[counter->baseline_count - 1].value = group->value;
		qsort(counter->baselines, counter->baseline_count, sizeof(*counter->baselines),
		      compare_baselines);
	}
}

static void leave_group(struct cgroup_counter *counter, uint32_t at)
{
	struct group *group = &counter->groups[at];

	if (--group->members)
		return;
	hash_table_remove(&counter->group_index, hash_of_path(group->path), at);
	// When it is tracked again, only the increase counts.
	if (group->value)
		keep_baseline(counter, group);
	free(take(group->path));
	counter->stats.groups--;
}

// ---- members --------------------------------------------------------------------------------

static bool member_equals(const void *context, uint32_t item, const void *key)
{
	const struct cgroup_counter *counter = context;

	return memcmp(&counter->members[item].key, key, sizeof(struct process_key)) == 0;
}

static uint64_t hash_of_key(const struct process_key *key)
{
	return hash64_of(key, sizeof(*key));
}

// The cgroup of @path, and those above it up to the root, which has no limits.
static int join_groups(struct cgroup_counter *counter, struct member *member, char *path)
{
	int rc = 0;

	while (path[0] && member->depth < DEPTH_MAX && !rc) {
		char *slash = strrchr(path, '/');

		rc = get_group(counter, path, &member->groups[member->depth]);
		if (!rc)
			counter->groups[member->groups[member->depth++]].members++;
		if (!slash)
			break;
		*slash = '\0';
	}
	return rc;
}

static void leave_groups(struct cgroup_counter *counter, const struct member *member)
{
	for (uint32_t i = 0; i < member->depth; i++)
		leave_group(counter, member->groups[i]);
}

static void add_member(void *context, const struct process *process)
{
	struct cgroup_counter *counter = context;
	struct member member = { .key = process->key };
	char seen[CGROUP_PATH_BYTES], path[CGROUP_PATH_BYTES];
	uint64_t hash = hash_of_key(&process->key);

	if (hash_table_find(&counter->member_index, hash, member_equals, counter, &process->key) !=
	    HASH_TABLE_NONE)
		return;
	if (array_reserve(&counter->members, sizeof(*counter->members), &counter->member_capacity,
			  counter->member_count, 1, CGROUP_MEMBERS_MAX)) {
		counter->stats.dropped++;
		return;
	}
	int rc = read_path(counter, process->key.pid, seen);
	if (rc == -ESRCH)
		return; // just exited
	if (rc || cgroup_path_below_mount(&counter->hierarchy, seen, path))
		counter->stats.unreachable++;
	else if (join_groups(counter, &member, path + 1))
		counter->stats.dropped++;
	// Kept without cgroups, too, so that it is not tried five times a second.
	if (hash_table_add(&counter->member_index, hash, counter->member_count)) {
		leave_groups(counter, &member);
		return;
	}
	counter->members[counter->member_count++] = member;
}

// A cgroup may be removed right after its last process exits: its count is read now.
static void remove_member(struct cgroup_counter *counter, uint32_t at, uint64_t now_ns)
{
	struct member *member = &counter->members[at];

	for (uint32_t i = 0; i < member->depth; i++) {
		if (counter->groups[member->groups[i]].members == 1)
			read_group(counter, member->groups[i], now_ns);
	}
	leave_groups(counter, member);
	hash_table_remove(&counter->member_index, hash_of_key(&member->key), at);
	uint32_t last = --counter->member_count;
	if (at == last)
		return;
	hash_table_remove(&counter->member_index, hash_of_key(&counter->members[last].key), last);
	*member = counter->members[last];
	// There is room: two were taken out.
	hash_table_add(&counter->member_index, hash_of_key(&member->key), at);
}

static void remove_exited(struct cgroup_counter *counter, uint64_t now_ns)
{
	for (uint32_t i = counter->member_count; i-- > 0;) {
		const struct process *process =
			process_table_find(counter->processes, &counter->members[i].key);

		if (!process || process->exited)
			remove_member(counter, i, now_ns);
	}
}

// ---- life -----------------------------------------------------------------------------------

static int find_hierarchy(struct cgroup_counter *counter, const char *mountinfo)
{
	struct buffer text = { 0 };
	int rc = proc_read(AT_FDCWD, mountinfo ? mountinfo : "/proc/self/mountinfo",
			   MOUNTINFO_BYTES_MAX, &text);

	if (!rc)
		rc = cgroup_find_hierarchy((const char *)text.bytes, text.size,
					   counter->file->controller, &counter->hierarchy);
	buffer_deinit(&text);
	if (rc)
		return rc;
	counter->mount_fd = open(counter->hierarchy.mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return counter->mount_fd < 0 ? -errno : 0;
}

int cgroup_counter_open(const struct cgroup_counter_options *options,
			struct cgroup_counter **ret_counter, struct error *err)
{
	struct cgroup_counter *counter = calloc(1, sizeof(*counter));
	char path[CGROUP_PATH_BYTES] = "";

	if (!counter)
		return error_set(err, -ENOMEM, "out of memory");
	counter->file = &stat_files[options->kind];
	counter->processes = options->processes;
	counter->allowance.ns_per_second = CGROUP_NS_PER_SECOND;
	counter->mount_fd = -1;
	int rc = find_hierarchy(counter, options->mountinfo);
	if (rc) {
		error_errno(err, rc, "no cgroup mount with the controller %s",
			    counter->file->controller);
		cgroup_counter_close(counter);
		return rc;
	}
	find_home(counter);
	walk(counter, path, 1, visit_for_baseline);
	if (counter->baseline_count)
		qsort(counter->baselines, counter->baseline_count, sizeof(*counter->baselines),
		      compare_baselines);
	*ret_counter = counter;
	return 0;
}

static void clear_values(struct cgroup_counter *counter)
{
	for (uint32_t i = 0; i < counter->value_count; i++)
		labels_deinit(&counter->values[i].labels);
	counter->value_count = 0;
}

void cgroup_counter_close(struct cgroup_counter *counter)
{
	if (!counter)
		return;
	clear_values(counter);
	for (uint32_t i = 0; i < counter->group_count; i++)
		free(counter->groups[i].path);
	free(counter->groups);
	free(counter->members);
	free(counter->values);
	free(counter->baselines);
	hash_table_deinit(&counter->group_index);
	hash_table_deinit(&counter->member_index);
	buffer_deinit(&counter->text);
	cleanup_closep(&counter->mount_fd);
	free(counter);
}

static void read_due(struct cgroup_counter *counter, uint64_t now_ns)
{
	uint32_t reads = CGROUP_READS_PER_SECOND / PASSES_PER_SECOND;

	cpu_allowance_begin(&counter->allowance, now_ns);
	for (uint32_t i = 0; i < counter->group_count && reads; i++, counter->next_group++) {
		uint32_t at = counter->next_group % counter->group_count;

		if (!counter->groups[at].path || now_ns < counter->groups[at].again_ns)
			continue;
		if (!cpu_allowance_is_left(&counter->allowance)) {
			counter->stats.passes_cut_short++;
			break;
		}
		read_group(counter, at, now_ns);
		reads--;
	}
	cpu_allowance_is_left(&counter->allowance); // charges the last read
}

void cgroup_counter_tick(struct cgroup_counter *counter, uint64_t now_ns)
{
	if (now_ns < counter->pass_ns)
		return;
	counter->pass_ns = now_ns + PASS_INTERVAL_NS;
	uint64_t version = process_table_sampled_version(counter->processes);
	if (version != counter->version)
		process_table_each_sampled(counter->processes, add_member, counter);
	counter->version = version;
	read_due(counter, now_ns);
	remove_exited(counter, now_ns);
}

void cgroup_counter_before_drain(struct cgroup_counter *counter)
{
	for (uint32_t i = 0; i < counter->group_count; i++) {
		if (counter->groups[i].path && counter->groups[i].value)
			read_group(counter, i, clock_monotonic_ns());
	}
}

int cgroup_counter_after_drain(struct cgroup_counter *counter, struct export_interval *interval)
{
	uint64_t slot_ns = interval->profile->slot_ns;
	int rc = 0;

	for (uint32_t i = 0; i < counter->value_count && !rc; i++) {
		const struct value *value = &counter->values[i];
		uint64_t slot = value->from_ns / slot_ns, end = value->to_ns / slot_ns;

		// The slot in which the interval ends belongs to the next one.
		rc = export_interval_add_value(interval, &value->labels, counter->file->type, slot,
					       end > slot ? end - 1 : slot, (int64_t)value->amount);
	}
	clear_values(counter);
	return rc;
}

void cgroup_counter_read_stats(const struct cgroup_counter *counter,
			       struct cgroup_counter_stats *ret_stats)
{
	*ret_stats = counter->stats;
}
