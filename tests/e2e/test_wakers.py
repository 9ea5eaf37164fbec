# SPDX-License-Identifier: Apache-2.0
"""Off-wake profiles: the waker's stack is on top of the blocked one, for services with wakers enabled
and for no others."""
import pytest

from contract import TYPE
from fleet import unique, wait_until, workload

OFF_WAKE = TYPE.OFF_WAKE
OFF_CPU = TYPE.OFF_CPU

# Blocked function: the waker's function, or its marker.
PAIRS = {
    "wait_for_mutex": "holder",
    "wait_for_pipe": "writer",
    "wait_for_condition": "signaller",
    "sleeper": "[waker: interrupt]",
}
PYTHON_PAIRS = {"first_counts": "second_counts", "second_counts": "first_counts"}


def leaves(api, selector):
    """[(names from the root to a leaf, its value)] of off-wake time."""
    graph = api.merge(selector, type=OFF_WAKE, max_nodes=20000)
    return [(graph.path(node), value) for node, value in enumerate(graph.self_values) if value]


def without_place(name):
    """"first_counts (wake_python.py:20)" without file and line."""
    return name.split(" (")[0]


def shares(paths, pairs):
    """For each blocked function, the share of off-wake time with its expected waker."""
    result = {}
    for blocked, waker in pairs.items():
        whole = by_waker = 0
        for path, value in paths:
            at = next((i for i, name in enumerate(path) if name.startswith("[waker: ")), None)
            names = [without_place(name) for name in path]
            if at is None or blocked not in names[:at]:
                continue
            whole += value
            by_waker += value if waker in names[at:] else 0
        result[blocked] = (by_waker / whole if whole else 0, whole / 1e9)
    return result


def wait_for_shares(api, selector, pairs, least_share):
    """The shares, once each has 1 s and is large enough; or the last ones at the timeout."""
    found = {}

    def is_enough():
        nonlocal found
        found = shares(leaves(api, selector), pairs)
        return all(share > least_share and whole > 1 for share, whole in found.values())
    try:
        wait_until("waits that ended", 120, is_enough)
    except AssertionError:
        pass
    print(found)
    return found


@pytest.fixture
def woken(collector, start_agent):
    """woken(*names): starts the workloads, the first as a service with wakers enabled; returns their selectors."""
    started = []

    def start(*names):
        services = [unique("woken") for _ in names]
        start_agent(collector, "--wakers", f"nobody,{services[0]}")
        started.extend(workload(name, env={"OTEL_SERVICE_NAME": service}) for name, service in zip(names, services))
        return [f'{{service="{service}"}}' for service in services]
    yield start
    for process in started:
        process.process.kill()
        process.process.wait()


def test_waker_lies_above_blocked_stack(collector, woken):
    asked, other = woken("wake_threads", "wake_threads")
    for blocked, (share, whole) in wait_for_shares(collector.api, asked, PAIRS, 0.95).items():
        assert share > 0.95 and whole > 1, blocked
    # Off-wake and off-CPU profiles cover the same time.
    assert collector.api.total(other, type=OFF_CPU) > 0
    assert collector.api.total(other, type=OFF_WAKE) == 0
    classes = collector.api.get("series", query=asked, type=OFF_WAKE, group_by="wait", step="1m")
    assert {"lock", "pipe", "sleep"} <= {series["group"] for series in classes["series"]}


def test_gil_waiter_is_woken_by_owner(collector, woken):
    [asked] = woken("wake_python.py")
    # 0.99 on an idle machine. On a loaded one a thread that retries may get a CPU after the other
    # released the GIL: then no waker exists. All its waits but the last end by a timer.
    for blocked, (share, whole) in wait_for_shares(collector.api, asked, PYTHON_PAIRS, 0.5).items():
        assert share > 0.5 and whole > 1, blocked
