# SPDX-License-Identifier: Apache-2.0
"""Who ends waits: the waker's stack stands on top of the blocked one, for services that are asked for
and for no others."""
import pytest

from contract import TYPE
from fleet import unique, wait_until, workload

OFF_WAKE = TYPE.OFF_WAKE
OFF_CPU = TYPE.OFF_CPU

# Who waits in a function is woken by whom: a function of the waker, or what its marker says.
PAIRS = {
    "wait_for_mutex": "holder",
    "wait_for_pipe": "writer",
    "wait_for_condition": "signaller",
    "sleeper": "[waker: interrupt]",
}
PYTHON_PAIRS = {"first_counts": "second_counts", "second_counts": "first_counts"}


def leaves(api, selector):
    """[(names from the root to a leaf, its value)] of the time blocked by who ended it."""
    graph = api.merge(selector, type=OFF_WAKE, max_nodes=20000)
    return [(graph.path(node), value) for node, value in enumerate(graph.self_values) if value]


def without_place(name):
    """"first_counts (wake_python.py:20)" without file and line."""
    return name.split(" (")[0]


def shares(paths, pairs):
    """Of the time that ended while blocked in each function, the part that ended by its waker."""
    told = {}
    for blocked, waker in pairs.items():
        whole = by_waker = 0
        for path, value in paths:
            at = next((i for i, name in enumerate(path) if name.startswith("[waker: ")), None)
            names = [without_place(name) for name in path]
            if at is None or blocked not in names[:at]:
                continue
            whole += value
            by_waker += value if waker in names[at:] else 0
        told[blocked] = (by_waker / whole if whole else 0, whole / 1e9)
    return told


def told_of(api, selector, pairs, least_share):
    """The shares, once a second of each is told and they are large enough; or the last after a while."""
    told = {}

    def is_enough():
        nonlocal told
        told = shares(leaves(api, selector), pairs)
        return all(share > least_share and whole > 1 for share, whole in told.values())
    try:
        wait_until("waits that ended", 120, is_enough)
    except AssertionError:
        pass
    print(told)
    return told


@pytest.fixture
def woken(collector, start_agent):
    """Starts a workload as a service that is asked for, beside one that is not."""
    started = []

    def start(name):
        asked, other = unique("woken"), unique("other")
        start_agent(collector, "--wakers", f"nobody,{asked}")
        for service in (asked, other):
            started.append(workload(name, env={"OTEL_SERVICE_NAME": service}))
        return f'{{service="{asked}"}}', f'{{service="{other}"}}'
    yield start
    for process in started:
        process.process.kill()
        process.process.wait()


def test_waker_lies_above_blocked_stack(collector, woken):
    asked, other = woken("wake_threads")
    for blocked, (share, whole) in told_of(collector.api, asked, PAIRS, 0.95).items():
        assert share > 0.95 and whole > 1, blocked
    # Off-wake and off-CPU profiles cover the same time.
    assert collector.api.total(other, type=OFF_CPU) > 0
    assert collector.api.total(other, type=OFF_WAKE) == 0
    classes = collector.api.get("series", query=asked, type=OFF_WAKE, group_by="wait", step="1m")
    assert {"lock", "pipe", "sleep"} <= {series["group"] for series in classes["series"]}


def test_gil_waiter_is_woken_by_owner(collector, woken):
    asked, _ = woken("wake_python.py")
    # 0.99 on an idle machine. On a loaded one a thread that asks again may get its CPU when the other
    # has let go of the GIL already: then nobody wakes it. All but the last of its waits end by a timer.
    for blocked, (share, whole) in told_of(collector.api, asked, PYTHON_PAIRS, 0.5).items():
        assert share > 0.5 and whole > 1, blocked
