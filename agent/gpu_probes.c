// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu_probes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/elf_symbols.h"
#include "agent/probe_site.h"
#include "agent/probe_windows.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* Between two looks at what the probes cost that are always there. */
#define LOOK_INTERVAL_NS (10 * NS_PER_SECOND)

enum {
	// A program for each tier, for entry and return, and room for pieces of what was refused.
	LINKS_MAX = 32,
	NOTICES_MAX = 8,
	BREAKPOINT = 0xcc, // int3
};

_Static_assert((int)GPU_CALL_COUNT <= (int)PROBE_KINDS_MAX,
	       "probe_windows.h knows kinds of calls by number");

struct links {
	struct probe_link *links[LINKS_MAX];
	uint32_t count;
};

struct probed_file {
	const struct gpu_driver *driver; // NULL: this place is free
	uint32_t shares_with;            // the number of the file that has the probes; 0: itself
	struct probe_site sites[GPU_PROBES_NAMES_MAX]; // by row of the table
	bool has_site[GPU_PROBES_NAMES_MAX];
	struct links always, windows;
};

struct gpu_probes {
	struct gpu_probes_options options;
	struct probe_windows windows;
	struct probed_file *files[GPU_DRIVERS_MAX];
	uint64_t last_hits[GPU_CALL_COUNT]; // when they were last looked at
	uint64_t looked_ns;
	uint64_t opened_ns; // of the window that is open
	bool is_open;
	uint64_t window_count, refused, hits;
	double cost_ns;
	char notices[NOTICES_MAX][ERROR_TEXT_BYTES];
	uint32_t notice_count, notice_told;
	bool is_refusal_told, is_expensive_told;
};

static void leave_notice(struct gpu_probes *probes, const char *text)
{
	if (probes->notice_count - probes->notice_told < NOTICES_MAX)
		snprintf(probes->notices[probes->notice_count++ % NOTICES_MAX], ERROR_TEXT_BYTES,
			 "%s", text);
}

// ---- attaching ------------------------------------------------------------------------------

static void detach(struct links *links)
{
	// Entries were attached last: nobody enters any more when returns are no longer seen.
	while (links->count)
		probe_link_detach(links->links[--links->count]);
}

static void note_refusal(struct gpu_probes *probes, const struct probed_file *file, uint32_t count,
			 int rc)
{
	char text[ERROR_TEXT_BYTES];

	probes->refused += count;
	if (probes->is_refusal_told)
		return;
	probes->is_refusal_told = true;
	snprintf(text, sizeof(text), "gpu: the kernel refused a probe in %.200s: %s",
		 file->driver->path, strerror(-rc));
	leave_notice(probes, text);
}

/* All places by one link; if one of them is refused, the others without it. */
static void attach_places(struct gpu_probes *probes, const struct probed_file *file,
			  struct links *links, int program_fd, bool at_return,
			  const struct probe_place *places, uint32_t count)
{
	int rc = links->count == LINKS_MAX
			 ? -ENOSPC
			 : probe_link_attach(probes->options.way, program_fd, file->driver->fd,
					     places, count, at_return, &links->links[links->count]);

	if (!rc) {
		links->count++;
		return;
	}
	// Not what is wrong with one place.
	if (count == 1 || rc == -ENOSPC || rc == -EPERM || rc == -EACCES || rc == -ENOMEM ||
	    rc == -EMFILE) {
		note_refusal(probes, file, count, rc);
		return;
	}
	attach_places(probes, file, links, program_fd, at_return, places, count / 2);
	attach_places(probes, file, links, program_fd, at_return, places + count / 2,
		      count - count / 2);
}

static int program_of(const struct gpu_probes *probes, size_t row, bool at_return)
{
	const struct gpu_probe_programs *programs = &probes->options.programs;
	uint32_t call = gpu_cookie_call(probes->options.calls[row].cookie);

	if (!at_return)
		return programs->entry_fds[call];
	return probes->options.calls[row].wants_exit ? programs->return_fds[call] : -1;
}

static enum probe_mode mode_of(const struct gpu_probes *probes, size_t row)
{
	return probes->windows.kinds[gpu_cookie_call(probes->options.calls[row].cookie)].mode;
}

/* Another row, but the same code: two names for one function. */
static bool is_there(const struct probe_place *places, uint32_t count, uint64_t offset)
{
	for (uint32_t i = 0; i < count; i++) {
		if (places[i].offset == offset)
			return true;
	}
	return false;
}

static void attach_program(struct gpu_probes *probes, const struct probed_file *file,
			   enum probe_mode mode, struct links *links, int program_fd,
			   bool at_return)
{
	struct probe_place places[GPU_PROBES_NAMES_MAX];
	uint32_t count = 0;

	for (size_t row = 0; row < probes->options.call_count; row++) {
		uint64_t cookie = probes->options.calls[row].cookie;

		if (!file->has_site[row] || mode_of(probes, row) != mode ||
		    program_of(probes, row, at_return) != program_fd ||
		    is_there(places, count, file->sites[row].offset))
			continue;
		if (mode == PROBE_WINDOWS)
			cookie |= (uint64_t)GPU_CALL_WINDOWED << 16;
		places[count++] = (struct probe_place){ file->sites[row].offset, cookie };
	}
	if (count)
		attach_places(probes, file, links, program_fd, at_return, places, count);
}

static bool is_earlier(const struct gpu_probes *probes, size_t row, bool at_return)
{
	for (size_t i = 0; i < row; i++) {
		if (program_of(probes, i, at_return) == program_of(probes, row, at_return))
			return true;
	}
	return false;
}

static void attach_side(struct gpu_probes *probes, const struct probed_file *file,
			enum probe_mode mode, struct links *links, bool at_return)
{
	for (size_t row = 0; row < probes->options.call_count; row++) {
		int program_fd = program_of(probes, row, at_return);

		if (program_fd >= 0 && !is_earlier(probes, row, at_return))
			attach_program(probes, file, mode, links, program_fd, at_return);
	}
}

/* Returns first: a call that is seen to begin is seen to end. */
static void attach(struct gpu_probes *probes, const struct probed_file *file, enum probe_mode mode,
		   struct links *links)
{
	if (file->shares_with)
		return;
	attach_side(probes, file, mode, links, true);
	attach_side(probes, file, mode, links, false);
}

// ---- kinds ----------------------------------------------------------------------------------

/* What a call of this row costs in this file, by its site. */
static double cost_of(const struct gpu_probes *probes, const struct probed_file *file, size_t row)
{
	const struct probe_cost *cost = &probes->options.cost;
	double ns = 0;

	if (program_of(probes, row, false) >= 0)
		ns += file->sites[row].is_expensive ? cost->stepped_ns : cost->cheap_ns;
	if (program_of(probes, row, true) >= 0)
		ns += cost->return_ns;
	return ns;
}

/* The dearest of all files: it is not known in which of them a kind is called. */
static double cost_of_kind(const struct gpu_probes *probes, uint32_t kind, bool *ret_is_launch)
{
	double dearest = 0;

	for (size_t row = 0; row < probes->options.call_count; row++) {
		if (gpu_cookie_call(probes->options.calls[row].cookie) != kind)
			continue;
		*ret_is_launch |= probes->options.calls[row].tier == GPU_TIER_LAUNCHES;
		for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
			const struct probed_file *file = probes->files[i];
			double cost = file && file->has_site[row] ? cost_of(probes, file, row) : 0;

			if (cost > dearest)
				dearest = cost;
		}
	}
	return dearest;
}

static bool set_kinds(struct gpu_probes *probes, uint64_t now_ns)
{
	bool changed = false;

	for (uint32_t kind = 0; kind < GPU_CALL_COUNT; kind++) {
		bool is_launch = false;
		double cost = cost_of_kind(probes, kind, &is_launch);

		changed |= probe_windows_set_kind(&probes->windows, kind, is_launch, cost, now_ns);
	}
	return changed;
}

static bool is_return_seen(const struct gpu_probes *probes, uint32_t kind)
{
	for (size_t row = 0; row < probes->options.call_count; row++) {
		if (gpu_cookie_call(probes->options.calls[row].cookie) == kind &&
		    program_of(probes, row, true) >= 0)
			return true;
	}
	return false;
}

/* Look at the kinds of a mode, which were probed for @elapsed_ns since they were last looked at. */
static void look(struct gpu_probes *probes, enum probe_mode mode, uint64_t elapsed_ns)
{
	uint64_t hits[GPU_CALL_COUNT];

	if (!probes->options.read_hits || probes->options.read_hits(probes->options.context, hits))
		return;
	for (uint32_t kind = 0; kind < GPU_CALL_COUNT; kind++) {
		const struct probe_kind *known = &probes->windows.kinds[kind];
		uint64_t news = hits[kind] - probes->last_hits[kind];

		if (known->mode != mode)
			continue;
		uint64_t calls = is_return_seen(probes, kind) ? news / 2 : news;
		probes->last_hits[kind] = hits[kind];
		probes->hits += news;
		probes->cost_ns += (double)calls * known->cost_ns;
		probe_windows_measure(&probes->windows, kind, calls, elapsed_ns);
	}
}

// ---- windows --------------------------------------------------------------------------------

static void open_window(struct gpu_probes *probes)
{
	struct gpu_window window;

	// What was seen before is of the time between windows: of kinds that were probed always.
	look(probes, PROBE_WINDOWS, 0);
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (probes->files[i])
			attach(probes, probes->files[i], PROBE_WINDOWS, &probes->files[i]->windows);
	}
	probes->is_open = true;
	probes->opened_ns = clock_monotonic_ns();
	probes->window_count++;
	probe_windows_open(&probes->windows, probes->opened_ns, &window);
	if (probes->options.set_window)
		probes->options.set_window(probes->options.context, &window);
}

static void close_window(struct gpu_probes *probes)
{
	look(probes, PROBE_WINDOWS, clock_monotonic_ns() - probes->opened_ns);
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (probes->files[i])
			detach(&probes->files[i]->windows);
	}
	probes->is_open = false;
}

static void say_modes(struct gpu_probes *probes, const enum probe_mode before[GPU_CALL_COUNT])
{
	static const char *const words[] = {
		[PROBE_ABSENT] = "no longer",
		[PROBE_ALWAYS] = "always",
		[PROBE_WINDOWS] = "in windows only",
		[PROBE_OFF] = "not at all",
	};
	char text[ERROR_TEXT_BYTES];

	for (size_t row = 0; row < probes->options.call_count; row++) {
		uint32_t kind = gpu_cookie_call(probes->options.calls[row].cookie);
		const struct probe_kind *known = &probes->windows.kinds[kind];
		bool is_first = true;

		for (size_t i = 0; i < row && is_first; i++)
			is_first = gpu_cookie_call(probes->options.calls[i].cookie) != kind;
		if (!is_first || known->mode == before[kind])
			continue;
		snprintf(text, sizeof(text),
			 "gpu: calls like %s are seen %s from now on: %.0f a second at %.0f ns "
			 "each, of a budget of %.2f %% of a core",
			 probes->options.calls[row].symbol, words[known->mode], known->rate,
			 known->cost_ns, 100 * probes->windows.budget);
		leave_notice(probes, text);
	}
}

/* Who is always there has changed. */
static void attach_again(struct gpu_probes *probes)
{
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (!probes->files[i])
			continue;
		detach(&probes->files[i]->always);
		attach(probes, probes->files[i], PROBE_ALWAYS, &probes->files[i]->always);
	}
}

static void decide(struct gpu_probes *probes, uint64_t now_ns)
{
	enum probe_mode before[GPU_CALL_COUNT];

	for (uint32_t kind = 0; kind < GPU_CALL_COUNT; kind++)
		before[kind] = probes->windows.kinds[kind].mode;
	if (!probe_windows_decide(&probes->windows, now_ns))
		return;
	say_modes(probes, before);
	attach_again(probes);
}

void gpu_probes_tick(struct gpu_probes *probes, uint64_t now_ns)
{
	switch (probe_windows_step(&probes->windows, now_ns)) {
	case PROBE_STEP_OPEN:
		open_window(probes);
		break;
	case PROBE_STEP_CLOSE:
		close_window(probes);
		decide(probes, now_ns);
		break;
	default:
		break;
	}
	// While a window is open its probes are counted there.
	if (now_ns - probes->looked_ns < LOOK_INTERVAL_NS || probes->is_open)
		return;
	look(probes, PROBE_ALWAYS, now_ns - probes->looked_ns);
	probes->looked_ns = now_ns;
	decide(probes, now_ns);
}

// ---- files ----------------------------------------------------------------------------------

static uint32_t find_sites(const struct gpu_probes *probes, struct probed_file *file,
			   const struct elf_symbols *symbols)
{
	uint32_t found = 0;

	for (size_t row = 0; row < probes->options.call_count; row++) {
		const struct gpu_call_symbol *call = &probes->options.calls[row];

		file->has_site[row] = call->library == file->driver->library &&
				      !probe_site_find(symbols, call->symbol, &file->sites[row]);
		found += file->has_site[row];
	}
	return found;
}

static int read_sites(struct gpu_probes *probes, struct probed_file *file)
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
	uint32_t found = find_sites(probes, file, &symbols);
	elf_symbols_deinit(&symbols);
	return found ? 0 : -ENOENT;
}

/*
 * Is there a breakpoint at this place already, in whoever maps the file? We map it to see. Files of
 * containers have a device and inode of their own in each, and one file below them, which is what
 * the kernel's probes are in.
 */
static bool is_probed(const struct gpu_driver *driver, uint64_t offset)
{
	uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE), at = offset % page_bytes;
	uint8_t own;

	if (pread(driver->fd, &own, 1, (off_t)offset) != 1 || own == BREAKPOINT)
		return false;
	const uint8_t *page = mmap(NULL, page_bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, driver->fd,
				   (off_t)(offset - at));
	if (page == MAP_FAILED)
		return false;
	bool is = *(const volatile uint8_t *)(page + at) == BREAKPOINT;
	munmap((void *)page, page_bytes);
	return is;
}

/* The file of ours whose probes are in this one, too; 0: none. */
static uint32_t find_sharer(const struct gpu_probes *probes, const struct probed_file *file)
{
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		const struct probed_file *other = probes->files[i];

		if (!other || other == file || other->shares_with || !other->always.count ||
		    strcmp(other->driver->build_id, file->driver->build_id) != 0)
			continue;
		for (size_t row = 0; row < probes->options.call_count; row++) {
			if (!other->has_site[row] || mode_of(probes, row) != PROBE_ALWAYS ||
			    program_of(probes, row, false) < 0)
				continue;
			if (is_probed(file->driver, other->sites[row].offset))
				return other->driver->number;
			break;
		}
	}
	return 0;
}

static void note_expensive(struct gpu_probes *probes, const struct probed_file *file)
{
	char text[ERROR_TEXT_BYTES];

	for (size_t row = 0; row < probes->options.call_count; row++) {
		if (!file->has_site[row] || !file->sites[row].is_expensive ||
		    probes->is_expensive_told)
			continue;
		probes->is_expensive_told = true;
		snprintf(text, sizeof(text),
			 "gpu: %s of %.160s has no cheap place for a probe: each call of it costs "
			 "%u ns while it is seen",
			 probes->options.calls[row].symbol, file->driver->path,
			 probes->options.cost.stepped_ns);
		leave_notice(probes, text);
	}
}

void gpu_probes_add(void *context, const struct gpu_driver *driver)
{
	struct gpu_probes *probes = context;
	char text[ERROR_TEXT_BYTES];
	uint32_t at = 0;

	while (at < GPU_DRIVERS_MAX && probes->files[at])
		at++;
	struct probed_file *file = at < GPU_DRIVERS_MAX ? calloc(1, sizeof(*file)) : NULL;
	if (!file)
		return;
	file->driver = driver;
	int rc = read_sites(probes, file);
	if (rc) {
		snprintf(text, sizeof(text), "gpu: calls of %.200s are not seen: %s", driver->path,
			 rc == -ENOENT ? "it has none of the functions that are known"
				       : strerror(-rc));
		leave_notice(probes, text);
		free(file);
		return;
	}
	probes->files[at] = file;
	set_kinds(probes, clock_monotonic_ns());
	note_expensive(probes, file);
	file->shares_with = find_sharer(probes, file);
	attach(probes, file, PROBE_ALWAYS, &file->always);
	if (probes->is_open)
		attach(probes, file, PROBE_WINDOWS, &file->windows);
}

/* Who shared the probes of a file that has gone has its own. */
static void adopt_sharers(struct gpu_probes *probes, uint32_t number)
{
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		struct probed_file *file = probes->files[i];

		if (!file || file->shares_with != number)
			continue;
		file->shares_with = find_sharer(probes, file);
		attach(probes, file, PROBE_ALWAYS, &file->always);
		if (probes->is_open)
			attach(probes, file, PROBE_WINDOWS, &file->windows);
	}
}

void gpu_probes_remove(void *context, const struct gpu_driver *driver)
{
	struct gpu_probes *probes = context;

	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (!probes->files[i] || probes->files[i]->driver != driver)
			continue;
		struct probed_file *file = take(probes->files[i]);
		detach(&file->windows);
		detach(&file->always);
		free(file);
	}
	adopt_sharers(probes, driver->number);
	set_kinds(probes, clock_monotonic_ns());
}

// ---- public ---------------------------------------------------------------------------------

int gpu_probes_open(const struct gpu_probes_options *options, struct gpu_probes **ret_probes,
		    struct error *err)
{
	if (options->call_count > GPU_PROBES_NAMES_MAX)
		return error_set(err, -E2BIG, "gpu: %zu functions to probe, %d are the most",
				 options->call_count, GPU_PROBES_NAMES_MAX);
	struct gpu_probes *probes = calloc(1, sizeof(*probes));
	if (!probes)
		return error_set(err, -ENOMEM, "out of memory");
	probes->options = *options;
	probes->looked_ns = clock_monotonic_ns();
	probe_windows_init(&probes->windows,
			   options->budget > 0 ? options->budget : GPU_PROBES_BUDGET,
			   probes->looked_ns);
	if (options->read_hits)
		options->read_hits(options->context, probes->last_hits);
	*ret_probes = probes;
	return 0;
}

void gpu_probes_close(struct gpu_probes *probes)
{
	if (!probes)
		return;
	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		struct probed_file *file = take(probes->files[i]);

		if (!file)
			continue;
		detach(&file->windows);
		detach(&file->always);
		free(file);
	}
	probe_link_settle();
	free(probes);
}

const char *gpu_probes_next_notice(struct gpu_probes *probes)
{
	if (probes->notice_told == probes->notice_count)
		return NULL;
	return probes->notices[probes->notice_told++ % NOTICES_MAX];
}

static void count_file(const struct gpu_probes *probes, const struct probed_file *file,
		       struct gpu_probes_stats *stats)
{
	if (file->shares_with) {
		stats->shared++;
		return;
	}
	stats->files++;
	for (size_t row = 0; row < probes->options.call_count; row++) {
		if (!file->has_site[row])
			continue;
		stats->functions++;
		stats->expensive += file->sites[row].is_expensive;
	}
}

void gpu_probes_read_stats(const struct gpu_probes *probes, struct gpu_probes_stats *ret_stats)
{
	struct gpu_probes_stats stats = {
		.refused = probes->refused,
		.weight = probes->windows.weight,
		.windows = probes->window_count,
		.hits = probes->hits,
		.cost_ns = (uint64_t)probes->cost_ns,
		.budget = probes->windows.budget,
		.cost = probes->windows.always + probes->windows.windows,
	};

	for (uint32_t i = 0; i < GPU_DRIVERS_MAX; i++) {
		if (probes->files[i])
			count_file(probes, probes->files[i], &stats);
	}
	for (uint32_t kind = 0; kind < GPU_CALL_COUNT; kind++) {
		const struct probe_kind *known = &probes->windows.kinds[kind];

		stats.windowed += known->mode == PROBE_WINDOWS && !known->is_launch;
		stats.off += known->mode == PROBE_OFF;
	}
	*ret_stats = stats;
}
