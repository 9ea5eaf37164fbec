# SPDX-License-Identifier: Apache-2.0
"""Durations, classes and functions of off-CPU time against the programs' own measurements."""
import itertools
import os
import pathlib
import time

import pytest

from wall import MS, OFF_CPU, SCHED_DELAY, STATES, THROTTLED, Comparison, Program, unique

CGROUP_V1 = pathlib.Path("/sys/fs/cgroup/cpu")
CGROUP_V2 = pathlib.Path("/sys/fs/cgroup")
QUOTA_US, PERIOD_US = 5000, 50000
COUNTERS = ("switches", "off_cpu_unwound", "off_cpu_sampled_out", "off_cpu_busy", "stack_cache_hits", "stack_cache_checked",
            "stack_cache_stale", "counts_new")
WAIT_NS = 3000
ENOUGH_NS = 300 * MS  # minimum to compare where waits are sampled
NOT_SAMPLED = "[truncated: not sampled]"
FEW_STACKS_MAX = 2  # threads with too few sampled stacks, in the short run
# Waits with two correct classes.
ALSO = {"idle": ("poll", "network"), "poll": ("idle",)}


class Cgroup:
    """A control group with a CPU quota, in the hierarchy with the controller; removed at the end."""

    def __init__(self):
        self.folder = None
        if (CGROUP_V1 / "cpu.cfs_quota_us").exists():
            self.folder = CGROUP_V1 / unique("quota")
            self.folder.mkdir()
            (self.folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.folder / "cpu.cfs_quota_us").write_text(str(QUOTA_US))
        elif "cpu" in _text(CGROUP_V2 / "cgroup.subtree_control").split():
            self.folder = CGROUP_V2 / unique("quota")
            self.folder.mkdir()
            (self.folder / "cpu.max").write_text(f"{QUOTA_US} {PERIOD_US}")

    def throttled_ns(self):
        fields = dict(line.split() for line in _text(self.folder / "cpu.stat").splitlines())
        return int(fields["throttled_time"]) if "throttled_time" in fields else \
            1000 * int(fields["throttled_usec"])

    def close(self):
        if self.folder:
            self.folder.rmdir()


def _text(path):
    try:
        return path.read_text()
    except OSError:
        return ""


# Run together in strict mode: few enough waits for the agent to sample each, on an idle machine.
GROUPS = (("waits",), ("pipes", "contend"), ("disk",), ("gil", "migrants"),
          ("pools", "doomed", "forks", "stopped", "throttled"))


class Runs:
    """The programs and their own measurements."""

    def __init__(self, fleet, bounds):
        self.file = fleet.file()
        self.cgroup = Cgroup()
        self.throttled_ns = 0
        self.programs = {}
        self.sampled = {}  # by program: the share of waits sampled out
        try:
            for group in GROUPS if bounds.whole else [sum(GROUPS, ())]:
                self._run(fleet, group, bounds.seconds)
        finally:
            for program in self.programs.values():
                program.process.kill()
                program.process.wait()
            self.cgroup.close()
        fleet.wait_for(list(self.programs.values()))

    def _run(self, fleet, group, seconds):
        before = fleet.counters()
        started = {}
        for name in group:
            argv = self._argv(name, seconds)
            if argv:
                started[name] = Program(*argv, cgroup=self.cgroup.folder if name == "throttled"
                                        else None)
        self.programs.update(started)
        for program in started.values():
            program.finish()
        if "throttled" in started:
            self.throttled_ns = self.cgroup.throttled_ns()
        time.sleep(1)
        counted = {name: count - before[name] for name, count in fleet.counters().items()}
        share = counted["off_cpu_sampled_out"] / max(1, counted["switches"])
        self.sampled.update(dict.fromkeys((program.service for program in started.values()), share))
        print(f"  {', '.join(started)}: {100 * share:.1f} % of off-CPU intervals sampled out; " + ", ".join(
            f"{name} {counted[name]}" for name in COUNTERS if name in counted))

    def _argv(self, name, seconds):
        """None if this machine cannot run it."""
        if name == "waits":
            return ["waits", "--seconds", seconds, "--only",
                    "holder,lock,condition,sleep,poll,epoll,network,accept,peer,child"]
        if name == "pipes":
            return ["waits", "--seconds", seconds, "--only", "ping,pong"]
        if name == "disk":
            return ["waits", "--seconds", seconds, "--only", "disk,page", "--file", self.file] \
                if self.file else None
        if name == "gil":
            return ["gil.py", seconds, 3]
        if name == "pools":
            return ["pools.py", seconds]
        if name == "contend":
            return ["contend", "--seconds", seconds, "--cpu", max(os.sched_getaffinity(0))]
        if name == "throttled" and not self.cgroup.folder:
            return None
        return ["lives", "--part", name, "--seconds", seconds]


@pytest.fixture(scope="module")
def runs(fleet, bounds):
    return Runs(fleet, bounds)


def every_thread(runs):
    for program in runs.programs.values():
        for name, thread in program.threads().items():
            yield program, name, thread


def room(bounds, true, life, waits=0):
    """Each wait may differ by some microseconds: the kernel reads its clocks at other points."""
    return bounds.share * true + bounds.of_elapsed * life["elapsed"] + waits * WAIT_NS


def are_all_chosen(runs, program):
    """Can the agent sample every wait of these programs on this machine? If not, sampled waits have weights
    and sums are right on average."""
    return runs.sampled[program.service] < 0.02


@pytest.mark.exact
def test_states_sum_to_thread_lifetime(fleet, bounds, runs):
    comparison = Comparison()
    for program, name, thread in every_thread(runs):
        life = thread["life"]
        measured = fleet.states(program.service, name)
        comparison.check(f"{name}: lived", life["elapsed"], sum(measured.values()),
                         room(bounds, 0.5 * life["elapsed"], life))
    comparison.done()


@pytest.mark.exact
def test_states_match_programs_accounts(fleet, bounds, runs):
    comparison = Comparison()
    for program, name, thread in every_thread(runs):
        life = thread["life"]
        measured = fleet.states(program.service, name)
        stolen = program.stolen_ns(life)
        for state in STATES:
            comparison.check(f"{name}: {state}", life[state], measured[state],
                             room(bounds, life[state], life, thread["waits"]),
                             less=stolen if state == "blocked" else 0,
                             more=stolen if state == "run_queue" else 0)
        comparison.check(f"{name}: waiting or blocked", life["run_queue"] + life["blocked"],
                         measured["run_queue"] + measured["blocked"],
                         room(bounds, life["run_queue"] + life["blocked"], life, thread["waits"]))
    comparison.done()


@pytest.mark.exact
def test_blocked_stacks_sum_to_blocked_time(fleet, bounds, runs):
    """If the agent samples stacks, sums are right on average only."""
    comparison, true, measured = Comparison(), 0, 0
    for program, name, thread in every_thread(runs):
        life = thread["life"]
        mine = sum(fleet.waits(program.service, name).values())
        true, measured = true + life["blocked"], measured + mine
        if are_all_chosen(runs, program):
            comparison.check(f"{name}: off-CPU", life["blocked"], mine,
                             room(bounds, life["blocked"], life, thread["waits"]),
                             less=program.stolen_ns(life))
    comparison.check("all threads: off-CPU", true, measured, (0.1 if bounds.whole else 0.3) * true)
    comparison.done()


def share_below(graph, function):
    """The part of the value below the function; a Python function matches by name alone."""
    return sum(value for node, value in enumerate(graph.self_values) if node and
               any(name.split(" (")[0].split(".")[-1] == function for name in graph.path(node)))


@pytest.mark.exact
def test_names_blocking_functions(fleet, bounds, runs):
    """Off-CPU time matches if each wait is sampled; names cover all of it."""
    comparison = Comparison()
    for program, name, thread in every_thread(runs):
        if not thread["wait"]:
            continue
        life, function = thread["life"], thread["function"]
        graph = fleet.graph(program.service, name)
        true = thread["in_waits"]["blocked"]
        if function == "burn_with_gil":  # the interpreter chooses where it waits
            true = life["blocked"]
        if are_all_chosen(runs, program):
            comparison.check(f"{name}: in {function}", true, share_below(graph, function),
                             room(bounds, true, life, thread["waits"]),
                             less=program.stolen_ns(life))
        comparison.check_share(f"{name}: named", named_share(graph), bounds.named)
    comparison.done()


def test_off_cpu_stacks_are_complete(fleet, bounds, runs):
    """In the second half of its life: a program's first waits may precede its unwind tables."""
    comparison = Comparison()
    in_function = []
    for program, name, thread in every_thread(runs):
        if not thread["wait"]:
            continue
        middle = (program.from_ns + program.to_ns) // 2
        graph = fleet.graph(program.service, name, from_=middle, to=program.to_ns)
        share = thread["in_waits"]["blocked"] / thread["life"]["blocked"]
        if thread["wait"] == "gil":
            share = 1
        if graph.total > ENOUGH_NS:
            comparison.check_share(f"{name}: complete", complete_share(graph, bounds.whole), bounds.complete)
            # Few samples may have large weights: skip waits of very different lengths.
            blocked = fleet.states(program.service, name, from_=middle, to=program.to_ns)["blocked"]
            if bounds.whole:
                comparison.check(f"{name}: by stack", blocked, graph.total, 0.15 * blocked)
            # Few of thousands of short waits are sampled, and its few long waits are another function's.
            if name == "ping" and not bounds.whole:
                continue
            # Its waits of some 4 us are shorter by the wakeup latency, which is run-queue time.
            least = 0.75 if name == "ping" else bounds.in_function
            in_function.append((share_below(graph, thread["function"]) / graph.total / share, least,
                                f"{name}: in {thread['function']}"))
    # Where half of the off-CPU intervals are sampled out, all that a thread waited may have gone to the only stack that it has.
    for measured, least, what in sorted(in_function)[0 if bounds.whole else FEW_STACKS_MAX:]:
        comparison.check_share(what, measured, least)
    comparison.done()


def share_with(graph, is_good):
    """The part of the value in stacks with symbol names only."""
    good = sum(value for node, value in enumerate(graph.self_values) if node and
               all(is_good(name) for name in graph.path(node)))
    return good / graph.total if graph.total else 0


def named_share(graph):
    return share_with(graph, lambda name: "+0x" not in name)


def complete_share(graph, is_whole_run):
    """In the short run storms sample most waits out: of a long one the kernel part may be all that there is, and it says so."""
    return share_with(graph, lambda name: not name.startswith("[truncated") or
                      (not is_whole_run and name == NOT_SAMPLED))


def test_classifies_waits(fleet, bounds, runs):
    """The part below the blocking function."""
    comparison = Comparison()
    for program, name, thread in every_thread(runs):
        if not thread["wait"]:
            continue
        waits = fleet.waits(program.service, name)
        print(f"  {name}: {', '.join(f'{wait} {ns / MS:.0f} ms' for wait, ns in waits.items())}")
        right = "|".join((thread["wait"], *ALSO.get(thread["wait"], ())))
        whole = share_below(fleet.graph(program.service, name), thread["function"])
        mine = share_below(fleet.graph(program.service, name, more=f',wait=~"{right}"'),
                           thread["function"])
        if whole > ENOUGH_NS:
            comparison.check_share(f"{name}: {thread['wait']}", mine / whole, bounds.classed)
    comparison.done()


@pytest.mark.exact
def test_classifies_idle_workers(fleet, bounds, runs):
    comparison = Comparison()
    program = runs.programs["pools"]
    for name in ("executor", "loop"):
        thread = program.threads()[name]
        life, tasks = thread["life"], thread["in_waits"]["blocked"]
        waits = fleet.waits(program.service, name)
        print(f"  {name}: {waits}")
        sampled = 0 if are_all_chosen(runs, program) else 0.3 * life["blocked"]
        comparison.check(f"{name}: idle", life["blocked"] - tasks, waits.get("idle", 0),
                         sampled + room(bounds, life["blocked"], life))
        comparison.check(f"{name}: in its tasks", tasks, waits.get("sleep", 0),
                         sampled + room(bounds, tasks, life))
    comparison.done()


@pytest.mark.exact
def test_records_run_queue_latency_by_stack(fleet, bounds, runs):
    comparison = Comparison()
    program = runs.programs["contend"]
    for name, thread in program.threads().items():
        life = thread["life"]
        assert life["run_queue"] > 0.1 * life["elapsed"], "the threads must want the same CPU"
        graph = fleet.graph(program.service, name, SCHED_DELAY)
        comparison.check(f"{name}: run-queue wait", life["run_queue"], graph.total,
                         room(bounds, life["run_queue"], life) +
                         (0 if are_all_chosen(runs, program) else 0.3 * life["run_queue"]),
                         more=program.stolen_ns(life))
        comparison.check_share(f"{name}: in its own functions",
                               sum(graph.total_of(function) for function in
                                   (f"burn_as_{name}", f"wait_as_{name}")) / max(1, graph.total),
                               bounds.named)
    comparison.done()


def test_records_quota_throttling(fleet, bounds, runs):
    if not runs.cgroup.folder:
        pytest.skip("no cgroup of this machine has the cpu controller")
    comparison = Comparison()
    program = runs.programs["throttled"]
    life = program.threads()["throttled"]["life"]
    measured = fleet.states(program.service, "throttled")
    if runs.throttled_ns < 0.1 * life["elapsed"]:
        pytest.skip("the machine is so busy that the quota hardly matters")
    comparison.check("throttled: waits for a CPU", life["run_queue"], measured["run_queue"],
                     room(bounds, life["run_queue"], life), more=program.stolen_ns(life))
    comparison.check("throttled: its own series", runs.throttled_ns,
                     fleet.api.total(program.service, type=THROTTLED),
                     room(bounds, runs.throttled_ns, life) + 1000 * MS)
    comparison.done()


def test_counts_threads_killed_while_blocked(fleet, bounds, runs):
    comparison = Comparison()
    program = runs.programs["doomed"]
    doomed = program.truth["doomed"]
    measured = fleet.states(program.service, "doomed")
    comparison.check("doomed: blocked", doomed["least"], measured["blocked"],
                     doomed["most"] - doomed["least"] +
                     (bounds.share if bounds.whole else 0.7) * doomed["least"])
    graph = fleet.graph(program.service, "doomed")
    if bounds.whole:
        comparison.check_share("doomed: in wait_for_ever", graph.total_of("wait_for_ever") /
                               doomed["least"], bounds.named)
    comparison.done()


def test_accounts_children_separately(fleet, bounds, runs):
    comparison = Comparison()
    program = runs.programs["forks"]
    forked = program.truth["forked"]
    measured = fleet.states(program.service, "forked")
    # A child's time before it sets its name counts for its parent.
    if bounds.whole:
        comparison.check("forked: lived", forked["least"], sum(measured.values()),
                         bounds.share * forked["least"] + forked["most"] - forked["least"])
        # Its parent learns its CPU time before its last switch, without the time since the last tick.
        comparison.check("forked: ran", forked["running"], measured["running"],
                         bounds.share * forked["running"] + 0.5 * MS * forked["count"])
    else:  # a child that exits before a starved agent sees it has no service
        assert 0.3 * forked["least"] < sum(measured.values()) < 1.1 * forked["most"]
    comparison.done()


def test_classifies_stopped_processes(fleet, bounds, runs):
    comparison = Comparison()
    program = runs.programs["stopped"]
    stopped = program.truth["stopped"]
    measured = fleet.states(program.service, "stopped")
    comparison.check("stopped: lived", stopped["least"], sum(measured.values()),
                     bounds.share * stopped["least"])
    waits = fleet.waits(program.service, "stopped")
    print(f"  {waits}")
    comparison.check("stopped: while it was", stopped["stopped"], waits.get("stopped", 0),
                     bounds.share * stopped["most"] +
                     (0 if are_all_chosen(runs, program) else 0.7 * stopped["stopped"]))
    comparison.done()


def test_excludes_idle_time(fleet, runs):
    """wait!="idle" excludes just that."""
    program = runs.programs["pools"]
    whole = fleet.api.total(f'{{service="{program.service}"}}', type=OFF_CPU)
    idle = fleet.api.total(f'{{service="{program.service}",wait="idle"}}', type=OFF_CPU)
    rest = fleet.api.total(f'{{service="{program.service}",wait!="idle"}}', type=OFF_CPU)
    assert idle > 0 and rest > 0 and idle + rest == whole


def test_spread_intervals_fill_time(fleet, runs):
    """A wait of 12 slots counts in each: the sleeper is blocked nearly all of every second."""
    program = runs.programs["waits"]
    answer = fleet.api.get("series", query=f'{{service="{program.service}",thread="sleep"}}',
                           type=OFF_CPU, step="1s", from_=program.from_ns, to=program.to_ns)
    values = list(itertools.chain.from_iterable(series["values"] for series in answer["series"]))
    inner = values[2:-2]
    assert len(inner) >= 4
    if are_all_chosen(runs, program):
        assert all(0.6e9 < value < 1.05e9 for value in inner), [round(v / 1e9, 3) for v in inner]
    else:
        assert all(value > 0 for value in inner), [round(v / 1e9, 3) for v in inner]
