// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/cgroup_counter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/sources/cgroup_files.h"
#include "agent/sources/cpu_allowance.h"
#include "agent/process/proc.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/id128.h"

enum {
	MOUNTINFO_BYTES_MAX = 1 << 20,
	PROC_CGROUP_BYTES_MAX = 64 << 10,
	DEPTH_MAX = 16,        // of groups in groups; the kubelet's are five deep
	SERVICES_MAX = 32,     // that are told apart in one group
	PASSES_PER_SECOND = 5, // of looking for processes that came or went
};

#define PASS_INTERVAL_NS (NS_PER_SECOND / PASSES_PER_SECOND)
/* Who is gone is looked for no more often: to go through 10,000 groups takes 0.1 s. */
#define PRUNE_INTERVAL_NS (600 * NS_PER_SECOND)

/* What is read, in both versions. */
static const struct source {
	const char *controller, *type;
	const char *file, *key; // version 1
	uint64_t unit;
	const char *unified_file, *unified_key;
	uint64_t unified_unit;
	const char *active_key; // while its number is 0 nothing can be counted; NULL: it always can
} sources[] = {
	// cpu.stat, Documentation/scheduler/sched-bwc.rst: a group's own quota only.
	[CGROUP_COUNTER_THROTTLED] = { "cpu", PROFILE_TYPE_THROTTLED, "cpu.stat", "throttled_time",
				       1, "cpu.stat", "throttled_usec", NS_PER_US, "nr_periods" },
	// Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst: the group's own processes.
	[CGROUP_COUNTER_OOM_KILLS] = { "memory", PROFILE_TYPE_OOM_KILLS, "memory.oom_control",
				       "oom_kill", 1, "memory.events.local", "oom_kill", 1, NULL },
};

/* How long between two readings of a group that may count, and of one that does not. */
#define READ_INTERVAL_NS NS_PER_SECOND
#define IDLE_INTERVAL_NS (10 * NS_PER_SECOND)

struct group {
	char *path; // NULL: a hole
	uint64_t value;
	uint64_t read_ns;  // Unix time of the last reading
	uint64_t again_ns; // monotonic
	uint32_t members;  // processes in it or below
};

struct member {
	struct process_key key;
	uint32_t groups[DEPTH_MAX]; // its own one first
	uint32_t depth;
};

/* An amount that waits for a window. */
struct value {
	struct labels labels;
	uint64_t from_ns, to_ns; // Unix time
	uint64_t amount;
};

/* A group that was there when we began, or that we followed. */
struct former {
	uint64_t hash; // of its path
	uint64_t value;
	bool exists; // while those that do not are looked for
};

struct cgroup_counter {
	const struct source *source;
	struct process_table *processes;
	struct cgroup_hierarchy hierarchy;
	char own_path[CGROUP_PATH_BYTES]; // while our namespace's root is looked for
	int mount_fd;
	struct group *groups;
	uint32_t group_count, group_capacity; // with holes
	struct hash_table group_index;        // by path
	struct member *members;
	uint32_t member_count, member_capacity;
	struct hash_table member_index; // by process
	struct value *values;
	uint32_t value_count, value_capacity;
	struct former *formers; // sorted
	uint32_t former_count, former_capacity;
	bool formers_cut; // there are groups that are not among them
	uint64_t pruned_ns;
	uint64_t pass_ns;
	uint64_t version;    // of the table's sampled processes that were taken
	uint32_t next_group; // where the readings go on
	struct cpu_allowance allowance;
	struct buffer text;
	struct cgroup_counter_stats stats;
};

static uint64_t hash_of_path(const char *path)
{
	return hash64_of(path, strlen(path));
}

static int grow(void *array, uint32_t *capacity, size_t size)
{
	uint32_t wanted = *capacity ? *capacity * 2 : 64;
	void *grown = reallocarray(*(void **)array, wanted, size);

	if (!grown)
		return -ENOMEM;
	*(void **)array = grown;
	*capacity = wanted;
	return 0;
}

// ---- reading --------------------------------------------------------------------------------

// @path is relative to the mount. *ret_active: this group may count at all.
static int read_number(const struct cgroup_counter *counter, const char *path, uint64_t *ret_value,
		       bool *ret_active)
{
	const struct source *source = counter->source;
	bool unified = counter->hierarchy.unified;
	char name[CGROUP_PATH_BYTES + 32], text[CGROUP_STAT_BYTES];
	uint64_t active = 1, number;

	snprintf(name, sizeof(name), "%s/%s", path[0] ? path : ".",
		 unified ? source->unified_file : source->file);
	_cleanup_close_ int fd = openat(counter->mount_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t size = read(fd, text, sizeof(text));
	if (size < 0)
		return -errno;
	int rc = cgroup_find_number(text, size, unified ? source->unified_key : source->key,
				    &number);
	if (rc)
		return rc;
	if (source->active_key)
		cgroup_find_number(text, size, source->active_key, &active);
	*ret_value = number * (unified ? source->unified_unit : source->unit);
	*ret_active = active || number;
	return 0;
}

// ---- looking through all groups ---------------------------------------------------------------

/* Of a group at @depth, from 1 on. Returns 0; above 0: what is below is passed by; below 0: the end. */
typedef int visit_fn(struct cgroup_counter *counter, const char *path, uint32_t depth);

// Children's paths are put together in @path, which holds CGROUP_PATH_BYTES.
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
		return 0; // it has just gone
	}
	while (rc >= 0 && (entry = readdir(folder))) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if (depth == DEPTH_MAX || size + 1 + strlen(entry->d_name) >= CGROUP_PATH_BYTES) {
			counter->formers_cut = true;
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

// ---- our own group ----------------------------------------------------------------------------

// As our namespace sees it.
static int read_path(struct cgroup_counter *counter, uint32_t pid, char path[CGROUP_PATH_BYTES])
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/%u/cgroup", pid);
	buffer_clear(&counter->text);
	int rc = proc_read(AT_FDCWD, name, PROC_CGROUP_BYTES_MAX, &counter->text);
	if (rc)
		return rc;
	return cgroup_find_path((const char *)counter->text.bytes, counter->text.size,
				counter->hierarchy.unified ? NULL : counter->source->controller,
				path);
}

// Is this process in the group? Its pid is what our pid namespace has.
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
 * A container's view of groups begins at its own, and tells of others' only how far up they are. Where the
 * host's groups are mounted that one is found by this process, which is in it.
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

// ---- groups that were there before ------------------------------------------------------------

static int add_former(struct cgroup_counter *counter, const char *path)
{
	uint64_t value = 0;
	bool active;

	if (counter->former_count == CGROUP_FORMERS_MAX) {
		counter->formers_cut = true;
		counter->stats.unremembered++;
		return -E2BIG;
	}
	if (counter->former_count == counter->former_capacity &&
	    grow(&counter->formers, &counter->former_capacity, sizeof(*counter->formers)))
		return -ENOMEM;
	read_number(counter, path, &value, &active); // without the file it has counted nothing
	counter->formers[counter->former_count++] =
		(struct former){ .hash = hash_of_path(path), .value = value };
	return 0;
}

static int visit_former(struct cgroup_counter *counter, const char *path, uint32_t depth)
{
	(void)depth;
	return add_former(counter, path);
}

static int compare_formers(const void *a, const void *b)
{
	const struct former *first = a, *second = b;

	return first->hash < second->hash ? -1 : first->hash > second->hash;
}

static struct former *find_former(const struct cgroup_counter *counter, const char *path)
{
	struct former key = { .hash = hash_of_path(path) };

	if (!counter->former_count)
		return NULL;
	return bsearch(&key, counter->formers, counter->former_count, sizeof(key), compare_formers);
}

// Where the count of a group that we see for the first time begins. @value is what it is now.
static uint64_t beginning_of(const struct cgroup_counter *counter, const char *path, uint64_t value)
{
	const struct former *former = find_former(counter, path);

	if (former)
		return former->value <= value ? former->value : 0; // else another one of that name
	return counter->formers_cut ? value : 0;
}

static int visit_existing(struct cgroup_counter *counter, const char *path, uint32_t depth)
{
	struct former *former = find_former(counter, path);

	(void)depth;
	if (former)
		former->exists = true;
	return 0;
}

// Groups come and go for months: a path that is gone need not be remembered.
static void prune_formers(struct cgroup_counter *counter)
{
	uint64_t now_ns = clock_monotonic_ns();
	char path[CGROUP_PATH_BYTES] = "";
	uint32_t kept = 0;

	if (counter->pruned_ns && now_ns - counter->pruned_ns < PRUNE_INTERVAL_NS)
		return;
	counter->pruned_ns = now_ns;
	for (uint32_t i = 0; i < counter->former_count; i++)
		counter->formers[i].exists = false;
	walk(counter, path, 1, visit_existing);
	for (uint32_t i = 0; i < counter->former_count; i++) {
		if (counter->formers[i].exists)
			counter->formers[kept++] = counter->formers[i];
	}
	counter->former_count = kept;
}

// ---- whose ----------------------------------------------------------------------------------

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

// A process of the service that has the most of them in @group and below; NULL: none is known.
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
	if (counter->value_count == CGROUP_VALUES_MAX)
		return -E2BIG;
	if (counter->value_count == counter->value_capacity &&
	    grow(&counter->values, &counter->value_capacity, sizeof(*counter->values)))
		return -ENOMEM;
	int rc = labels_copy(&owner->labels, &value.labels);
	// The group's, not one program's of it.
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
		return; // it has gone, or has no such controller
	if (active)
		group->again_ns = now_ns + READ_INTERVAL_NS;
	if (!from_ns) {
		group->value = beginning_of(counter, group->path, value);
		from_ns = realtime_ns;
	} else if (value < group->value) {
		group->value = 0; // it was made anew
	}
	if (value > group->value &&
	    keep_value(counter, at, from_ns, realtime_ns, value - group->value))
		counter->stats.values_lost++;
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
	if (at == counter->group_capacity &&
	    grow(&counter->groups, &counter->group_capacity, sizeof(*counter->groups)))
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

static void remember_former(struct cgroup_counter *counter, const struct group *group)
{
	struct former *former = find_former(counter, group->path);

	if (!former && counter->former_count == CGROUP_FORMERS_MAX)
		prune_formers(counter);
	if (former) {
		former->value = group->value;
	} else if (!add_former(counter, group->path)) {
		counter->formers[counter->former_count - 1].value = group->value;
		qsort(counter->formers, counter->former_count, sizeof(*counter->formers),
		      compare_formers);
	}
}

static void leave_group(struct cgroup_counter *counter, uint32_t at)
{
	struct group *group = &counter->groups[at];

	if (--group->members)
		return;
	hash_table_remove(&counter->group_index, hash_of_path(group->path), at);
	// Should it be seen again, only what is new is to be counted.
	if (group->value)
		remember_former(counter, group);
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

// The group of @path, and those above it up to the root, which has no limits.
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
	if (counter->member_count == CGROUP_MEMBERS_MAX ||
	    (counter->member_count == counter->member_capacity &&
	     grow(&counter->members, &counter->member_capacity, sizeof(*counter->members)))) {
		counter->stats.refused++;
		return;
	}
	int rc = read_path(counter, process->key.pid, seen);
	if (rc == -ESRCH)
		return; // it has just gone
	if (rc || cgroup_path_below_mount(&counter->hierarchy, seen, path))
		counter->stats.unreachable++;
	else if (join_groups(counter, &member, path + 1))
		counter->stats.refused++;
	// Kept without groups, too, so as not to be tried five times a second.
	if (hash_table_add(&counter->member_index, hash, counter->member_count)) {
		leave_groups(counter, &member);
		return;
	}
	counter->members[counter->member_count++] = member;
}

// A group may be gone a moment after its last process: what it counted is read at once.
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
					   counter->source->controller, &counter->hierarchy);
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
	counter->source = &sources[options->kind];
	counter->processes = options->processes;
	counter->allowance.ns_per_second = CGROUP_NS_PER_SECOND;
	counter->mount_fd = -1;
	int rc = find_hierarchy(counter, options->mountinfo);
	if (rc) {
		error_errno(err, rc, "no control groups with the controller \"%s\" are mounted",
			    counter->source->controller);
		cgroup_counter_close(counter);
		return rc;
	}
	find_home(counter);
	walk(counter, path, 1, visit_former);
	if (counter->former_count)
		qsort(counter->formers, counter->former_count, sizeof(*counter->formers),
		      compare_formers);
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
	free(counter->formers);
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
			counter->stats.put_off++;
			break;
		}
		read_group(counter, at, now_ns);
		reads--;
	}
	cpu_allowance_is_left(&counter->allowance); // what the last one took
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

		// The slot that the window ends in is the next one's.
		rc = export_interval_add_value(interval, &value->labels, counter->source->type,
					       slot, end > slot ? end - 1 : slot,
					       (int64_t)value->amount);
	}
	clear_values(counter);
	return rc;
}

void cgroup_counter_read_stats(const struct cgroup_counter *counter,
			       struct cgroup_counter_stats *ret_stats)
{
	*ret_stats = counter->stats;
}
