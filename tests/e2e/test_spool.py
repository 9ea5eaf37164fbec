# SPDX-License-Identifier: Apache-2.0
"""The agent ends, in order or not, while no collector answers: the next start sends what waits in --spool-dir, once."""
import pathlib
import re
import subprocess

import pytest

from fleet import free_port, unique, wait_until, workload
from test_admin import get, metric

EXACT = 0.03  # of the CPU time; sampling alone is within 1 %
INTERVAL_S = 1.1  # of the agents here, with its jitter


def burn(seconds):
    """Burns CPU while an agent samples. Returns the service and its CPU time."""
    service = unique("spooled")
    return service, workload("burn_c", "--seconds", str(seconds),
                             env={"OTEL_SERVICE_NAME": service}).truth()["process_cpu_ns"]


def test_restarts_lose_and_duplicate_nothing(collector, start_agent, tmp_path):
    """Three starts without a collector: the first is killed, the second is stopped, the third sends all."""
    port = free_port()
    flags = ["--frequency", "499", "--spool-dir", str(tmp_path / "spool"), "--admin", f"127.0.0.1:{port}"]

    def on_disk():
        return metric(get(port, "/metrics")[1], "cairn_agent_spool_written_total")

    collector.stop()
    first = start_agent(collector, *flags)
    sure, sure_ns = burn(2)
    written = on_disk()
    wait_until("two more intervals on disk", 20, lambda: on_disk() >= written + 2)
    late, late_ns = burn(2)
    first.kill()

    second = start_agent(collector, *flags)
    stopped, stopped_ns = burn(1)
    second.stop()
    assert re.search(r"agent: stopped: \d+ batches wait in \S+/spool for the next start", second.log()), second.log()
    assert "dropped" not in second.log()

    third = start_agent(collector, *flags)
    assert re.search(r"spool: found \d+ batches", third.log()), third.log()
    collector.start()
    totals = collector.api.wait_for_totals({sure: sure_ns, stopped: stopped_ns})
    assert totals[sure] == pytest.approx(sure_ns, rel=EXACT), "drained from the kernel before the kill"
    assert totals[stopped] == pytest.approx(stopped_ns, rel=0.05), "SIGTERM loses nothing"
    # What the agent had not drained, and a part of it if the drain was just under way.
    assert late_ns - INTERVAL_S * 1.1e9 <= collector.api.total(late) <= late_ns * (1 + EXACT)
    wait_until("an empty spool", 20, lambda: metric(get(port, "/metrics")[1], "cairn_agent_spool_disk_bytes") == 0)
    third.stop()
    assert "agent: stopped: all batches sent" in third.log()
    assert sorted(path.name for path in (tmp_path / "spool/cairn-spool").iterdir()) == ["lock"]
    for agent in (first, second, third):
        assert "seccomp" not in agent.log() and "cannot" not in agent.log()


def bpf_ids(pid):
    """{(kind, id)} of the BPF objects of a process's descriptors."""
    ids = set()
    for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        ids |= set(re.findall(r"^(prog|map|link)_id:\s*(\d+)", info.read_text(), re.M))
    return ids


def is_loaded(kind, number):
    return subprocess.run(["bpftool", kind, "show", "id", number], capture_output=True, check=False).returncode == 0


def test_killed_agent_leaves_nothing_in_the_kernel(collector, start_agent):
    agent = start_agent(collector, "--lines")
    collector.wait_for_agent()
    pid = agent.process.pid
    ids = bpf_ids(pid)
    assert {"prog", "map"} <= {kind for kind, _ in ids}
    assert all(is_loaded(kind, number) for kind, number in ids if kind != "link")
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert children, "of --lines"
    agent.kill()
    wait_until("all BPF objects to go", 20, lambda: not [pair for pair in ids if is_loaded(*pair)])
    wait_until("its confined processes to end", 20,
               lambda: not [child for child in children if pathlib.Path(f"/proc/{child}").exists()])
