// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_jit.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "agent/symbols/jitdump.h"
#include "agent/process/mapped_file.h"
#include "agent/process/perf_map.h"

/* For an address with a name: another function may be there by now. */
#define KNOWN_READ_NS NS_PER_SECOND
/*
 * For an address without a name: doubled each time that reading brought nothing, up to the longer maximum where
 * there are no files. A read costs some 50 us.
 */
#define UNKNOWN_READ_MIN_NS (5 * NS_PER_MS)
#define UNKNOWN_READ_MAX_NS NS_PER_SECOND
#define ABSENT_READ_MAX_NS  (30 * NS_PER_SECOND)

struct process_jit {
	struct perf_map *map; // NULL: none found
	struct jitdump *dump; // NULL: likewise
	uint64_t read_ns;
	uint64_t wait_ns; // until the next read for an address without a name
	uint64_t version; // reads that brought names
};

struct process_jit *process_jit_new(void)
{
	return calloc(1, sizeof(struct process_jit));
}

void process_jit_free(struct process_jit *jit)
{
	if (!jit)
		return;
	perf_map_free(jit->map);
	jitdump_free(jit->dump);
	free(jit);
}

const char *process_jit_find(struct process_jit *jit, uint64_t address)
{
	const char *name = jit->map ? perf_map_find(jit->map, address) : NULL;

	return name || !jit->dump ? name : jitdump_find(jit->dump, address);
}

size_t process_jit_bytes(const struct process_jit *jit)
{
	return (jit->map ? perf_map_bytes(jit->map) : 0) +
	       (jit->dump ? jitdump_bytes(jit->dump) : 0);
}

bool process_jit_is_full(const struct process_jit *jit)
{
	return (jit->map && perf_map_is_full(jit->map)) ||
	       (jit->dump && jitdump_is_full(jit->dump));
}

uint64_t process_jit_version(const struct process_jit *jit)
{
	return jit->version;
}

bool process_jit_wants_read(const struct process_jit *jit, bool known, uint64_t now_ns)
{
	return !jit->read_ns || now_ns - jit->read_ns >= (known ? KNOWN_READ_NS : jit->wait_ns);
}

/* Returns whether there were new names. */
static bool read_map(struct process_jit *jit, const struct proc *proc)
{
	_cleanup_close_ int fd = perf_map_open(proc);

	if (fd < 0)
		return false;
	if (!jit->map)
		jit->map = perf_map_new();
	return jit->map && perf_map_read(jit->map, fd) > 0;
}

static bool read_dump(struct process_jit *jit, const struct proc *proc,
		      const struct mapping_list *list)
{
	const struct mapping *mapping = mapping_list_find_jitdump(list);
	_cleanup_close_ int fd = mapping ? mapped_file_open(proc->files, list, mapping) : -1;

	if (fd < 0)
		return false;
	if (!jit->dump)
		jit->dump = jitdump_new();
	return jit->dump && jitdump_read(jit->dump, fd) > 0;
}

static uint64_t longer_wait(const struct process_jit *jit)
{
	uint64_t wait_max = jit->map || jit->dump ? UNKNOWN_READ_MAX_NS : ABSENT_READ_MAX_NS;
	uint64_t wait = jit->wait_ns ? jit->wait_ns * 2 : UNKNOWN_READ_MIN_NS;

	return wait < wait_max ? wait : wait_max;
}

void process_jit_read(struct process_jit *jit, const struct proc *proc,
		      const struct mapping_list *list, uint64_t now_ns)
{
	bool news = read_map(jit, proc);

	news |= read_dump(jit, proc, list);
	jit->read_ns = now_ns;
	jit->wait_ns = news ? UNKNOWN_READ_MIN_NS : longer_wait(jit);
	jit->version += news;
}
