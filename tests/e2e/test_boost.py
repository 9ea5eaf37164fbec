# SPDX-License-Identifier: Apache-2.0
"""An administrator boosts agents: the rate rises and sums stay right, wakers come, all stops; each ends by itself, and an agent
may refuse."""
import json
import re
import subprocess
import time
import urllib.request

import pytest

from fleet import Agent, free_port, program, unique, wait_until, workload
from secure_collector import SecureCollector


@pytest.fixture
def secure(tmp_path):
    with SecureCollector(tmp_path) as collector:
        yield collector


class Node:
    """An agent that samples one process."""

    def __init__(self, collector, folder, name, pid, token, *flags):
        self.admin = f"127.0.0.1:{free_port()}"
        self.agent = Agent(collector.grpc, folder / name, ("--token-file", str(token), "--pid", str(pid), "--label", f"node={name}",
                                                           "--admin", self.admin, *flags))

    def samples(self):
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=10) as answer:
            return int(re.search(r"^cairn_agent_samples_total (\d+)", answer.read().decode(), re.M)[1])

    def rate(self, burning, cpu_seconds=1.5):
        """Samples in each second of the process's CPU time, of which others' load leaves it little."""
        samples, cpu_ns = self.samples(), burning.cpu_ns()
        wait_until("CPU time", 120, lambda: burning.cpu_ns() - cpu_ns > cpu_seconds * 1e9)
        return (self.samples() - samples) / (burning.cpu_ns() - cpu_ns) * 1e9


def boost(collector, token, *words):
    return subprocess.run([program("cairn"), "boost", "--collector-http", f"http://{collector.http}", "--token-file", str(token), *words],
                          capture_output=True, text=True, timeout=60, check=False)


def test_boosts_agents_within_their_limits(secure, tmp_path):
    token = secure.new_token("agents", "ingest", "shop")
    admin = secure.new_token("owner", "read,admin", "shop")
    viewer = secure.new_token("viewer", "read", "shop")
    service = unique("boosted")
    with workload("burn_c", "--seconds", "100", "--load", "0.5", env={"OTEL_SERVICE_NAME": service}) as burning:
        pid = burning.process.pid
        node = Node(secure, tmp_path, "a", pid, token)
        refusing = Node(secure, tmp_path, "b", pid, token, "--boost-hz", "0", "--profiles", "cpu")
        try:
            for name in ("a", "b"):
                wait_until("its profile", 60, lambda name=name: secure.api.total(f'{{service="{service}",node="{name}"}}') > 0)
            assert 40 < node.rate(burning) < 200

            done = boost(secure, viewer, service, "--hz", "999", "--for", "60s")
            assert done.returncode == 1 and "lacks the role admin" in done.stderr, done
            done = boost(secure, admin, service, "--hz", "999", "--profiles", "wakers", "--for", "60s")
            assert done.returncode == 1, done
            assert "on 2 nodes\napplied on 1 of 2 nodes\nb: refused: boosts are off there (--boost-hz 0)\n" in done.stdout, done
            boost_id = re.match(r"boost (\w+): 999 Hz, wakers for 60 s", done.stdout)[1]
            assert "refused" in refusing.agent.log()
            time.sleep(1)  # each CPU has its new period
            assert 600 < node.rate(burning) < 1600  # on a busy machine what was counted lags what was burned
            done = boost(secure, viewer, "--list")
            assert done.returncode == 0 and boost_id in done.stdout and "token:owner" in done.stdout, done
            done = boost(secure, admin, "--end", boost_id)
            assert done.returncode == 0, done
            wait_until("its end", 15, lambda: f"ended {boost_id}" in node.agent.log())
            assert "no boost is active" in boost(secure, viewer, "--list").stdout

            done = boost(secure, admin, f'{{service="{service}",node="a"}}', "--stop", "--for", "10s")
            assert done.returncode == 0 and "applied on 1 of 1 nodes\n" in done.stdout, done
            stop_id = re.match(r"boost (\w+): stop", done.stdout)[1]
            assert node.rate(burning, 0.3) == 0
            wait_until("the gap's reason", 15, lambda: "sampling" in secure.api.values("knob"))
            wait_until("its end by itself", 15, lambda: f"ended {stop_id}" in node.agent.log())
            assert 40 < node.rate(burning) < 200
        finally:
            node.agent.stop()
            refusing.agent.stop()

    lines = [json.loads(line) for line in (tmp_path / "data/audit.log").read_text().splitlines()]
    acts = [(line["who"], line["method"], line["status"]) for line in lines
            if line["path"].startswith("/api/v1/boosts") and line["method"] != "GET"]
    assert acts == [("token:viewer", "POST", 403), ("token:owner", "POST", 200), ("token:owner", "DELETE", 200),
                    ("token:owner", "POST", 200)]
    assert [line["boost"] for line in lines if "boost" in line] == [boost_id, stop_id]


def test_the_command_says_what_is_missing():
    for words, text in [
            ([], "SELECTOR is missing"),
            (["x", "--hz", "999"], "--for is missing"),
            (["x", "--for", "60s"], "what to do is missing"),
            (["x", "--for", "60s", "--stop", "--hz", "99"], "--stop does not go with"),
            (["x", "--for", "2h", "--hz", "99"], "--for"),
            (["x", "--for", "60s", "--hz", "1001"], "--hz"),
            (["x", "--for", "60s", "--profiles", "gpu"], "gpu cannot be added"),
            (["x", "--list"], "go with nothing else"),
            (["--end", "../series"], "is no id of a boost")]:
        done = subprocess.run([program("cairn"), "boost", *words], capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 2 and text in done.stderr, f"{words}: {done}"
