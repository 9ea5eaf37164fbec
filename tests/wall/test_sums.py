# SPDX-License-Identifier: Apache-2.0
"""Off-CPU time by stack adds up to the wall clock, for all threads of the machine and at any rate of
context switches; sites' shares against the program's own account."""
import time

import pytest

from fleet import FlameGraph
from test_waits import share_below
from wall import MS, OFF_CPU, SCHED_DELAY, WALL, Program

SECONDS = 10
EXPORT_SECONDS = 5
SUM_ERROR = 0.001
SUM_ROOM_NS = MS // 10  # of threads with less than 0.1 s
SITES = ("site_short", "site_middle", "site_long")
# A CPU's interrupts are in the program's account of a sleep, and not in the thread's off-CPU time.
SHARE_ERROR = 0.02
PAIRS = {"blocked": OFF_CPU, "run_queue": SCHED_DELAY}


class Sums:
    """By thread name, of all that the collector has; what is added later is in neither."""

    def __init__(self, fleet, *matchers):
        self.fleet = fleet
        # Kernel threads have no stacks.
        self.matchers = [*matchers, 'service!="kernel"']
        for _ in range(20):
            self.wall = {state: self._by_thread(WALL, f'state="{state}"') for state in PAIRS}
            self.stacks = {state: self._by_thread(profile_type) for state, profile_type in PAIRS.items()}
            if all(self.wall[state] == self._by_thread(WALL, f'state="{state}"') for state in PAIRS):
                return
        raise AssertionError("the collector's data changed all the time")

    def _by_thread(self, profile_type, *matchers):
        """{name: ns}. Not /series: it answers with the largest only."""
        graph = FlameGraph(self.fleet.api.get(
            "merge", query="{" + ",".join([*self.matchers, *matchers]) + "}", type=profile_type, group_by="thread",
            max_nodes=100000, from_=str(self.fleet.started - 60), to=str(time.time() + 60)))
        return {graph.names[node]: graph.totals[node] for node in range(1, len(graph.names))
                if graph.parents[node] == 0}


def differences(before, after, state):
    """[(thread, ns of the wall clock, ns by stack)] that came between."""
    old_wall, old_stacks, wall, stacks = (getattr(sums, part)[state] for sums in (before, after)
                                          for part in ("wall", "stacks"))
    return [(thread, total - old_wall.get(thread, 0), stacks.get(thread, 0) - old_stacks.get(thread, 0))
            for thread, total in wall.items()]


class Run:
    """The program at a rate, and what came meanwhile."""

    def __init__(self, fleet, rate, seconds):
        self.before = Sums(fleet)
        counters, began = fleet.counters(), time.monotonic()
        self.program = Program("sites", "--rate", rate, "--seconds", seconds).finish()
        self.counted = {name: count - counters[name] for name, count in fleet.counters().items()}
        self.rate = self.counted["switches"] / (time.monotonic() - began)
        time.sleep(EXPORT_SECONDS + 2)
        self.after = Sums(fleet)
        self.own = Sums(fleet, f'service="{self.program.service}"')

    def describe(self):
        captured = self.counted["off_cpu_unwound"] + self.counted["stack_cache_hits"]
        print(f"\n  {self.rate:,.0f} switches/s: {captured:,} stacks, {self.counted['off_cpu_unwound']:,} unwound, "
              f"{self.counted['off_cpu_sampled_out']:,} sampled out")


def wrong_sums(rows):
    return [f"{thread}: wall clock {total / MS:.3f} ms, by stack {by_stack / MS:.3f} ms"
            for thread, total, by_stack in rows
            if abs(by_stack - total) > max(SUM_ERROR * total, SUM_ROOM_NS)]


def rates(config):
    return (1_000, 10_000, 100_000, 1_000_000) if config.getoption("--whole") else (100_000,)


def pytest_generate_tests(metafunc):
    if "run" in metafunc.fixturenames:
        metafunc.parametrize("run", rates(metafunc.config), indirect=True, scope="module")


@pytest.fixture(scope="module")
def run(fleet, request):
    run = Run(fleet, request.param, SECONDS)
    run.describe()
    return run


def test_stacks_add_up_to_wall_clock(run):
    """For all threads of the machine."""
    for state in PAIRS:
        rows = differences(run.before, run.after, state)
        total, by_stack = (sum(row[i] for row in rows) for i in (1, 2))
        print(f"  {state:<8} {len(rows)} thread names: wall clock {total / MS:.1f} ms, by stack {by_stack / MS:.1f} ms")
        assert total > 0
        assert not wrong_sums(rows)


def test_program_adds_up(run):
    for state in PAIRS:
        rows = [(thread, total, run.own.stacks[state].get(thread, 0)) for thread, total in run.own.wall[state].items()]
        assert {"sleeper", "reader"} <= {row[0] for row in rows} or state == "run_queue"
        assert not wrong_sums(rows)


def test_reader_blocks_all_its_life(fleet, run):
    """One thread in one read(): neither more nor less than the time."""
    graph = fleet.graph(run.program.service, "reader", from_=run.program.from_ns, to=run.program.to_ns + 10**10)
    lived, named = SECONDS * 1000 * MS, share_below(graph, "read_all_life")
    print(f"  reader: {graph.total / MS:.1f} of {lived / MS:.0f} ms, {named / MS:.1f} ms in its function")
    assert abs(graph.total - lived) < 0.005 * lived
    assert named > 0.8 * lived  # the program's unwind tables come after its start


@pytest.mark.exact
def test_sites_have_their_shares(fleet, run):
    when = {"from_": run.program.from_ns, "to": run.program.to_ns + 10**10}
    graphs = [fleet.graph(run.program.service, "sleeper", profile_type, **when) for profile_type in PAIRS.values()]
    measured = {site: sum(share_below(graph, site) for graph in graphs) for site in SITES}
    true = {site: run.program.truth[site] for site in SITES}
    errors = {}
    for site in SITES:
        share, wanted = (values[site] / sum(values.values()) for values in (measured, true))
        errors[site] = share / wanted - 1
        print(f"  {site:<12} own account {100 * wanted:.2f} %, cairn {100 * share:.2f} %: {100 * errors[site]:+.2f} %")
    assert run.rate > 30_000 or all(abs(error) <= SHARE_ERROR for error in errors.values())
