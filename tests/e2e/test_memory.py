# SPDX-License-Identifier: Apache-2.0
"""Memory and quotas: which function makes a process grow, how large it is in each second, and how long
a control group was held back."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from fleet import Agent, Collector, unique, wait_until, workload

PAGE_FAULT = "memory:page_fault:bytes:page_fault:bytes"
RSS = "memory:rss:bytes:gauge:second"
THROTTLED = "cpu_throttled:time:nanoseconds:wall:nanoseconds"
SHARE = 0.12  # generous: on a loaded machine samples of a storm are few. tests/unit is exact.

GROWS_IN_A_LINE = """
import time
def nothing():
    return sum(range(1000))
def the_line_that_grows():
    kept = bytearray(64 << 20)
    for at in range(0, len(kept), 4096):
        kept[at] = 1
    return kept
end = time.monotonic() + 2
while time.monotonic() < end:
    nothing()
kept = the_line_that_grows()
time.sleep(1)
"""


@pytest.fixture(scope="module")
def fleet_of_lanes(tmp_path_factory):
    """All lanes are on by default; drained every second."""
    folder = tmp_path_factory.mktemp("memory")
    with Collector(folder / "data", folder / "collector.log") as collector:
        agent = Agent(collector.grpc, folder / "agent")
        try:
            collector.wait_for_agent()
            yield collector
        finally:
            agent.stop()


def settled_graph(api, selector, expected):
    """The flame graph of page faults when nothing more comes."""
    def total():
        return api.total(selector, type=PAGE_FAULT)
    wait_until("page faults", 30, lambda: total() > 0.7 * expected)
    while True:
        before = total()
        time.sleep(2.5)
        if total() == before:
            return api.merge(selector, type=PAGE_FAULT)


def largest_size(api, selector):
    answer = api.get("series", query=selector, type=RSS, step="1s")
    return max((value for series in answer["series"] for value in series["values"]), default=0)


def test_bytes_belong_to_the_functions_that_touch_them(fleet_of_lanes):
    service = unique("grow")
    selector = f'{{service="{service}"}}'
    truth = workload("grow_memory", "1", "2", env={"OTEL_SERVICE_NAME": service}).truth()
    graph = settled_graph(fleet_of_lanes.api, selector, sum(truth.values()))
    graph.check()
    measured = {name: graph.total_of(name) for name in truth}
    print(measured, truth)
    for name, expected in truth.items():
        assert measured[name] == pytest.approx(expected, rel=SHARE, abs=4 << 20), name
    # Its child shares memory with it, and counts for itself.
    resident = truth["grow_by_small_pages"] + truth["grow_by_huge_pages"]
    wait_until("its size in a second", 20,
               lambda: largest_size(fleet_of_lanes.api, selector) > 0.9 * resident)
    assert largest_size(fleet_of_lanes.api, selector) < 2.2 * resident


def test_the_line_of_python_that_grows_is_found(fleet_of_lanes):
    service = unique("grow-python")
    subprocess.run([sys.executable, "-c", GROWS_IN_A_LINE], check=True,
                   env={**os.environ, "OTEL_SERVICE_NAME": service})
    graph = settled_graph(fleet_of_lanes.api, f'{{service="{service}"}}', 64 << 20)
    line = "the_line_that_grows (<string>:6)"  # bytearray() writes zeros
    assert graph.total_of(line) == pytest.approx(64 << 20, rel=SHARE), graph.names


@pytest.fixture
def quota():
    """A group that may use a hundredth of a CPU: less than it gets on any loaded machine."""
    mount = next((path for path in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct")
                  if os.path.exists(path)), None)
    group = pathlib.Path(mount or "/sys/fs/cgroup") / f"cairn-e2e-{os.getpid()}"
    try:
        if not mount:
            (group.parent / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        if mount:
            (group / "cpu.cfs_period_us").write_text("100000")
            (group / "cpu.cfs_quota_us").write_text("1000")
        else:
            (group / "cpu.max").write_text("1000 100000")
    except OSError as error:
        if group.exists():
            group.rmdir()
        pytest.skip(f"no group with a quota can be made: {error}")
    yield group
    wait_until("the group's end", 10, lambda: not (group / "cgroup.procs").read_text().strip())
    group.rmdir()


def throttled_ns(group):
    for line in (group / "cpu.stat").read_text().splitlines():
        name, value = line.split()
        if name in ("throttled_time", "throttled_usec"):
            return int(value) * (1000 if name == "throttled_usec" else 1)
    return 0


def test_a_group_that_was_throttled_is_seen(fleet_of_lanes, quota):
    service = unique("throttled")
    selector = f'{{service="{service}"}}'

    def join():
        signal.alarm(60)  # it ends, whatever becomes of us
        (quota / "cgroup.procs").write_text(str(os.getpid()))
    burner = subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=join,
                              env={**os.environ, "OTEL_SERVICE_NAME": service})
    try:
        wait_until("throttling", 30, lambda: throttled_ns(quota) > 10**9)
    finally:
        burner.kill()
        burner.wait()
    time.sleep(0.3)
    truth = throttled_ns(quota)
    # What the last process was held back when it was killed may be counted after the last reading.
    wait_until("all of it", 20, lambda: fleet_of_lanes.api.total(selector, type=THROTTLED) >
               0.75 * truth)
    assert fleet_of_lanes.api.total(selector, type=THROTTLED) <= truth
