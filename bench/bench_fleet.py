# SPDX-License-Identifier: Apache-2.0
"""What a fleet costs a collector: virtual agents (replay_agents) replay real stacks, recorded on the spot, through gRPC.

1. An agent records workloads (bench/workloads.py; those that this machine lacks are left out) into its spool.
2. --nodes virtual agents replay the last --minutes as fast as the collector takes them: CPU, bytes a sample, then queries alone.
3. --live-nodes send in real time for --live-seconds, while queries go on: latencies, what was lost.

Rows are what agents send: a stack in a slot of 20 ms, or an interval. Pods are renamed each ten minutes, one file in eight is
deployed anew each five.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import workloads

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests/e2e"))
from fleet import Collector, free_port  # noqa: E402 pylint: disable=wrong-import-position

BUILD = pathlib.Path(os.environ.get("BUILD", "build")).resolve()
SETTLED_SECONDS, SETTLE_SECONDS_MAX = 15, 240
TICKS = os.sysconf("SC_CLK_TCK")
MERGE_MINUTES = 10
GOALS = {"merge, 20 nodes, 10 min": 40, "heat map, one node, 60 min": 50}  # ms


def cpu_seconds(pid):
    words = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / TICKS


def rss_mib(pid, field="VmRSS"):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0


def folder_bytes(folder):
    total = 0
    for path in pathlib.Path(folder).rglob("*"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size if path.is_file() and path.name != "BALLAST" else 0
    return total


def wait_until_settled(folder):
    """Until closed minutes are packed: the folder's bytes have not changed for a while."""
    deadline, since, last = time.monotonic() + SETTLE_SECONDS_MAX, time.monotonic(), 0
    while time.monotonic() < min(deadline, since + SETTLED_SECONDS):
        time.sleep(1)
        now = folder_bytes(folder)
        since, last = (since, last) if now == last else (time.monotonic(), now)


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0


# ---- recording -------------------------------------------------------------------------------

def record(names, seconds, folder):
    """The spool of an agent whose collector is away, with so many seconds of each workload."""
    spool, log = folder / "spool", open(folder / "agent.log", "wb")
    spool.mkdir()
    with subprocess.Popen([BUILD / "cairn-agent", "--collector", f"127.0.0.1:{free_port()}", "--spool-dir", spool, "--overhead-budget", "none",
                           "--label", "node=recorded", "--label", "pod=recorded"], stdout=log, stderr=log) as agent:
        for name in names:
            try:
                workload = workloads.begin(name, BUILD, folder)
            except workloads.Missing as missing:
                print(f"not recorded: {missing}", flush=True)
                continue
            try:
                time.sleep(seconds)
            finally:
                workload.stop()
        agent.terminate()
    log.close()
    return spool


# ---- replay ----------------------------------------------------------------------------------

class Replay:
    """replay_agents."""

    def __init__(self, collector, spool, *arguments):
        self.begin = time.monotonic()
        self.process = subprocess.Popen([BUILD / "bench/replay_agents", "--collector", collector.grpc, "--spool", spool,
                                         *map(str, arguments)], stdout=subprocess.PIPE, text=True)

    def wait(self):
        """(its account at the end, seconds)."""
        output = self.process.communicate()[0]
        if self.process.returncode or not output:
            raise RuntimeError("replay_agents failed")
        return json.loads(output.splitlines()[-1]), time.monotonic() - self.begin


def print_account(account, seconds, cpu_s, nodes):
    print(f"  {nodes} nodes, {account['batches']} batches, {account['samples'] / 1e6:.2f} M rows in {seconds:.0f} s: "
          f"{account['acknowledged'] / 1e6:.2f} M acknowledged, {account['refused']} refused, {account['other']} stored as \"other\", "
          f"{account['retries']} retries, {account['resends']} resent with definitions")
    print(f"  collector: {cpu_s:.1f} s of CPU, {account['acknowledged'] / cpu_s / 1e6:.2f} M rows a CPU second, "
          f"{account['bytes'] / max(account['acknowledged'], 1):.1f} B a row on the wire before gzip", flush=True)


# ---- queries ---------------------------------------------------------------------------------

def ask(api, path, **parameters):
    """Milliseconds."""
    begin = time.monotonic()
    api.fetch(path, **parameters)
    return (time.monotonic() - begin) * 1000


def node_selector(numbers):
    return "{node=~\"recorded-(" + "|".join(f"{number:x}" for number in numbers) + ")\"}"


def measure_alone(collector, nodes, minutes, rounds):
    api, now = collector.api, int(time.time())
    short = min(minutes, MERGE_MINUTES)
    window = {"from": now - 60 * short, "to": now}
    whole = {"from": now - 60 * minutes, "to": now}
    asked = {
        f"merge, {min(nodes, 20)} nodes, {short} min": lambda: ask(api, "/api/v1/merge", query=node_selector(range(20)), **window),
        f"merge, one node, {short} min": lambda: ask(api, "/api/v1/merge", query=node_selector([1]), **window),
        f"merge, all nodes, {minutes} min": lambda: ask(api, "/api/v1/merge", query="{}", **whole),
        f"heat map, one node, {minutes} min": lambda: ask(api, "/api/v1/heatmap", query=node_selector([1]), **whole),
        f"series by service, {minutes} min": lambda: ask(api, "/api/v1/series", query="{}", group_by="service", step="10s", **whole),
    }
    for name, query in asked.items():
        first = query()
        times = [query() for _ in range(rounds)]
        goal = f" (goal {GOALS[name]} ms)" if name in GOALS else ""
        print(f"  {name}: {quantile(times, 0.5):.0f} ms [{min(times):.0f}..{max(times):.0f}], first {first:.0f}{goal}", flush=True)
    print(f"  {nodes} nodes, {minutes} min; resident {rss_mib(collector.process.pid):.0f} MiB, "
          f"at most {rss_mib(collector.process.pid, 'VmHWM'):.0f}")


def mixed_query(api, nodes, chance):
    """What people and dashboards ask: mostly the last minutes of little. Milliseconds."""
    now = time.time()
    last = chance.choice([30, 60, 300, 300, 600])
    one = node_selector([chance.randrange(nodes)])
    some = node_selector(chance.sample(range(nodes), min(nodes, 20)))
    path, query, more = chance.choice([
        ("merge", one, {}), ("merge", some, {}), ("top", one, {}), ("top", "{}", {}), ("series", "{}", {"group_by": "service", "step": "10s"}),
        ("series", one, {"step": "1s"}), ("heatmap", one, {}), ("services", "{}", {})])
    return ask(api, f"/api/v1/{path}", query=query, **{"from": int(now - last), "to": int(now)}, **more)


def measure_live(collector, spool, options):
    pid, chance = collector.process.pid, random.Random(1)
    before = cpu_seconds(pid)
    replay = Replay(collector, spool, "--agents", options.live_nodes, "--seconds", options.live_seconds)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        times, failed = [], 0
        while replay.process.poll() is None and len(times) + failed < options.queries:
            for done in [pool.submit(mixed_query, collector.api, options.live_nodes, chance) for _ in range(4)]:
                try:
                    times.append(done.result())
                except Exception as error:  # pylint: disable=broad-except
                    failed += 1
                    print(f"  a query failed: {error}")
    account, seconds = replay.wait()
    print_account(account, seconds, cpu_seconds(pid) - before, options.live_nodes)
    print(f"  {len(times)} mixed queries, 4 at a time, beside: p50 {quantile(times, 0.5):.0f} ms, p99 {quantile(times, 0.99):.0f} ms, "
          f"{failed} failed; resident {rss_mib(pid):.0f} MiB, at most {rss_mib(pid, 'VmHWM'):.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="torch,postgres,compiler,node,native-random", help="recorded one after the other (%(default)s)")
    parser.add_argument("--record-seconds", type=int, default=20, help="of each (%(default)s)")
    parser.add_argument("--spool", type=pathlib.Path, help="a spool folder that an earlier agent has left, instead of recording")
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--live-nodes", type=int, default=100)
    parser.add_argument("--live-seconds", type=int, default=60)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--keep", type=pathlib.Path, help="keep recording and store in this new folder")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cairn-bench-")))
        folder.mkdir(exist_ok=True)
        spool = options.spool or record(options.workloads.split(","), options.record_seconds, folder)
        data = folder / "data"
        collector = stack.enter_context(Collector(data, folder / "collector.log"))
        pid = collector.process.pid
        print(f"the last {options.minutes} min of {options.nodes} nodes, as fast as the collector takes them:", flush=True)
        before = cpu_seconds(pid)
        account, seconds = Replay(collector, spool, "--agents", options.nodes, "--ago", 60 * options.minutes).wait()
        print_account(account, seconds, cpu_seconds(pid) - before, options.nodes)
        wait_until_settled(data)
        print(f"  on disk: {folder_bytes(data) / account['acknowledged']:.2f} B a row, closed minutes packed")
        print("queries, nothing beside, medians of five:")
        measure_alone(collector, options.nodes, options.minutes, 5)
        print(f"{options.live_nodes} nodes in real time:", flush=True)
        measure_live(collector, spool, options)


if __name__ == "__main__":
    main()
