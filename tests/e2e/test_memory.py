# SPDX-License-Identifier: Apache-2.0
"""Memory and quotas: which function makes a process grow, how large it is in each second, and how long
a control group was held back."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from contract import TYPE
from fleet import Agent, Collector, build_folder, unique, wait_until, workload

PAGE_FAULT = TYPE.PAGE_FAULT
RSS = TYPE.RSS
MAJOR_FAULTS = TYPE.MAJOR_FAULTS
OOM_KILLS = TYPE.OOM_KILLS
THROTTLED = TYPE.THROTTLED
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


FILE_BYTES = 4 << 20
# Reads a file that is not in the page cache through a mapping, page by page; prints its major faults.
READS_A_MAPPING = """
import mmap, resource, sys, time
end = time.monotonic() + 2
while time.monotonic() < end:
    sum(range(1000))
with open(sys.argv[1], "rb") as file:
    mapping = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
mapping.madvise(mmap.MADV_RANDOM)
before = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
for at in range(0, len(mapping), mmap.PAGESIZE):
    mapping[at]
print(resource.getrusage(resource.RUSAGE_SELF).ru_majflt - before, flush=True)
time.sleep(4)
"""
LIMIT_BYTES = 48 << 20
GROWS_BEYOND = f"""
import time
end = time.monotonic() + 2
while time.monotonic() < end:
    sum(range(1000))
kept = bytearray(b"1") * (4 * {LIMIT_BYTES})
"""


@pytest.fixture(scope="module")
def fleet_of_all_profiles(tmp_path_factory):
    """All profiles are on by default; exported every second."""
    folder = tmp_path_factory.mktemp("memory")
    with Collector(folder / "data", folder / "collector.log") as collector:
        agent = Agent(collector.grpc, folder / "agent")
        try:
            collector.wait_for_agent()
            yield collector
        finally:
            agent.stop()


def settled_graph(api, selector, expected):
    """The flame graph of page faults, once all data has arrived."""
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


def test_charges_bytes_to_touching_function(fleet_of_all_profiles):
    service = unique("grow")
    selector = f'{{service="{service}"}}'
    truth = workload("grow_memory", "1", "2", env={"OTEL_SERVICE_NAME": service}).truth()
    graph = settled_graph(fleet_of_all_profiles.api, selector, sum(truth.values()))
    graph.check()
    measured = {name: graph.total_of(name) for name in truth}
    print(measured, truth)
    for name, expected in truth.items():
        assert measured[name] == pytest.approx(expected, rel=SHARE, abs=4 << 20), name
    # Its child shares memory and counts separately.
    resident = truth["grow_by_small_pages"] + truth["grow_by_huge_pages"]
    wait_until("its size in a second", 20,
               lambda: largest_size(fleet_of_all_profiles.api, selector) > 0.9 * resident)
    assert largest_size(fleet_of_all_profiles.api, selector) < 2.2 * resident


def test_finds_growing_python_line(fleet_of_all_profiles):
    service = unique("grow-python")
    subprocess.run([sys.executable, "-c", GROWS_IN_A_LINE], check=True,
                   env={**os.environ, "OTEL_SERVICE_NAME": service})
    graph = settled_graph(fleet_of_all_profiles.api, f'{{service="{service}"}}', 64 << 20)
    line = "the_line_that_grows (<string>:6)"  # bytearray() writes zeros
    assert graph.total_of(line) == pytest.approx(64 << 20, rel=SHARE), graph.names


@contextlib.contextmanager
def group_with(controller, mounts, version_1, version_2):
    """A control group; what is to be written into its files of either version."""
    mount = next((path for path in mounts if os.path.exists(path)), None)
    group = pathlib.Path(mount or "/sys/fs/cgroup") / f"cairn-e2e-{os.getpid()}"
    try:
        if not mount:
            (group.parent / "cgroup.subtree_control").write_text(f"+{controller}")
        group.mkdir()
        for name, value in (version_1 if mount else version_2).items():
            (group / name).write_text(value)
    except OSError as error:
        if group.exists():
            group.rmdir()
        pytest.skip(f"no group with a limit can be made: {error}")
    yield group
    if group.exists():
        remove(group)


def remove(group):
    wait_until("the group's end", 10, lambda: not (group / "cgroup.procs").read_text().strip())
    group.rmdir()


@pytest.fixture
def quota():
    """A group that may use a hundredth of a CPU: less than it gets on any loaded machine."""
    with group_with("cpu", ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"),
                    {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "1000"},
                    {"cpu.max": "1000 100000"}) as group:
        yield group


@pytest.fixture
def limit():
    """A group that may have less memory than GROWS_BEYOND wants."""
    with group_with("memory", ("/sys/fs/cgroup/memory",),
                    {"memory.limit_in_bytes": str(LIMIT_BYTES)},
                    {"memory.max": str(LIMIT_BYTES), "memory.swap.max": "0"}) as group:
        yield group


def enter(group):
    """Runs in the child before exec."""
    def join():
        signal.alarm(60)  # it ends, whatever becomes of us
        (group / "cgroup.procs").write_text(str(os.getpid()))
    return join


def throttled_ns(group):
    for line in (group / "cpu.stat").read_text().splitlines():
        name, value = line.split()
        if name in ("throttled_time", "throttled_usec"):
            return int(value) * (1000 if name == "throttled_usec" else 1)
    return 0


def test_records_cgroup_throttling(fleet_of_all_profiles, quota):
    service = unique("throttled")
    selector = f'{{service="{service}"}}'
    burner = subprocess.Popen(["sh", "-c", "while :; do :; done"], preexec_fn=enter(quota),
                              env={**os.environ, "OTEL_SERVICE_NAME": service})
    try:
        wait_until("throttling", 30, lambda: throttled_ns(quota) > 10**9)
    finally:
        burner.kill()
        burner.wait()
    time.sleep(0.3)
    truth = throttled_ns(quota)
    # Throttled time of the killed process may be counted after the last reading.
    wait_until("all of it", 20, lambda: fleet_of_all_profiles.api.total(selector, type=THROTTLED) >
               0.75 * truth)
    assert fleet_of_all_profiles.api.total(selector, type=THROTTLED) <= truth


def test_counts_oom_kill_once(fleet_of_all_profiles, limit):
    """Of a group's first process: the group is gone with it, as a container's is."""
    service = unique("killed")
    killed_by_us = unique("ended")
    other = subprocess.Popen(["sh", "-c", "while :; do :; done"], env={**os.environ, "OTEL_SERVICE_NAME": killed_by_us})
    time.sleep(0.5)
    other.kill()
    other.wait()
    ended = subprocess.run([sys.executable, "-c", GROWS_BEYOND], preexec_fn=enter(limit), check=False,
                           env={**os.environ, "OTEL_SERVICE_NAME": service})
    if ended.returncode == 0:
        pytest.skip("the limit is not kept here")
    remove(limit)
    assert ended.returncode == -signal.SIGKILL
    selector = f'{{service="{service}"}}'
    wait_until("the kill", 20, lambda: fleet_of_all_profiles.api.total(selector, type=OOM_KILLS))
    time.sleep(2.5)
    assert fleet_of_all_profiles.api.total(selector, type=OOM_KILLS) == 1
    assert fleet_of_all_profiles.api.total(f'{{service="{killed_by_us}"}}', type=OOM_KILLS) == 0


def test_counts_major_faults(fleet_of_all_profiles):
    file = build_folder() / f"cairn-e2e-{os.getpid()}.file"
    file.write_bytes(os.urandom(FILE_BYTES))
    service = unique("major")
    try:
        with open(file, "rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        read = subprocess.run([sys.executable, "-c", READS_A_MAPPING, file], check=True, text=True,
                              stdout=subprocess.PIPE, env={**os.environ, "OTEL_SERVICE_NAME": service})
    finally:
        file.unlink()
    truth = int(read.stdout)
    if truth < 100:
        pytest.skip(f"{truth} major faults: this file system keeps all in memory")
    selector = f'{{service="{service}"}}'
    # The rest is the program's startup.
    wait_until("the faults", 20,
               lambda: fleet_of_all_profiles.api.total(selector, type=MAJOR_FAULTS) >= truth)
    assert fleet_of_all_profiles.api.total(selector, type=MAJOR_FAULTS) <= 1.2 * truth + 200
