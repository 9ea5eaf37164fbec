// SPDX-License-Identifier: Apache-2.0
#include "agent/probes/probe_cost.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "agent/probes/probe_page.h"

enum {
	ROUNDS = 7, // the fastest counts: the others were interrupted
	CALLS = 100,
	STEPPED_CALLS = 20,
};

/* Measured in a virtual machine under Linux 6.18. */
static const struct probe_cost usual = { .cheap_ns = 450, .stepped_ns = 15000, .return_ns = 460 };

static uint32_t measure(const struct probe_page *page, uint32_t at, uint32_t calls)
{
	uint64_t least_ns = UINT64_MAX;

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t begin_ns = clock_monotonic_ns();

		for (uint32_t i = 0; i < calls; i++)
			probe_page_call(page, at);
		uint64_t took_ns = clock_monotonic_ns() - begin_ns;
		if (took_ns < least_ns)
			least_ns = took_ns;
	}
	return (uint32_t)(least_ns / calls);
}

static uint32_t above(uint32_t ns, uint32_t floor_ns)
{
	return ns > floor_ns ? ns - floor_ns : 0;
}

static void measure_all(const struct probe_page *page, struct probe_cost *cost)
{
	uint32_t bare_ns = measure(page, PROBE_PAGE_BARE_AT, CALLS);

	cost->cheap_ns = above(measure(page, PROBE_PAGE_CHEAP_AT, CALLS), bare_ns);
	cost->stepped_ns = above(measure(page, PROBE_PAGE_STEPPED_AT, STEPPED_CALLS), bare_ns);
	cost->return_ns =
		above(measure(page, PROBE_PAGE_RETURN_AT, CALLS), bare_ns + cost->cheap_ns);
	cost->is_measured = true;
}

static int attach_and_measure(enum probe_way way, const struct probe_page *page, int program_fd,
			      struct probe_cost *cost)
{
	static const struct probe_place entries[] = {
		{ .offset = PROBE_PAGE_CHEAP_AT },
		{ .offset = PROBE_PAGE_STEPPED_AT },
		{ .offset = PROBE_PAGE_RETURN_AT },
	};
	struct probe_link *entry, *exit = NULL;
	int rc = probe_link_attach(way, program_fd, page->fd, entries, ARRAY_SIZE(entries), false,
				   &entry);

	if (rc)
		return rc;
	rc = probe_link_attach(way, program_fd, page->fd, &entries[2], 1, true, &exit);
	if (!rc)
		measure_all(page, cost);
	probe_link_detach(exit);
	probe_link_detach(entry);
	return rc;
}

void probe_cost_measure(enum probe_way way, struct probe_cost *ret_cost)
{
	_cleanup_close_ int program_fd = probe_link_load_empty(way);
	struct probe_cost cost = usual;
	struct probe_page page;

	if (program_fd >= 0 && !probe_page_open(&page)) {
		attach_and_measure(way, &page, program_fd, &cost);
		probe_page_close(&page);
	}
	*ret_cost = cost;
}
