# SPDX-License-Identifier: Apache-2.0
"""The collector's clock jumps: nothing is deleted, nothing is acknowledged and dropped, and people see it."""
import pathlib
import struct
import subprocess
import time

import pytest

from fleet import Collector, unique, wait_until, workload

EXACT = 0.03  # of the CPU time; sampling alone is within 1 %
DAY_S = 24 * 3600


class Clock:
    """The collector's Unix time, as clock_double.c has it."""

    def __init__(self, tmp_path):
        self.library = tmp_path / "clock_double.so"
        self.file = tmp_path / "ahead"
        self.file.write_bytes(struct.pack("=q", 0))
        source = pathlib.Path(__file__).parent / "clock_double.c"
        subprocess.run(["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", str(self.library), str(source)], check=True)

    def env(self):
        return {"LD_PRELOAD": str(self.library), "CLOCK_DOUBLE_AHEAD": str(self.file)}

    def set_ahead(self, seconds):
        with open(self.file, "r+b") as file:
            file.write(struct.pack("=q", seconds))


def readiness(collector):
    return collector.api.fetch("/readyz").decode()


def metric(collector, name):
    lines = collector.api.fetch("/metrics").decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@pytest.mark.parametrize("ahead_s", [8 * DAY_S, -2 * 3600])
def test_jump_of_the_clock_loses_nothing(tmp_path, start_agent, ahead_s):
    clock = Clock(tmp_path)
    collector = Collector(tmp_path / "data", tmp_path / "collector.log")
    collector.env = clock.env()
    with collector:
        start_agent(collector, "--frequency", "199")
        collector.wait_for_agent()
        service = unique("clock")
        burning = workload("burn_c", "--seconds", "10", env={"OTEL_SERVICE_NAME": service})
        wait_until("samples", 20, lambda: collector.api.total(service) > 0)
        clock.set_ahead(ahead_s)
        wait_until("the doubt", 20, lambda: "the clock is in doubt: it jumped by" in readiness(collector))
        assert metric(collector, "cairn_store_clock_doubted") == 1
        time.sleep(3)
        clock.set_ahead(0)
        wait_until("trust", 20, lambda: readiness(collector) == "ready\n")
        assert "retention stopped: the clock is in doubt" in collector.log()
        wait_until("the log", 10, lambda: "the clock is right again" in collector.log())
        cpu_ns = burning.truth()["process_cpu_ns"]
        total = collector.api.wait_for_total(service, cpu_ns)
        assert total == pytest.approx(cpu_ns, rel=EXACT), f"{total / cpu_ns:.3f} of what was burned is there"
        assert metric(collector, "cairn_store_rows_late_dropped_total") == 0
        assert metric(collector, "cairn_store_rows_future_dropped_total") == 0
