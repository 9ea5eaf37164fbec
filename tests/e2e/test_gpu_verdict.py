# SPDX-License-Identifier: Apache-2.0
"""GPU verdicts, end to end: clients of the test driver with one bottleneck each, and a healthy one. There is no GPU telemetry
here: verdicts that need it are tested with stored figures in tests/unit."""
import time

import pytest

from fleet import unique, wait_until
from gpu_double import make_doubles, start_script

EXPECTED = {
    "busy": "gpu_busy",
    "implicit_sync": "gpu_implicit_sync",
    "copy_bound": "gpu_copy_bound",
    "allocator": "gpu_allocator",
    "no_demand": "gpu_no_demand",
    "healthy": "gpu_none",
}
HEALTHY = {"gpu_no_demand", "gpu_none"}
SETTLE_SECONDS = 3  # the clients begin, and the agent sees their driver
RANGE_SECONDS = 5  # a shorter range may show one phase only
SECONDS = 90  # until stacks have names, on a busy machine


@pytest.fixture(scope="module")
def services(fleet):
    """All at the same time: they sleep while they wait, and hardly need the CPU."""
    make_doubles("libcuda.so.1")
    names = {what: unique(what.replace("_", "-")) for what in EXPECTED}
    clients = [start_script("verdict_client.py", name, what, str(2 * SECONDS)) for what, name in names.items()]
    yield names
    for client in clients:
        client.kill()
        client.wait()


def test_each_client_gets_its_own_verdict_only(fleet, services):
    seen = {}
    settled = time.time() + SETTLE_SECONDS

    def diagnose():
        begin, end = max(settled, time.time() - 25), time.time() - 7
        if end - begin < RANGE_SECONDS:
            return False
        answers = {what: fleet.api.get("diagnose", query=name, from_=str(begin), to=str(end))
                   for what, name in services.items()}
        seen.update({what: (answer.get("gpu", {}).get("class"), answer) for what, answer in answers.items()})
        for what, (verdict, answer) in seen.items():
            # Before the stacks are known there may be no verdict, but never a wrong one.
            assert verdict in (None, EXPECTED[what], *HEALTHY), (what, answer["gpu"]["figures"])
            reached = [share["class"] for share in answer.get("gpu", {}).get("shares", []) if share["reached"]]
            assert set(reached) <= {EXPECTED[what]}, (what, answer["gpu"]["figures"])
        return all(verdict == EXPECTED[what] and (verdict in HEALTHY or answer["evidence"]["stacks"])
                   for what, (verdict, answer) in seen.items())
    try:
        wait_until("verdicts", SECONDS, diagnose)
    except AssertionError as error:
        figures = {what: answer.get("gpu", {}).get("figures") for what, (_, answer) in seen.items()}
        raise AssertionError(f"{error}: {[verdict for verdict, _ in seen.values()]} {figures}") from error
    for what, (verdict, answer) in seen.items():
        if verdict in HEALTHY:
            assert not answer["class"].startswith("gpu_")
            continue
        assert answer["class"] == verdict
        frames = answer["evidence"]["stacks"][0]["frames"]
        assert any(frame.startswith("cu") for frame in frames), (what, frames)
