# SPDX-License-Identifier: Apache-2.0
"""The agent ends, in order or not, while no collector answers: the next start sends what waits in --spool-dir, once."""
import contextlib
import os
import pathlib
import re
import subprocess
import sys

import pytest

from fleet import free_port, unique, wait_until
from test_admin import get, metric

EXACT = 0.1  # of the CPU time: sampling alone is within 1 % on a quiet machine
INTERVAL_S = 1.1  # of the agents here, with its jitter


# CPU time, however busy the machine is; it lives on, so that the agent has time to read its labels.
BURN = """
import sys, time
while time.process_time() < float(sys.argv[1]):
    pass
print(time.process_time(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def burn():
    """burn(seconds): burns so much CPU time while an agent samples. Returns the service and its CPU time."""
    processes = []

    def run(seconds):
        service = unique("spooled")
        process = subprocess.Popen([sys.executable, "-c", BURN, str(seconds)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   text=True, env={**os.environ, "OTEL_SERVICE_NAME": service})
        processes.append(process)
        return service, float(process.stdout.readline()) * 1e9

    yield run
    for process in processes:
        process.communicate(timeout=20)


def test_restarts_lose_and_duplicate_nothing(collector, start_agent, burn, tmp_path):
    """Three starts without a collector: the first is killed, the second is stopped, the third sends all."""
    port = free_port()
    flags = ["--frequency", "499", "--spool-dir", str(tmp_path / "spool"), "--admin", f"127.0.0.1:{port}"]

    def on_disk():
        return metric(get(port, "/metrics")[1], "cairn_agent_spool_written_total")

    collector.stop()
    first = start_agent(collector, *flags)
    sure, sure_ns = burn(1)
    written = on_disk()
    wait_until("two more intervals on disk", 20, lambda: on_disk() >= written + 2)
    late, late_ns = burn(2)
    first.kill()

    second = start_agent(collector, *flags)
    stopped, stopped_ns = burn(0.7)
    second.stop()
    assert re.search(r"agent: stopped: \d+ batches wait in \S+/spool for the next start", second.log()), second.log()
    assert "dropped batch" not in second.log() and "dropped a batch" not in second.log()

    third = start_agent(collector, *flags)
    assert re.search(r"spool: found \d+ batches", third.log()), third.log()
    collector.start()
    totals = collector.api.wait_for_totals({sure: sure_ns, stopped: stopped_ns})
    assert totals[sure] == pytest.approx(sure_ns, rel=EXACT), "drained from the kernel before the kill"
    assert totals[stopped] == pytest.approx(stopped_ns, rel=EXACT), "SIGTERM loses nothing"
    # What the agent had not drained, and a part of it if the drain was just under way.
    assert late_ns - INTERVAL_S * 1.1e9 <= collector.api.total(late) <= late_ns * (1 + EXACT)
    wait_until("an empty spool", 20, lambda: metric(get(port, "/metrics")[1], "cairn_agent_spool_disk_bytes") == 0)
    third.stop()
    assert "agent: stopped: all batches sent" in third.log()
    assert sorted(path.name for path in (tmp_path / "spool/cairn-spool").iterdir()) == ["lock", "sending"]
    for agent in (first, second, third):
        assert "seccomp" not in agent.log() and "cannot" not in agent.log()


def bpf_ids(pid):
    """{(kind, id)} of the BPF objects of a process's descriptors, some of which are closed meanwhile."""
    ids = set()
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(FileNotFoundError):
            ids |= set(re.findall(r"^(prog|map|link)_id:\s*(\d+)", info.read_text(), re.M))
    return {pair for pair in ids if is_loaded(*pair)}


def is_loaded(kind, number):
    return subprocess.run(["bpftool", kind, "show", "id", number], capture_output=True, check=False).returncode == 0


def test_killed_agent_leaves_nothing_in_the_kernel(collector, start_agent):
    agent = start_agent(collector, "--lines")
    collector.wait_for_agent()
    pid = agent.process.pid
    ids = bpf_ids(pid)
    assert {"prog", "map"} <= {kind for kind, _ in ids}
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert children, "of --lines"
    agent.kill()
    wait_until("all BPF objects to go", 20, lambda: not [pair for pair in ids if is_loaded(*pair)])
    wait_until("its confined processes to end", 20,
               lambda: not [child for child in children if pathlib.Path(f"/proc/{child}").exists()])
