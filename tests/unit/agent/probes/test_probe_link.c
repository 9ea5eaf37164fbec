// SPDX-License-Identifier: Apache-2.0
#include "agent/probes/probe_link.h"

#include <errno.h>

#include <bpf/bpf.h>

#include "agent/probes/probe_cost.h"
#include "agent/probes/probe_page.h"
#include "base/cleanup.h"
#include "tests/test.h"

/* A program that counts: map[0] += 1, map[1] = the cookie. */
static int load_counter(enum probe_way way, int map_fd)
{
	const struct bpf_insn code[] = {
		// r6 = cookie
		{ BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_get_attach_cookie },
		{ BPF_ALU64 | BPF_MOV | BPF_X, BPF_REG_6, BPF_REG_0, 0, 0 },
		// r1 = the map's value
		{ BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_VALUE, 0, map_fd },
		{ 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_2, 0, 0, 1 },
		{ BPF_STX | BPF_DW | BPF_ATOMIC, BPF_REG_1, BPF_REG_2, 0, BPF_ADD },
		{ BPF_STX | BPF_DW | BPF_MEM, BPF_REG_1, BPF_REG_6, 8, 0 },
		{ BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, 0 },
		{ BPF_JMP | BPF_EXIT, 0, 0, 0, 0 },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options,
		    .expected_attach_type = (enum bpf_attach_type)probe_way_attach_type(way));

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "count", "GPL", code, ARRAY_SIZE(code),
			     &options);
}

struct seen {
	uint64_t hits, cookie;
};

static struct seen read_seen(int map_fd)
{
	struct seen seen = { 0 };
	uint32_t key = 0;

	assert_int_equal(0, bpf_map_lookup_elem(map_fd, &key, &seen));
	return seen;
}

static const enum probe_way ways[] = { PROBE_WAY_MULTI, PROBE_WAY_PERF };

/* Before 6.6 there are no links, though programs for them load. */
static bool works(enum probe_way way)
{
	return way == PROBE_WAY_PERF || probe_link_choose(NULL) == PROBE_WAY_MULTI;
}

TEST(each_way_passes_the_cookie)
{
	struct error err = { 0 };

	if (probe_link_choose(&err) == PROBE_WAY_NONE)
		SKIP(err.text);
	for EACH (way, ways) {
		if (!works(*way))
			continue;
		struct probe_page page;
		struct probe_link *link, *at_return;
		const struct probe_place places[] = { { PROBE_PAGE_CHEAP_AT, 0x1122334455667788 },
						      { PROBE_PAGE_STEPPED_AT, 2 } };
		_cleanup_close_ int map_fd =
			bpf_map_create(BPF_MAP_TYPE_ARRAY, "seen", 4, sizeof(struct seen), 1, NULL);
		_cleanup_close_ int program_fd = load_counter(*way, map_fd);

		assert_true(map_fd >= 0 && program_fd >= 0);
		assert_int_equal(0, probe_page_open(&page));
		assert_int_equal(
			0, probe_link_attach(*way, program_fd, page.fd, places, 2, false, &link));
		for (int i = 0; i < 1000; i++)
			probe_page_call(&page, PROBE_PAGE_STEPPED_AT);
		assert_int_equal(2, read_seen(map_fd).cookie);
		for (int i = 0; i < 1000; i++)
			probe_page_call(&page, PROBE_PAGE_CHEAP_AT);
		assert_int_equal(2000, read_seen(map_fd).hits);
		assert_int_equal(0x1122334455667788, read_seen(map_fd).cookie);
		probe_page_call(&page, PROBE_PAGE_BARE_AT); // nothing is there
		assert_int_equal(2000, read_seen(map_fd).hits);

		assert_int_equal(0, probe_link_attach(*way, program_fd, page.fd, places, 1, true,
						      &at_return));
		probe_page_call(&page, PROBE_PAGE_CHEAP_AT); // entry and return
		assert_int_equal(2002, read_seen(map_fd).hits);
		probe_link_detach(at_return);
		probe_link_detach(link);
		probe_link_settle();
		probe_page_call(&page, PROBE_PAGE_CHEAP_AT);
		assert_int_equal(2002, read_seen(map_fd).hits);
		probe_page_close(&page);
	}
}

TEST(refusal_is_returned_and_nothing_stays_attached)
{
	static struct probe_place places[PROBE_PLACES_MAX + 1];
	struct probe_link *link = NULL;
	struct probe_page page;
	enum probe_way way = probe_link_choose(NULL);

	if (way == PROBE_WAY_NONE)
		SKIP("uprobes are refused here");
	_cleanup_close_ int program_fd = probe_link_load_empty(way);
	assert_int_equal(0, probe_page_open(&page));
	places[0].offset = 1 << 30; // not in the file
	assert_int_not_equal(0,
			     probe_link_attach(way, program_fd, page.fd, places, 1, false, &link));
	assert_int_not_equal(
		0, probe_link_attach(way, program_fd, STDIN_FILENO, places, 1, false, &link));
	assert_int_not_equal(0, probe_link_attach(way, -1, page.fd, places, 1, false, &link));
	assert_int_equal(-EINVAL,
			 probe_link_attach(way, program_fd, page.fd, places, 0, false, &link));
	assert_int_equal(-E2BIG, probe_link_attach(way, program_fd, page.fd, places,
						   PROBE_PLACES_MAX + 1, false, &link));
	assert_int_equal(-EOPNOTSUPP, probe_link_attach(PROBE_WAY_NONE, program_fd, page.fd, places,
							1, false, &link));
	assert_null(link);
	probe_page_close(&page);
}

TEST(emulated_instruction_is_cheaper_than_stepped_one)
{
	enum probe_way way = probe_link_choose(NULL);
	struct probe_cost cost;

	probe_cost_measure(way, &cost);
	print_message("cheap %u ns, stepped %u ns, return %u ns more\n", cost.cheap_ns,
		      cost.stepped_ns, cost.return_ns);
	if (way == PROBE_WAY_NONE)
		SKIP("uprobes are refused here");
	assert_true(cost.is_measured);
	assert_true(cost.cheap_ns > 0);
#if defined(__x86_64__)
	assert_true(cost.stepped_ns > cost.cheap_ns);
#endif
}

TEST(assumes_costs_without_a_measurement)
{
	struct probe_cost cost;

	probe_cost_measure(PROBE_WAY_NONE, &cost);
	assert_false(cost.is_measured);
	assert_true(cost.cheap_ns > 0 && cost.stepped_ns > cost.cheap_ns && cost.return_ns > 0);
}

RUN_TESTS(cmocka_unit_test(each_way_passes_the_cookie),
	  cmocka_unit_test(refusal_is_returned_and_nothing_stays_attached),
	  cmocka_unit_test(emulated_instruction_is_cheaper_than_stepped_one),
	  cmocka_unit_test(assumes_costs_without_a_measurement))
