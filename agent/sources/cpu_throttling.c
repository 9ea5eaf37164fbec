// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/cpu_throttling.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
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

/* Where the time is, in cgroup v1 and v2: of a cgroup's own quota only (Documentation/scheduler/sched-bwc.rst). */
static const char CONTROLLER[] = "cpu", STAT_FILE[] = "cpu.stat", PERIODS_KEY[] = "nr_periods";

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

struct cpu_throttling {
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
	struct cpu_throttling_stats stats;
};

static uint64_t hash_of_path(const char *path)
{
	return hash64_of(path, strlen(path));
}

// ---- reading --------------------------------------------------------------------------------

// @path is relative to the mount. *ret_active: this cgroup may count at all.
static int read_number(const struct cpu_throttling *throttling, const char *path,
		       uint64_t *ret_value, bool *ret_active)
{
	bool unified = throttling->hierarchy.unified;
	char name[CGROUP_PATH_BYTES + 32], text[CGROUP_STAT_BYTES];
	uint64_t active = 1, number;

	snprintf(name, sizeof(name), "%s/%s", path[0] ? path : ".", STAT_FILE);
	_cleanup_close_ int fd = openat(throttling->mount_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t size = read(fd, text, sizeof(text));
	if (size < 0)
		return -errno;
	int rc = cgroup_find_number(text, size, unified ? "throttled_usec" : "throttled_time",
				    &number);
	if (rc)
		return rc;
	cgroup_find_number(text, size, PERIODS_KEY, &active);
	*ret_value = number * (unified ? NS_PER_US : 1);
	*ret_active = active || number;
	return 0;
}

// ---- walking all cgroups ---------------------------------------------------------------

/* Of a cgroup at @depth, from 1 on. Returns 0; above 0 to skip its children; below 0 to end the walk. */
typedef int visit_fn(struct cpu_throttling *throttling, const char *path, uint32_t depth);

// @path holds CGROUP_PATH_BYTES and is the same on return.
static int walk(struct cpu_throttling *throttling, char *path, uint32_t depth, visit_fn *visit)
{
	size_t size = strlen(path);
	int fd = openat(throttling->mount_fd, path[0] ? path : ".",
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
			throttling->baselines_truncated = true;
			continue;
		}
		sprintf(path + size, "%s%s", size ? "/" : "", entry->d_name);
		rc = visit(throttling, path, depth);
		if (rc == 0)
			rc = walk(throttling, path, depth + 1, visit);
		path[size] = '\0';
	}
	closedir(folder);
	return rc < 0 ? rc : 0;
}

// ---- our own cgroup ----------------------------------------------------------------------------

// As seen in our namespace.
static int read_path(struct cpu_throttling *throttling, uint32_t pid, char path[CGROUP_PATH_BYTES])
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/%u/cgroup", pid);
	buffer_clear(&throttling->text);
	int rc = proc_read(AT_FDCWD, name, PROC_CGROUP_BYTES_MAX, &throttling->text);
	if (rc)
		return rc;
	return cgroup_find_path((const char *)throttling->text.bytes, throttling->text.size,
				throttling->hierarchy.unified ? NULL : CONTROLLER, path);
}

// Is this process in the cgroup? Its pid is that of our pid namespace.
static bool is_our_group(struct cpu_throttling *throttling, const char *path)
{
	char name[2 * CGROUP_PATH_BYTES + 32];
	const char *text;
	char *end;

	snprintf(name, sizeof(name), "%s%s/cgroup.procs", path, throttling->own_path);
	buffer_clear(&throttling->text);
	if (proc_read(throttling->mount_fd, name, PROC_CGROUP_BYTES_MAX, &throttling->text))
		return false;
	text = buffer_string(&throttling->text);
	while (*text) {
		if (strtol(text, &end, 10) == getpid())
			return true;
		text = *end ? end + 1 : end;
	}
	return false;
}

static int visit_for_home(struct cpu_throttling *throttling, const char *path, uint32_t depth)
{
	struct cgroup_hierarchy *hierarchy = &throttling->hierarchy;

	if (depth < cgroup_hierarchy_height(hierarchy))
		return 0;
	if (!is_our_group(throttling, path))
		return 1;
	snprintf(hierarchy->home, sizeof(hierarchy->home), "/%s", path);
	return -EEXIST; // the only one
}

/*
 * In a container, paths of cgroups begin at its own; those of others have "/.." in front. Where the host's
 * hierarchy is mounted, ours is the cgroup in it that has this process.
 */
static void find_home(struct cpu_throttling *throttling)
{
	char path[CGROUP_PATH_BYTES] = "";

	if (!cgroup_hierarchy_height(&throttling->hierarchy) ||
	    read_path(throttling, getpid(), throttling->own_path) ||
	    strncmp(throttling->own_path, "/..", 3) == 0)
		return;
	walk(throttling, path, 1, visit_for_home);
}

// ---- baselines ------------------------------------------------------------

static int add_baseline(struct cpu_throttling *throttling, const char *path)
{
	uint64_t value = 0;
	bool active;

	if (throttling->baseline_count == CGROUP_BASELINES_MAX) {
		throttling->baselines_truncated = true;
		throttling->stats.baselines_dropped++;
		return -E2BIG;
	}
	if (array_reserve(&throttling->baselines, sizeof(*throttling->baselines),
			  &throttling->baseline_capacity, throttling->baseline_count, 1,
			  CGROUP_BASELINES_MAX))
		return -ENOMEM;
	read_number(throttling, path, &value, &active); // without the file it counted nothing
	throttling->baselines[throttling->baseline_count++] =
		(struct baseline){ .hash = hash_of_path(path), .value = value };
	return 0;
}

static int visit_for_baseline(struct cpu_throttling *throttling, const char *path, uint32_t depth)
{
	(void)depth;
	return add_baseline(throttling, path);
}

static int compare_baselines(const void *a, const void *b)
{
	const struct baseline *first = a, *second = b;

	return first->hash < second->hash ? -1 : first->hash > second->hash;
}

static struct baseline *find_baseline(const struct cpu_throttling *throttling, const char *path)
{
	struct baseline key = { .hash = hash_of_path(path) };

	if (!throttling->baseline_count)
		return NULL;
	return bsearch(&key, throttling->baselines, throttling->baseline_count, sizeof(key),
		       compare_baselines);
}

// From where the count of a cgroup is taken that is read for the first time; @value: its count now.
static uint64_t beginning_of(const struct cpu_throttling *throttling, const char *path,
			     uint64_t value)
{
	const struct baseline *baseline = find_baseline(throttling, path);

	if (baseline)
		return baseline->value <= value ? baseline->value
						: 0; // else a new one of that name
	return throttling->baselines_truncated ? value : 0;
}

static int visit_existing(struct cpu_throttling *throttling, const char *path, uint32_t depth)
{
	struct baseline *baseline = find_baseline(throttling, path);

	(void)depth;
	if (baseline)
		baseline->exists = true;
	return 0;
}

// cgroups come and go for months: removed ones need no baseline.
static void prune_baselines(struct cpu_throttling *throttling)
{
	uint64_t now_ns = clock_monotonic_ns();
	char path[CGROUP_PATH_BYTES] = "";
	uint32_t kept = 0;

	if (throttling->pruned_ns && now_ns - throttling->pruned_ns < PRUNE_INTERVAL_NS)
		return;
	throttling->pruned_ns = now_ns;
	for (uint32_t i = 0; i < throttling->baseline_count; i++)
		throttling->baselines[i].exists = false;
	walk(throttling, path, 1, visit_existing);
	for (uint32_t i = 0; i < throttling->baseline_count; i++) {
		if (throttling->baselines[i].exists)
			throttling->baselines[kept++] = throttling->baselines[i];
	}
	throttling->baseline_count = kept;
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
static const struct process *find_owner(const struct cpu_throttling *throttling, uint32_t group)
{
	struct votes votes = { .services = 0 };
	uint32_t best = 0;

	for (uint32_t i = 0; i < throttling->member_count; i++) {
		const struct member *member = &throttling->members[i];
		const struct process *process =
			is_in(member, group)
				? process_table_find(throttling->processes, &member->key)
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

static int keep_value(struct cpu_throttling *throttling, uint32_t group, uint64_t from_ns,
		      uint64_t to_ns, uint64_t amount)
{
	const struct process *owner = find_owner(throttling, group);
	struct value value = { .from_ns = from_ns, .to_ns = to_ns, .amount = amount };

	if (!owner)
		return -ESRCH;
	int rc = array_reserve(&throttling->values, sizeof(*throttling->values),
			       &throttling->value_capacity, throttling->value_count, 1,
			       CGROUP_VALUES_MAX);
	if (!rc)
		rc = labels_copy(&owner->labels, &value.labels);
	// The whole cgroup's, not one program's.
	if (!rc && labels_set(&value.labels, LABEL_PROCESS, "") == -ENOMEM)
		rc = -ENOMEM;
	if (rc) {
		labels_deinit(&value.labels);
		return rc;
	}
	throttling->values[throttling->value_count++] = value;
	return 0;
}

// ---- groups ---------------------------------------------------------------------------------

static bool path_equals(const void *context, uint32_t item, const void *path)
{
	const struct cpu_throttling *throttling = context;

	return strcmp(throttling->groups[item].path, path) == 0;
}

static void read_group(struct cpu_throttling *throttling, uint32_t at, uint64_t now_ns)
{
	struct group *group = &throttling->groups[at];
	uint64_t value, realtime_ns = clock_realtime_ns(), from_ns = group->read_ns;
	bool active = false;

	throttling->stats.reads++;
	group->again_ns = now_ns + IDLE_INTERVAL_NS;
	if (read_number(throttling, group->path, &value, &active))
		return; // removed, or without this controller
	if (active)
		group->again_ns = now_ns + READ_INTERVAL_NS;
	if (!from_ns) {
		group->value = beginning_of(throttling, group->path, value);
		from_ns = realtime_ns;
	} else if (value < group->value) {
		group->value = 0; // a new one of that name
	}
	if (value > group->value &&
	    keep_value(throttling, at, from_ns, realtime_ns, value - group->value))
		throttling->stats.values_dropped++;
	group->value = value;
	group->read_ns = realtime_ns;
}

// Find or add; *ret_group is untouched on failure.
static int get_group(struct cpu_throttling *throttling, const char *path, uint32_t *ret_group)
{
	uint64_t hash = hash_of_path(path);
	uint32_t at =
		hash_table_find(&throttling->group_index, hash, path_equals, throttling, path);

	if (at != HASH_TABLE_NONE) {
		*ret_group = at;
		return 0;
	}
	if (throttling->stats.groups == CGROUPS_MAX)
		return -E2BIG;
	for (at = 0; at < throttling->group_count && throttling->groups[at].path; at++)
		;
	if (at == throttling->group_count &&
	    array_reserve(&throttling->groups, sizeof(*throttling->groups),
			  &throttling->group_capacity, at, 1, CGROUPS_MAX))
		return -ENOMEM;
	char *copy = strdup(path);
	if (!copy || hash_table_add(&throttling->group_index, hash, at)) {
		free(copy);
		return -ENOMEM;
	}
	throttling->groups[at] = (struct group){ .path = copy };
	if (at == throttling->group_count)
		throttling->group_count++;
	throttling->stats.groups++;
	*ret_group = at;
	return 0;
}

static void keep_baseline(struct cpu_throttling *throttling, const struct group *group)
{
	struct baseline *baseline = find_baseline(throttling, group->path);

	if (!baseline && throttling->baseline_count == CGROUP_BASELINES_MAX)
		prune_baselines(throttling);
	if (baseline) {
		baseline->value = group->value;
	} else if (!add_baseline(throttling, group->path)) {
		throttling->baselines[throttling->baseline_count - 1].value = group->value;
		qsort(throttling->baselines, throttling->baseline_count,
		      sizeof(*throttling->baselines), compare_baselines);
	}
}

static void leave_group(struct cpu_throttling *throttling, uint32_t at)
{
	struct group *group = &throttling->groups[at];

	if (--group->members)
		return;
	hash_table_remove(&throttling->group_index, hash_of_path(group->path), at);
	// When it is tracked again, only the increase counts.
	if (group->value)
		keep_baseline(throttling, group);
	free(take(group->path));
	throttling->stats.groups--;
}

// ---- members --------------------------------------------------------------------------------

static bool member_equals(const void *context, uint32_t item, const void *key)
{
	const struct cpu_throttling *throttling = context;

	return memcmp(&throttling->members[item].key, key, sizeof(struct process_key)) == 0;
}

static uint64_t hash_of_key(const struct process_key *key)
{
	return hash64_of(key, sizeof(*key));
}

// The cgroup of @path, and those above it up to the root, which has no limits.
static int join_groups(struct cpu_throttling *throttling, struct member *member, char *path)
{
	int rc = 0;

	while (path[0] && member->depth < DEPTH_MAX && !rc) {
		char *slash = strrchr(path, '/');

		rc = get_group(throttling, path, &member->groups[member->depth]);
		if (!rc)
			throttling->groups[member->groups[member->depth++]].members++;
		if (!slash)
			break;
		*slash = '\0';
	}
	return rc;
}

static void leave_groups(struct cpu_throttling *throttling, const struct member *member)
{
	for (uint32_t i = 0; i < member->depth; i++)
		leave_group(throttling, member->groups[i]);
}

static void add_member(void *context, const struct process *process)
{
	struct cpu_throttling *throttling = context;
	struct member member = { .key = process->key };
	char seen[CGROUP_PATH_BYTES], path[CGROUP_PATH_BYTES];
	uint64_t hash = hash_of_key(&process->key);

	if (hash_table_find(&throttling->member_index, hash, member_equals, throttling,
			    &process->key) != HASH_TABLE_NONE)
		return;
	if (array_reserve(&throttling->members, sizeof(*throttling->members),
			  &throttling->member_capacity, throttling->member_count, 1,
			  CGROUP_MEMBERS_MAX)) {
		throttling->stats.dropped++;
		return;
	}
	int rc = read_path(throttling, process->key.pid, seen);
	if (rc == -ESRCH)
		return; // just exited
	if (rc || cgroup_path_below_mount(&throttling->hierarchy, seen, path))
		throttling->stats.unreachable++;
	else if (join_groups(throttling, &member, path + 1))
		throttling->stats.dropped++;
	// Kept without cgroups, too, so that it is not tried five times a second.
	if (hash_table_add(&throttling->member_index, hash, throttling->member_count)) {
		leave_groups(throttling, &member);
		return;
	}
	throttling->members[throttling->member_count++] = member;
}

// A cgroup may be removed right after its last process exits: its count is read now.
static void remove_member(struct cpu_throttling *throttling, uint32_t at, uint64_t now_ns)
{
	struct member *member = &throttling->members[at];

	for (uint32_t i = 0; i < member->depth; i++) {
		if (throttling->groups[member->groups[i]].members == 1)
			read_group(throttling, member->groups[i], now_ns);
	}
	leave_groups(throttling, member);
	hash_table_remove(&throttling->member_index, hash_of_key(&member->key), at);
	uint32_t last = --throttling->member_count;
	if (at == last)
		return;
	hash_table_remove(&throttling->member_index, hash_of_key(&throttling->members[last].key),
			  last);
	*member = throttling->members[last];
	// There is room: two were taken out.
	hash_table_add(&throttling->member_index, hash_of_key(&member->key), at);
}

static void remove_exited(struct cpu_throttling *throttling, uint64_t now_ns)
{
	for (uint32_t i = throttling->member_count; i-- > 0;) {
		const struct process *process =
			process_table_find(throttling->processes, &throttling->members[i].key);

		if (!process || process->exited)
			remove_member(throttling, i, now_ns);
	}
}

// ---- life -----------------------------------------------------------------------------------

/* In a container: on the host itself they are always at their place. */
static bool is_exposed(const struct cpu_throttling *throttling)
{
	static const char own_place[] = "/sys/fs/cgroup";
	struct statvfs mount;

	return strncmp(throttling->hierarchy.mount, own_place, sizeof(own_place) - 1) != 0 &&
	       !fstatvfs(throttling->mount_fd, &mount) && !(mount.f_flag & ST_RDONLY);
}

static int find_hierarchy(struct cpu_throttling *throttling, const char *mountinfo)
{
	struct buffer text = { 0 };
	int rc = proc_read(AT_FDCWD, mountinfo ? mountinfo : "/proc/self/mountinfo",
			   MOUNTINFO_BYTES_MAX, &text);

	if (!rc)
		rc = cgroup_find_hierarchy((const char *)text.bytes, text.size, CONTROLLER,
					   &throttling->hierarchy);
	buffer_deinit(&text);
	if (rc)
		return rc;
	throttling->mount_fd =
		open(throttling->hierarchy.mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (throttling->mount_fd < 0)
		return -errno;
	throttling->stats.is_exposed = is_exposed(throttling);
	return 0;
}

int cpu_throttling_open(const struct cpu_throttling_options *options,
			struct cpu_throttling **ret_throttling, struct error *err)
{
	struct cpu_throttling *throttling = calloc(1, sizeof(*throttling));
	char path[CGROUP_PATH_BYTES] = "";

	if (!throttling)
		return error_set(err, -ENOMEM, "out of memory");
	throttling->processes = options->processes;
	throttling->allowance.ns_per_second = CGROUP_NS_PER_SECOND;
	throttling->mount_fd = -1;
	int rc = find_hierarchy(throttling, options->mountinfo);
	if (rc) {
		error_errno(err, rc, "no cgroup mount with the controller %s", CONTROLLER);
		cpu_throttling_close(throttling);
		return rc;
	}
	find_home(throttling);
	walk(throttling, path, 1, visit_for_baseline);
	if (throttling->baseline_count)
		qsort(throttling->baselines, throttling->baseline_count,
		      sizeof(*throttling->baselines), compare_baselines);
	*ret_throttling = throttling;
	return 0;
}

static void clear_values(struct cpu_throttling *throttling)
{
	for (uint32_t i = 0; i < throttling->value_count; i++)
		labels_deinit(&throttling->values[i].labels);
	throttling->value_count = 0;
}

void cpu_throttling_close(struct cpu_throttling *throttling)
{
	if (!throttling)
		return;
	clear_values(throttling);
	for (uint32_t i = 0; i < throttling->group_count; i++)
		free(throttling->groups[i].path);
	free(throttling->groups);
	free(throttling->members);
	free(throttling->values);
	free(throttling->baselines);
	hash_table_deinit(&throttling->group_index);
	hash_table_deinit(&throttling->member_index);
	buffer_deinit(&throttling->text);
	cleanup_closep(&throttling->mount_fd);
	free(throttling);
}

static void read_due(struct cpu_throttling *throttling, uint64_t now_ns)
{
	uint32_t reads = CGROUP_READS_PER_SECOND / PASSES_PER_SECOND;

	cpu_allowance_begin(&throttling->allowance, now_ns);
	for (uint32_t i = 0; i < throttling->group_count && reads; i++, throttling->next_group++) {
		uint32_t at = throttling->next_group % throttling->group_count;

		if (!throttling->groups[at].path || now_ns < throttling->groups[at].again_ns)
			continue;
		if (!cpu_allowance_is_left(&throttling->allowance)) {
			throttling->stats.passes_cut_short++;
			break;
		}
		read_group(throttling, at, now_ns);
		reads--;
	}
	cpu_allowance_is_left(&throttling->allowance); // charges the last read
}

void cpu_throttling_tick(struct cpu_throttling *throttling, uint64_t now_ns)
{
	if (now_ns < throttling->pass_ns)
		return;
	throttling->pass_ns = now_ns + PASS_INTERVAL_NS;
	uint64_t version = process_table_sampled_version(throttling->processes);
	if (version != throttling->version)
		process_table_each_sampled(throttling->processes, add_member, throttling);
	throttling->version = version;
	read_due(throttling, now_ns);
	remove_exited(throttling, now_ns);
}

void cpu_throttling_before_drain(struct cpu_throttling *throttling)
{
	for (uint32_t i = 0; i < throttling->group_count; i++) {
		if (throttling->groups[i].path && throttling->groups[i].value)
			read_group(throttling, i, clock_monotonic_ns());
	}
}

int cpu_throttling_after_drain(struct cpu_throttling *throttling, struct export_interval *interval)
{
	uint64_t slot_ns = interval->profile->slot_ns;
	int rc = 0;

	for (uint32_t i = 0; i < throttling->value_count && !rc; i++) {
		const struct value *value = &throttling->values[i];
		uint64_t slot = value->from_ns / slot_ns, end = value->to_ns / slot_ns;

		// The slot in which the interval ends belongs to the next one.
		rc = export_interval_add_value(interval, &value->labels, PROFILE_TYPE_THROTTLED,
					       slot, end > slot ? end - 1 : slot,
					       (int64_t)value->amount);
	}
	clear_values(throttling);
	return rc;
}

void cpu_throttling_read_stats(const struct cpu_throttling *throttling,
			       struct cpu_throttling_stats *ret_stats)
{
	*ret_stats = throttling->stats;
}
