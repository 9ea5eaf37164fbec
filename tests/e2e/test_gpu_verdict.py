# SPDX-License-Identifier: Apache-2.0
"""Verdicts about GPUs, end to end: clients of the test driver that are held up by one thing each, and one that
is not. There are no gauges of the GPU here, so what takes those is judged by stored figures only: tests/unit."""
import os
import subprocess
import sys
import time

import pytest

from fleet import ROOT, build_folder, unique, wait_until

EXPECTED = {
    "busy": "gpu_busy",
    "implicit_sync": "gpu_implicit_sync",
    "copy_bound": "gpu_copy_bound",
    "allocator": "gpu_allocator",
    "no_demand": "gpu_no_demand",
    "healthy": "gpu_none",
}
HEALTHY = {"gpu_no_demand", "gpu_none"}
SECONDS = 90  # until stacks have names: an agent on a crowded machine takes its time for that


@pytest.fixture(scope="module")
def services(fleet):
    """All at a time: they wait asleep, and hardly need the CPU."""
    folder = build_folder() / "tests/gpu"
    subprocess.run(["make", f"BUILD={build_folder()}", f"{folder}/libcuda.so.1"], check=True, stdout=subprocess.DEVNULL)
    names = {what: unique(what.replace("_", "-")) for what in EXPECTED}
    clients = [subprocess.Popen([sys.executable, str(ROOT / "tests/gpu/verdict_client.py"), what, str(2 * SECONDS)],
                                env={**os.environ, "OTEL_SERVICE_NAME": name, "LD_LIBRARY_PATH": str(folder)},
                                stdin=subprocess.PIPE)
               for what, name in names.items()]
    yield names
    for client in clients:
        client.kill()
        client.wait()


def test_what_holds_a_gpu_up_is_told_and_nothing_else(fleet, services):
    seen = {}

    def diagnose():
        now = time.time()
        answers = {what: fleet.api.get("diagnose", query=name, from_=str(now - 25), to=str(now - 7))
                   for what, name in services.items()}
        seen.update({what: (answer.get("gpu", {}).get("class"), answer) for what, answer in answers.items()})
        for what, (told, answer) in seen.items():
            # Before their stacks are known they may say little, but nothing that is wrong.
            assert told in (None, EXPECTED[what], *HEALTHY), (what, answer["gpu"]["figures"])
            reached = [share["class"] for share in answer.get("gpu", {}).get("shares", []) if share["reached"]]
            assert set(reached) <= {EXPECTED[what]}, (what, answer["gpu"]["figures"])
        return all(told == EXPECTED[what] for what, (told, _) in seen.items())
    try:
        wait_until("verdicts", SECONDS, diagnose)
    except AssertionError as error:
        figures = {what: answer.get("gpu", {}).get("figures") for what, (_, answer) in seen.items()}
        raise AssertionError(f"{error}: {[told for told, _ in seen.values()]} {figures}") from error
    for what, (told, answer) in seen.items():
        if told in HEALTHY:
            assert not answer["class"].startswith("gpu_")
            continue
        assert answer["class"] == told
        frames = answer["evidence"]["stacks"][0]["frames"]
        assert any(frame.startswith("cu") for frame in frames), (what, frames)
