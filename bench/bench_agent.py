#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What sampling costs: nanoseconds of BPF per sample, the agent's CPU and RSS, its BPF maps.

Every CPU is kept busy with native stacks of a known depth (frame pointers), so that each run of
the sampling program unwinds one. Prints each figure's repetitions and their median. Needs root.
"""
import argparse
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
BPF_STATS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
DEPTH = 34  # the depth of the peers' figures in the design
WARM_UP_SECONDS = 4
MIB = 1 << 20
PROG_TYPE_PERF_EVENT = 7  # enum bpf_prog_type of linux/bpf.h


def free_address():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


def wait_for(url):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"bench: {url} does not answer")


def descriptors(pid, key, field):
    """What the kernel tells about the process's descriptors (proc(5), fdinfo) that have the field,
    by key: each object once."""
    found = {}
    for path in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        if key in fields and field in fields:
            found[int(fields[key])] = fields
    return found


def program_runs(pid):
    """Program id to (type, runs, nanoseconds) since the programs were loaded."""
    return {number: (int(fields["prog_type"]), int(fields["run_cnt"]), int(fields["run_time_ns"]))
            for number, fields in descriptors(pid, "prog_id", "run_cnt").items()}


def map_bytes(pid):
    return sum(int(fields["memlock"]) for fields in descriptors(pid, "map_id", "memlock").values())


def cpu_ns(pid):
    """All threads' time on a CPU; threads that have ended are not in it (the agent keeps its)."""
    total = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            pass
    return total


def status_bytes(pid, field):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(rf"^{field}:\s+(\d+) kB", text, re.M).group(1)) * 1024


class Measurement:
    """One window: everything is read at its two ends."""

    def __init__(self, pid, seconds):
        before, cpu_before, began = program_runs(pid), cpu_ns(pid), time.monotonic()
        time.sleep(seconds)
        after, cpu_after, ended = program_runs(pid), cpu_ns(pid), time.monotonic()
        runs = [(kind, count - before[number][1], ns - before[number][2])
                for number, (kind, count, ns) in after.items() if number in before]
        self.samples = sum(count for kind, count, _ in runs if kind == PROG_TYPE_PERF_EVENT)
        self.sample_ns = sum(ns for kind, _, ns in runs if kind == PROG_TYPE_PERF_EVENT)
        self.bpf_ns = sum(ns for _, _, ns in runs)
        self.seconds = ended - began
        self.agent_cpu_ns = cpu_after - cpu_before
        self.rss = status_bytes(pid, "VmRSS")

    def ns_per_sample(self):
        return self.sample_ns / self.samples if self.samples else float("nan")

    def agent_percent_of_core(self):
        return 100 * self.agent_cpu_ns / self.seconds / 1e9

    def total_percent_of_core(self):
        return 100 * (self.agent_cpu_ns + self.bpf_ns) / self.seconds / 1e9


def print_figure(what, values, form):
    shown = " ".join(form.format(value) for value in values)
    print(f"{what:<44} {form.format(statistics.median(values)):>10}   n={len(values)}: {shown}")


def measure(agent_pid, options):
    windows = [Measurement(agent_pid, options.seconds) for _ in range(options.repetitions)]
    print_figure("BPF per sample, ns", [w.ns_per_sample() for w in windows], "{:.0f}")
    print_figure("samples per second", [w.samples / w.seconds for w in windows], "{:.0f}")
    print_figure("agent CPU, % of a core", [w.agent_percent_of_core() for w in windows], "{:.2f}")
    print_figure("agent + BPF CPU, % of a core",
                 [w.total_percent_of_core() for w in windows], "{:.2f}")
    print_figure("agent RSS, MiB", [w.rss / MIB for w in windows], "{:.1f}")
    print_figure("agent RSS peak, MiB", [status_bytes(agent_pid, "VmHWM") / MIB], "{:.1f}")
    print_figure("BPF maps, MiB", [map_bytes(agent_pid) / MIB], "{:.1f}")


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def run(options, folder):
    build = ROOT / options.build
    grpc, http = free_address(), free_address()
    cpus = os.cpu_count()
    started = []

    def start(*argv):
        with open(f"{folder}/{pathlib.Path(argv[0]).name}.log", "wb") as log:
            started.append(subprocess.Popen(argv, stdout=log, stderr=log))
        return started[-1]

    try:
        start(str(build / "cairn-collector"), "--data", f"{folder}/data", "--grpc", grpc,
              "--http", http)
        wait_for(f"http://{http}/readyz")
        start(str(build / "workloads/burn_c"), "--threads", str(cpus), "--depth", str(DEPTH),
              "--seconds", "3600")
        agent = start(str(build / "cairn-agent"), "--collector", grpc,
                      "--frequency", str(options.frequency))
        time.sleep(WARM_UP_SECONDS)
        if agent.poll() is not None:
            sys.exit("bench: the agent ended:\n" + open(f"{folder}/cairn-agent.log",
                                                        encoding="utf-8").read())
        print(f"{cpus} CPUs busy, {options.frequency} Hz, user stacks of {DEPTH}+ frames, "
              f"{options.repetitions} windows of {options.seconds:g} s")
        measure(agent.pid, options)
    finally:
        for process in reversed(started):
            stop(process)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.environ.get("BUILD", "build"))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10, help="of one window (%(default)s)")
    parser.add_argument("--frequency", type=int, default=99)
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench: sampling the machine needs root: run this with sudo")
    stats_before = BPF_STATS.read_text()
    BPF_STATS.write_text("1\n")
    try:
        with tempfile.TemporaryDirectory(prefix="cairn-bench-") as folder:
            run(options, folder)
    finally:
        BPF_STATS.write_text(stats_before)


if __name__ == "__main__":
    main()
