#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The throughput that a CUDA client keeps beside an agent: a CPU-bound client of the test driver that launches all the time. Compares
its steps per second with the agent to those before and after without it, and prints the overhead per launch. On phases of the
launch probes are some seconds apart, so each measurement takes longer. Needs root.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

from accounting import cpu_ns
from profilers import Cairn
from workloads import Workload

ROOT = pathlib.Path(__file__).resolve().parents[1]
LAUNCHES = 100  # of a step: tests/gpu/step_client.c
LEARN_SECONDS = 10  # the first on phases are short: they measure the launch rate


class Rate:
    """Steps per second, and per second of the client's CPU time, which other load does not change."""

    def __init__(self, workload, seconds):
        pid = workload.process.pid
        begin, before, cpu = time.monotonic(), workload.work(), cpu_ns(pid)
        time.sleep(seconds)
        steps = workload.work() - before
        self.rate = steps / (time.monotonic() - begin)
        self.by_cpu = steps / max(1, cpu_ns(pid) - cpu) * 1e9


def with_agent(cairn, workload, seconds):
    cairn.start(workload.process.pid)
    try:
        time.sleep(LEARN_SECONDS)
        return Rate(workload, seconds)
    finally:
        cairn.stop()
        time.sleep(1)


def kept(measured, before, after, what):
    return getattr(measured, what) / statistics.mean((getattr(before, what), getattr(after, what)))


def more_for_a_launch(measured, before, after):
    """Nanoseconds of CPU time, on phases included."""
    return 1e9 / LAUNCHES * (1 / measured.by_cpu - statistics.mean((1 / before.by_cpu, 1 / after.by_cpu)))


def spread(values, digits=3):
    return f"{statistics.median(values):.{digits}f} [{min(values):.{digits}f}..{max(values):.{digits}f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    parser.add_argument("--repetitions", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=20, help="of one measurement (%(default)s)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench: probing a driver needs root: run this with sudo")
    build = (ROOT / options.build).resolve()
    with tempfile.TemporaryDirectory(prefix="cairn-bench-") as name:
        run(build, pathlib.Path(name), options)


def run(build, folder, options):
    counter = folder / "steps.counter"
    cairn = Cairn(folder, 99, build)
    workload = Workload("gpu-steps", ["env", f"LD_LIBRARY_PATH={build / 'tests/gpu'}",
                                      str(build / "tests/gpu/step_client"), str(counter)], counter, 1)
    try:
        workload.wait_until_busy()
        rates = [Rate(workload, options.seconds)]
        with_it, noise, costs, costs_of_noise = [], [], [], []
        for _ in range(options.repetitions):
            measured = with_agent(cairn, workload, options.seconds)
            rates.append(Rate(workload, options.seconds))
            with_it.append([kept(measured, rates[-2], rates[-1], what) for what in ("rate", "by_cpu")])
            noise.append([getattr(rates[-1], what) / getattr(rates[-2], what) for what in ("rate", "by_cpu")])
            costs.append(more_for_a_launch(measured, rates[-2], rates[-1]))
            costs_of_noise.append(more_for_a_launch(rates[-1], rates[-2], rates[-2]))
        launches = statistics.median(rate.rate for rate in rates) * LAUNCHES
        print(f"a client of the GPU's driver, {launches:,.0f} launches/s, {options.repetitions} rounds of "
              f"{options.seconds:g} s; median [range]")
        print(f"  {'':<28} {'steps/s kept':>24} {'steps by CPU kept':>24} {'ns more for a launch':>24}")
        for what, rows, ns in (("with the agent", with_it, costs), ("without, one after the other", noise, costs_of_noise)):
            print(f"  {what:<28} {spread([row[0] for row in rows]):>24} {spread([row[1] for row in rows]):>24} "
                  f"{spread(ns, 0):>24}")
        print(f"  load average {' '.join(f'{load:.2f}' for load in os.getloadavg())} on {os.cpu_count()} CPUs")
    finally:
        workload.stop()
        cairn.close()


if __name__ == "__main__":
    main()
