// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/probed_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/elf/elf_symbols.h"
#include "base/cleanup.h"

enum { BREAKPOINT = 0xcc }; // int3

// ---- sites ----------------------------------------------------------------------------------

static uint32_t find_sites(struct probed_file *file, const struct elf_symbols *symbols)
{
	uint32_t found = 0;

	for (size_t row = 0; row < file->options->call_count; row++) {
		const struct gpu_call_symbol *call = &file->options->calls[row];

		file->has_site[row] = call->library == file->driver->library &&
				      !probe_site_find(symbols, call->symbol, &file->sites[row]);
		found += file->has_site[row];
	}
	return found;
}

static int read_sites(struct probed_file *file)
{
	struct elf_symbols symbols;
	struct stat status;
	struct error err;
	struct elf elf;

	if (fstat(file->driver->fd, &status))
		return -errno;
	int rc = elf_read_headers(file->driver->fd, &status, &elf, &err);
	if (!rc)
		rc = elf_symbols_init(&symbols, &elf);
	if (rc)
		return rc;
	uint32_t found = find_sites(file, &symbols);
	elf_symbols_deinit(&symbols);
	return found ? 0 : -ENOENT;
}

// ---- attaching ------------------------------------------------------------------------------

int probed_file_program(const struct probed_file_options *options, size_t row, bool at_return)
{
	uint32_t call = gpu_cookie_call(options->calls[row].cookie);

	if (!at_return)
		return options->programs.entry_fds[call];
	return options->calls[row].wants_exit ? options->programs.return_fds[call] : -1;
}

static enum probe_mode mode_of(const struct probed_file *file, size_t row)
{
	return file->cycle->kinds[gpu_cookie_call(file->options->calls[row].cookie)].mode;
}

/* One link for all places; where the kernel refuses it, halves of it, until only the refused place is left out. */
static void attach_places(struct probed_file *file, struct probe_links *links, int program_fd,
			  bool at_return, const struct probe_place *places, uint32_t count)
{
	int rc = links->count == PROBED_FILE_LINKS_MAX
			 ? -ENOSPC
			 : probe_link_attach(file->options->way, program_fd, file->driver->fd,
					     places, count, at_return, &links->links[links->count]);

	if (!rc) {
		links->count++;
		return;
	}
	// No single place is at fault: halves would fail as well.
	if (count == 1 || rc == -ENOSPC || rc == -EPERM || rc == -EACCES || rc == -ENOMEM ||
	    rc == -EMFILE) {
		file->refused += count;
		file->refusal = rc;
		return;
	}
	attach_places(file, links, program_fd, at_return, places, count / 2);
	attach_places(file, links, program_fd, at_return, places + count / 2, count - count / 2);
}

/* Two rows may be names of one function: a second probe at its site would count calls twice. */
static bool is_there(const struct probe_place *places, uint32_t count, uint64_t offset)
{
	for (uint32_t i = 0; i < count; i++) {
		if (places[i].offset == offset)
			return true;
	}
	return false;
}

static bool is_memory_call(uint32_t call)
{
	return call >= GPU_CALL_MEMORY_FIRST && call <= GPU_CALL_MEMORY_LAST;
}

static bool is_of_set(const struct probed_file *file, size_t row, enum probe_set set)
{
	uint32_t call = gpu_cookie_call(file->options->calls[row].cookie);

	if (set == PROBE_SET_DUTY_CYCLED)
		return mode_of(file, row) == PROBE_DUTY_CYCLE;
	if (set == PROBE_SET_CAPTURES)
		return file->options->calls[row].tier == GPU_TIER_LAUNCHES;
	return mode_of(file, row) == PROBE_ALWAYS &&
	       is_memory_call(call) == (set == PROBE_SET_MEMORY);
}

static void attach_program(struct probed_file *file, enum probe_set set, int program_fd,
			   bool at_return)
{
	struct probe_place places[PROBED_FILE_CALLS_MAX];
	uint32_t count = 0;

	for (size_t row = 0; row < file->options->call_count; row++) {
		uint64_t cookie = file->options->calls[row].cookie;

		if (!file->has_site[row] || !is_of_set(file, row, set) ||
		    probed_file_program(file->options, row, at_return) != program_fd ||
		    is_there(places, count, file->sites[row].offset))
			continue;
		if (set == PROBE_SET_DUTY_CYCLED)
			cookie |= (uint64_t)GPU_CALL_DUTY_CYCLED << 16;
		else if (set == PROBE_SET_CAPTURES)
			cookie |= (uint64_t)GPU_CALL_CAPTURES << 16;
		else if (set == PROBE_SET_ALWAYS)
			cookie |= (uint64_t)file->generation << 16;
		places[count++] = (struct probe_place){ file->sites[row].offset, cookie };
	}
	if (count)
		attach_places(file, &file->links[set], program_fd, at_return, places, count);
}

static bool is_earlier(const struct probed_file_options *options, size_t row, bool at_return)
{
	for (size_t i = 0; i < row; i++) {
		if (probed_file_program(options, i, at_return) ==
		    probed_file_program(options, row, at_return))
			return true;
	}
	return false;
}

static void attach_side(struct probed_file *file, enum probe_set set, bool at_return)
{
	for (size_t row = 0; row < file->options->call_count; row++) {
		int program_fd = probed_file_program(file->options, row, at_return);

		if (program_fd >= 0 && !is_earlier(file->options, row, at_return))
			attach_program(file, set, program_fd, at_return);
	}
}

/* Memory kinds that are always attached, as bits. */
static uint64_t memory_kinds(const struct probed_file *file)
{
	uint64_t kinds = 0;

	for (uint32_t call = GPU_CALL_MEMORY_FIRST; call <= GPU_CALL_MEMORY_LAST; call++)
		kinds |= (uint64_t)(file->cycle->kinds[call].mode == PROBE_ALWAYS) << call;
	return kinds;
}

void probed_file_attach(struct probed_file *file, enum probe_set set)
{
	if (set == PROBE_SET_MEMORY)
		file->memory_kinds = memory_kinds(file);
	if (file->shares_with)
		return;
	// Returns first, so that each call whose entry is seen has its return seen.
	attach_side(file, set, true);
	attach_side(file, set, false);
}

/* In reverse order: entries go first, so that no open call misses its return. */
static void detach_all(struct probe_links *links)
{
	while (links->count)
		probe_link_detach(links->links[--links->count]);
}

void probed_file_detach(struct probed_file *file, enum probe_set set)
{
	detach_all(&file->links[set]);
}

void probed_file_attach_next(struct probed_file *file, uint32_t generation)
{
	detach_all(&file->former);
	file->former = file->links[PROBE_SET_ALWAYS];
	file->links[PROBE_SET_ALWAYS].count = 0;
	file->generation = generation;
	probed_file_attach(file, PROBE_SET_ALWAYS);
	if (file->memory_kinds == memory_kinds(file))
		return;
	probed_file_detach(file, PROBE_SET_MEMORY);
	probe_link_settle();
	probed_file_attach(file, PROBE_SET_MEMORY);
}

void probed_file_detach_former(struct probed_file *file)
{
	detach_all(&file->former);
}

// ---- public ---------------------------------------------------------------------------------

int probed_file_open(const struct gpu_driver *driver, const struct probed_file_options *options,
		     const struct probe_duty_cycle *cycle, struct probed_file **ret_file)
{
	struct probed_file *file = calloc(1, sizeof(*file));

	if (!file)
		return -ENOMEM;
	file->driver = driver;
	file->options = options;
	file->cycle = cycle;
	int rc = read_sites(file);
	if (rc) {
		free(file);
		return rc;
	}
	*ret_file = file;
	return 0;
}

void probed_file_close(struct probed_file *file)
{
	for (uint32_t set = 0; set < PROBE_SET_COUNT; set++)
		probed_file_detach(file, set);
	probed_file_detach_former(file);
	free(file);
}

double probed_file_cost(const struct probed_file *file, size_t row)
{
	const struct probe_cost *cost = &file->options->cost;
	double ns = 0;

	if (!file->has_site[row])
		return 0;
	if (probed_file_program(file->options, row, false) >= 0)
		ns += file->sites[row].is_expensive ? cost->stepped_ns : cost->cheap_ns;
	if (probed_file_program(file->options, row, true) >= 0)
		ns += cost->return_ns;
	return ns;
}

/* Is there a breakpoint at this offset, in any mapping of the file? A mapping of our own shows it. */
static bool has_breakpoint(const struct gpu_driver *driver, uint64_t offset)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), at = offset % page_bytes;
	uint8_t own;

	if (pread(driver->fd, &own, 1, (off_t)offset) != 1 || own == BREAKPOINT)
		return false;
	uint8_t *page = mmap(NULL, page_bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, driver->fd,
			     (off_t)(offset - at));
	if (page == MAP_FAILED)
		return false;
	bool has = *(const volatile uint8_t *)(page + at) == BREAKPOINT;
	munmap(page, page_bytes);
	return has;
}

/*
 * Another agent's breakpoints look like ours. So put one where nobody else would, at the first instruction
 * of a function whose site lies further in, and see whether it shows up in this file as well.
 */
static bool shares_mark(const struct probed_file *file, const struct probed_file *other,
			const struct probe_site *site)
{
	const struct probe_place mark = { .offset = site->offset - site->skip };
	_cleanup_close_ int program_fd = probe_link_load_empty(file->options->way);
	struct probe_link *link;

	if (!site->skip || program_fd < 0 || has_breakpoint(file->driver, mark.offset) ||
	    probe_link_attach(file->options->way, program_fd, other->driver->fd, &mark, 1, false,
			      &link))
		return true; // unknown: counting calls twice would be worse than missing them
	bool shares = has_breakpoint(file->driver, mark.offset);
	probe_link_detach(link);
	probe_link_settle(); // or the next file would find it
	return shares;
}

bool probed_file_is_probed_by(const struct probed_file *file, const struct probed_file *other)
{
	if (other->shares_with || !other->links[PROBE_SET_ALWAYS].count ||
	    strcmp(other->driver->build_id, file->driver->build_id) != 0)
		return false;
	for (size_t row = 0; row < other->options->call_count; row++) {
		if (other->has_site[row] && mode_of(other, row) == PROBE_ALWAYS &&
		    probed_file_program(other->options, row, false) >= 0)
			return has_breakpoint(file->driver, other->sites[row].offset) &&
			       shares_mark(file, other, &other->sites[row]);
	}
	return false;
}
