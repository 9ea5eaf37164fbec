// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/memory_usage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/process/proc.h"
#include "agent/sources/cpu_allowance.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "base/id128.h"

enum {
	STAT_BYTES = 1024,
	// Numbered as in proc(5), from 1.
	FIELD_STATE = 3,
	FIELD_MAJOR_FAULTS = 12,
	FIELD_START_TIME = 22,
	FIELD_RSS = 24,
	// Processes are found and read in so many turns a second.
	TURNS_PER_SECOND = 4,
};

#define TURN_NS (NS_PER_SECOND / TURNS_PER_SECOND)
/* A process is late when it is read so long after the last time. */
#define LATE_NS (2 * NS_PER_SECOND)

struct process_memory_use {
	struct process_key key;
	uint64_t major_faults;                  // at the last reading
	uint64_t new_major_faults;              // not exported yet
	uint64_t read_ns;                       // monotonic; 0: not read yet
	uint64_t first_second;                  // of Unix time; each has a value from here on
	uint64_t second;                        // up to this one
	uint32_t rss_pages[MEMORY_SECONDS_MAX]; // by second, in turn
	bool is_changing;                       // new, or its size changed at the last read
	bool gone;
};

struct memory_usage {
	struct process_table *processes;
	struct process_memory_use *uses;
	uint32_t count, capacity;
	struct hash_table index; // by key
	uint32_t next[2];        // to be read: of all, of changing ones
	uint32_t turn;
	uint64_t turn_ns;
	struct cpu_allowance allowance;
	bool is_short;            // not all were read that were due in the last turn
	uint64_t version;         // of the process table's sampled processes, when last read
	uint64_t exported_second; // the last one, of Unix time
	uint64_t exported_ns;     // Unix time up to which major faults were exported
	uint64_t opened_boot_ns;  // CLOCK_BOOTTIME
	uint64_t page_bytes;
	struct memory_usage_stats stats;
};

// ---- reading --------------------------------------------------------------------------------

static bool parse_field(const char *at, uint64_t *ret_number)
{
	char *end;

	if (*at < '0' || *at > '9')
		return false;
	errno = 0;
	*ret_number = strtoull(at, &end, 10);
	return !errno && (*end == ' ' || *end == '\n' || *end == '\0');
}

int memory_stat_parse(const char *text, size_t size, struct memory_stat *ret_stat)
{
	struct memory_stat stat = { 0 };
	char line[STAT_BYTES];
	bool parsed = true;

	if (size >= sizeof(line))
		size = sizeof(line) - 1; // the fields of interest come early
	memcpy(line, text, size);
	line[size] = '\0';
	// A name may hold anything, parentheses and newlines too: it ends at the last ')'.
	const char *at = strrchr(line, ')');
	if (!at || at[1] != ' ')
		return -EBADMSG;
	at += 2;
	for (int field = FIELD_STATE; field <= FIELD_RSS; field++) {
		if (field == FIELD_MAJOR_FAULTS)
			parsed &= parse_field(at, &stat.major_faults);
		else if (field == FIELD_START_TIME)
			parsed &= parse_field(at, &stat.start_ticks);
		else if (field == FIELD_RSS)
			parsed &= parse_field(at, &stat.rss_pages);
		at = strchr(at, ' ');
		if (!at)
			break;
		at++;
		if (field == FIELD_RSS && parsed) {
			*ret_stat = stat;
			return 0;
		}
	}
	return -EBADMSG;
}

static int read_stat(uint32_t pid, struct memory_stat *ret_stat)
{
	char path[32], text[STAT_BYTES];

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t size = read(fd, text, sizeof(text));
	if (size < 0)
		return -errno;
	return memory_stat_parse(text, size, ret_stat);
}

static uint32_t *pages_in(struct process_memory_use *use, uint64_t second)
{
	return &use->rss_pages[second % MEMORY_SECONDS_MAX];
}

// Seconds without a read keep the value before.
static void fill_up_to(struct process_memory_use *use, uint64_t second)
{
	uint32_t pages = *pages_in(use, use->second);

	if (second > use->second + MEMORY_SECONDS_MAX)
		use->second = second - MEMORY_SECONDS_MAX;
	while (use->second < second)
		*pages_in(use, ++use->second) = pages;
}

static void read_use(struct memory_usage *usage, struct process_memory_use *use, uint64_t now_ns,
		     uint64_t second)
{
	uint64_t start_ticks = use->key.start_ns / (NS_PER_SECOND / PROC_TICKS_PER_SECOND);
	bool is_first = !use->read_ns;
	struct memory_stat stat;

	usage->stats.reads++;
	usage->stats.late += use->is_changing && usage->is_short && now_ns - use->read_ns > LATE_NS;
	use->read_ns = now_ns;
	// The pid may have been reused.
	if (read_stat(use->key.pid, &stat) || stat.start_ticks != start_ticks) {
		use->gone = true;
		return;
	}
	if (is_first) {
		use->first_second = use->second = second;
		// A process older than the agent counts from now on.
		if (use->key.start_ns < usage->opened_boot_ns)
			use->major_faults = stat.major_faults;
	}
	if (stat.rss_pages > UINT32_MAX)
		stat.rss_pages = UINT32_MAX;
	use->is_changing = is_first ? use->key.start_ns >= usage->opened_boot_ns
				    : stat.rss_pages != *pages_in(use, use->second);
	fill_up_to(use, second);
	*pages_in(use, second) = (uint32_t)stat.rss_pages;
	if (stat.major_faults > use->major_faults)
		use->new_major_faults += stat.major_faults - use->major_faults;
	use->major_faults = stat.major_faults;
}

// ---- which ----------------------------------------------------------------------------------

static bool use_equals(const void *context, uint32_t item, const void *key)
{
	const struct memory_usage *usage = context;

	return memcmp(&usage->uses[item].key, key, sizeof(struct process_key)) == 0;
}

static uint64_t hash_of_key(const struct process_key *key)
{
	return hash64_of(key, sizeof(*key));
}

static void add_process(void *context, const struct process *process)
{
	struct memory_usage *usage = context;
	uint64_t hash = hash_of_key(&process->key);

	if (hash_table_find(&usage->index, hash, use_equals, usage, &process->key) !=
	    HASH_TABLE_NONE)
		return;
	if (array_reserve(&usage->uses, sizeof(*usage->uses), &usage->capacity, usage->count, 1,
			  MEMORY_PROCESSES_MAX) ||
	    hash_table_add(&usage->index, hash, usage->count)) {
		usage->stats.dropped++;
		return;
	}
	usage->uses[usage->count++] = (struct process_memory_use){ .key = process->key };
}

static void remove_use(struct memory_usage *usage, uint32_t at)
{
	struct process_memory_use *use = &usage->uses[at];

	hash_table_remove(&usage->index, hash_of_key(&use->key), at);
	uint32_t last = --usage->count;
	if (at == last)
		return;
	hash_table_remove(&usage->index, hash_of_key(&usage->uses[last].key), last);
	*use = usage->uses[last];
	// There is room: two were taken out.
	hash_table_add(&usage->index, hash_of_key(&use->key), at);
}

// ---- life -----------------------------------------------------------------------------------

static uint64_t clock_boot_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return now.tv_sec * NS_PER_SECOND + now.tv_nsec;
}

int memory_usage_open(struct process_table *processes, struct memory_usage **ret_usage,
		      struct error *err)
{
	struct memory_usage *usage = calloc(1, sizeof(*usage));

	if (!usage)
		return error_set(err, -ENOMEM, "out of memory");
	usage->processes = processes;
	usage->page_bytes = sysconf(_SC_PAGESIZE);
	usage->allowance.ns_per_second = MEMORY_NS_PER_SECOND;
	usage->exported_ns = clock_realtime_ns();
	usage->opened_boot_ns = clock_boot_ns();
	usage->exported_second = usage->exported_ns / NS_PER_SECOND;
	*ret_usage = usage;
	return 0;
}

void memory_usage_close(struct memory_usage *usage)
{
	if (!usage)
		return;
	free(usage->uses);
	hash_table_deinit(&usage->index);
	free(usage);
}

// If there are many, those whose size does not change share half of the reads.
static uint64_t quiet_interval_ns(const struct memory_usage *usage)
{
	uint64_t interval_ns = usage->count * NS_PER_SECOND / (MEMORY_READS_PER_SECOND / 2);

	return interval_ns > NS_PER_SECOND ? interval_ns : NS_PER_SECOND;
}

static bool is_due(const struct memory_usage *usage, const struct process_memory_use *use,
		   uint64_t now_ns)
{
	uint64_t interval_ns = use->is_changing ? NS_PER_SECOND : quiet_interval_ns(usage);

	// A little early is in time: ticks jitter.
	return !use->gone && (!use->read_ns || now_ns - use->read_ns >= interval_ns - TURN_NS / 2);
}

// Returns how many of @reads are left; 0, too, when the CPU time is used up.
static uint32_t read_due(struct memory_usage *usage, bool changing_only, uint32_t reads,
			 uint64_t now_ns, uint64_t second)
{
	uint32_t *next = &usage->next[changing_only];

	for (uint32_t i = 0; i < usage->count && reads; i++, ++*next) {
		struct process_memory_use *use = &usage->uses[*next % usage->count];

		if ((changing_only && !use->is_changing) || !is_due(usage, use, now_ns))
			continue;
		if (!cpu_allowance_is_left(&usage->allowance))
			return 0;
		read_use(usage, use, now_ns, second);
		reads--;
	}
	return reads;
}

// Changing ones come first, but not in each turn, so that the others are read, too.
static void read_turn(struct memory_usage *usage, uint64_t now_ns, uint64_t second)
{
	uint32_t reads = MEMORY_READS_PER_SECOND / TURNS_PER_SECOND;

	cpu_allowance_begin(&usage->allowance, now_ns);
	if (usage->turn++ % TURNS_PER_SECOND)
		reads = read_due(usage, true, reads, now_ns, second);
	usage->is_short = !read_due(usage, false, reads, now_ns, second);
	cpu_allowance_is_left(&usage->allowance); // charges the last read
}

void memory_usage_tick(struct memory_usage *usage, uint64_t now_ns, uint64_t realtime_ns)
{
	if (now_ns < usage->turn_ns)
		return;
	usage->turn_ns = now_ns + TURN_NS;
	uint64_t version = process_table_sampled_version(usage->processes);
	if (version != usage->version)
		process_table_each_sampled(usage->processes, add_process, usage);
	usage->version = version;
	read_turn(usage, now_ns, realtime_ns / NS_PER_SECOND);
}

// ---- export --------------------------------------------------------------------------

// One value in each second from @second on, before @end.
static int add_rss(struct export_interval *interval, const struct labels *labels,
		   struct process_memory_use *use, uint64_t second, uint64_t end,
		   uint64_t page_bytes)
{
	uint64_t slot_ns = interval->profile->slot_ns;
	int rc = 0;

	for (; second < end && !rc; second++) {
		uint64_t slot = second * NS_PER_SECOND / slot_ns;
		uint32_t pages = *pages_in(use, second);

		if (pages)
			rc = export_interval_add_value(interval, labels, PROFILE_TYPE_RSS, slot,
						       slot, (int64_t)(pages * page_bytes));
	}
	return rc;
}

static int add_major_faults(struct export_interval *interval, const struct labels *labels,
			    struct process_memory_use *use, uint64_t from_ns, uint64_t to_ns)
{
	uint64_t slot_ns = interval->profile->slot_ns;
	uint64_t slot = from_ns / slot_ns, end = to_ns / slot_ns;

	if (!use->new_major_faults)
		return 0;
	// The slot in which the interval ends belongs to the next one.
	int rc = export_interval_add_value(interval, labels, PROFILE_TYPE_MAJOR_FAULTS, slot,
					   end > slot ? end - 1 : slot,
					   (int64_t)use->new_major_faults);
	use->new_major_faults = 0;
	return rc;
}

static int add_use(struct memory_usage *usage, struct process_memory_use *use,
		   struct export_interval *interval, uint64_t now_ns)
{
	const struct process *process = process_table_find(usage->processes, &use->key);
	uint64_t second = usage->exported_second + 1, end = now_ns / NS_PER_SECOND;

	if (!process || !use->first_second || process->is_excluded ||
	    process_awaits_pod(process, clock_monotonic_ns()))
		return 0;
	if (use->gone && end > use->second + 1)
		end = use->second + 1; // its last read
	if (end > use->second + 1)
		fill_up_to(use, end - 1);
	if (second < use->first_second)
		second = use->first_second;
	int rc = add_rss(interval, &process->labels, use, second, end, usage->page_bytes);
	return rc ? rc
		  : add_major_faults(interval, &process->labels, use, usage->exported_ns, now_ns);
}

int memory_usage_add(struct memory_usage *usage, struct export_interval *interval,
		     uint64_t realtime_ns)
{
	uint64_t end = realtime_ns / NS_PER_SECOND;
	int rc = 0;

	// The current second is one of them.
	if (end >= usage->exported_second + MEMORY_SECONDS_MAX)
		usage->exported_second = end - MEMORY_SECONDS_MAX;
	for (uint32_t i = usage->count; i-- > 0;) {
		if (!rc)
			rc = add_use(usage, &usage->uses[i], interval, realtime_ns);
		if (usage->uses[i].gone)
			remove_use(usage, i);
	}
	if (end)
		usage->exported_second = end - 1;
	usage->exported_ns = realtime_ns;
	return rc;
}

void memory_usage_read_stats(const struct memory_usage *usage, struct memory_usage_stats *ret_stats)
{
	*ret_stats = usage->stats;
	ret_stats->processes = usage->count;
}
