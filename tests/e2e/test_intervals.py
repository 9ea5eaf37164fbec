# SPDX-License-Identifier: Apache-2.0
"""A wait that lasts many slots is in each of them: a range of time that lies within has its part of it,
in flame graphs and in heat maps."""
import os
import subprocess
import sys

import pytest

from contract import TYPE
from fleet import Agent, Collector, unique, wait_until

OFF_CPU = TYPE.OFF_CPU
SLOT_NS = 20_000_000
SLEEPS = """
import time
def the_one_wait():
    time.sleep(11)
end = time.monotonic() + 1.5
while time.monotonic() < end:
    sum(range(1000))
print(time.time_ns(), flush=True)
the_one_wait()
"""


@pytest.fixture(scope="module")
def collector(tmp_path_factory):
    """The export interval is longer than the queried range: drained values span its edges."""
    folder = tmp_path_factory.mktemp("intervals")
    with Collector(folder / "data", folder / "collector.log") as started:
        agent = Agent(started.grpc, folder / "agent", ["--interval", "3s"])
        try:
            started.wait_for_agent()
            yield started
        finally:
            agent.stop()


def slot_of(time_ns):
    return time_ns // SLOT_NS * SLOT_NS


def test_range_within_long_wait_has_its_share(collector):
    service = unique("sleeps")
    selector = f'{{service="{service}"}}'
    sleeper = subprocess.run([sys.executable, "-c", SLEEPS], stdout=subprocess.PIPE, text=True, check=True,
                             env={**os.environ, "OTEL_SERVICE_NAME": service})
    began = slot_of(int(sleeper.stdout))
    api = collector.api
    wait_until("the whole wait", 40, lambda: api.total(selector, type=OFF_CPU, from_=began + int(10.4e9),
                                                       to=began + int(10.8e9)))
    # On a busy machine a wait may be sampled out: then it counts from the first sweep on.
    for from_s, seconds in ((3.5, 7), (4.3, 0.14), (5.72, 1.5), (8, 0.02)):
        when = {"from_": began + int(from_s * 1e9), "to": began + int((from_s + seconds) * 1e9)}
        graph = api.merge(selector, type=OFF_CPU, **when)
        print(from_s, seconds, graph.total)
        graph.check()
        # Where an export interval ends, two parts of the wait share the slot.
        assert graph.total == pytest.approx(seconds * 1e9, rel=0.01, abs=1.1 * SLOT_NS)
        assert graph.total_of("the_one_wait (<string>:4)") > 0.5 * graph.total
        cells = api.get("heatmap", query=selector, type=OFF_CPU, slot="20ms", **when)
        assert len(cells["values"]) == round(seconds * 1e9 / SLOT_NS)
        assert all(0.9 * SLOT_NS < value < 2.1 * SLOT_NS for value in cells["values"]), cells
        assert sum(cells["values"]) == pytest.approx(graph.total, abs=1000)
        steps = api.get("series", query=selector, type=OFF_CPU, step="20ms", **when)
        assert steps["series"][0]["total"] == pytest.approx(graph.total, abs=1000)
