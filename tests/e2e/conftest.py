# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the end-to-end tests: the real programs, as root, on loopback and in folders of their
own. BUILD names the folder with the programs (default: build)."""
import os
import pathlib
import shutil
import subprocess

import pytest

from fleet import ROOT, Agent, Collector, build_folder, unique, workload
from shared_fleet import FLAGS, SharedFleet, own_fleet


PPROFILE = "go.opentelemetry.io/collector/pdata/pprofile@v0.165.0"


SHARED_FLEET = pytest.StashKey()


def missing_requirement():
    if os.geteuid() != 0:
        return "sampling the machine needs root"
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "this kernel has no BTF (/sys/kernel/btf/vmlinux)"
    return None


def pytest_configure(config):
    config.addinivalue_line("markers", "samples_cpu: compares CPU time with what was sampled of it")
    config.addinivalue_line("markers", "alone: measures what other tests change, or disturbs them")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: "fleet" not in item.fixturenames)
    for item in items:
        if "runs" in item.fixturenames:  # once for all of them
            item.add_marker(pytest.mark.samples_cpu)
    reason = missing_requirement()
    if not reason:
        return
    print(f"# SKIP end-to-end: {reason}")
    here = str(pathlib.Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def programs():
    """The programs and workloads are there; `make e2e` has built them, a bare pytest builds them."""
    names = ["cairn", "cairn-agent", "cairn-collector", "workloads/burn_c", "workloads/burn_cpp",
             "workloads/burn_kernel", "workloads/burn_lockstep", "workloads/waiting_threads",
             "workloads/switch_storm", "workloads/wake_threads"]
    if missing_requirement() is None and not all((build_folder() / n).exists() for n in names):
        subprocess.run(["make", "-C", str(ROOT), "all", "workloads"], check=True)


@pytest.fixture
def collector(tmp_path):
    """A collector of this test alone."""
    with Collector(tmp_path / "data", tmp_path / "collector.log") as running:
        yield running


@pytest.fixture
def start_agent(tmp_path):
    """start_agent(collector, *flags, prefix=(), samples=True): agents that end with the test."""
    agents = []

    def start(collector, *flags, prefix=(), samples=True):
        name = f"agent-{len(agents)}"
        agent = Agent(collector.grpc, tmp_path / name, flags, prefix, samples)
        agents.append(agent)
        return agent

    yield start
    for agent in agents:
        agent.stop()


@pytest.fixture(scope="session")
def fleet(request, tmp_path_factory):
    """A collector and an agent for all tests that only look."""
    claims, folder = request.config.getoption("claims", None), tmp_path_factory.mktemp("fleet")
    if not claims:
        with own_fleet(folder, FLAGS) as running:
            yield running
        return
    shared = request.config.stash[SHARED_FLEET] = SharedFleet(claims, folder)
    yield shared.running
    shared.leave(wait=True)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """After the last test that looks at the shared fleet: they come first."""
    if SHARED_FLEET in item.config.stash and nextitem and "fleet" not in nextitem.fixturenames:
        item.config.stash[SHARED_FLEET].leave(wait=False)


@pytest.fixture(scope="session")
def otlp_client():
    """A program of OpenTelemetry's modules, built once."""
    source = ROOT / "tests/e2e/otlp_client/main.go"
    client = build_folder() / "tests" / "otlp_client"
    if client.exists() and client.stat().st_mtime > source.stat().st_mtime:
        return client.resolve()
    if not shutil.which("go"):
        pytest.skip("there is no Go")
    folder = build_folder() / "otlp_client"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, folder)
    (folder / "go.mod").unlink(missing_ok=True)
    for command in [["mod", "init", "otlp_client"], ["get", PPROFILE], ["mod", "tidy"],
                    ["build", "-o", str(client.absolute()), "."]]:
        done = subprocess.run(["go", *command], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"go {command[0]}: {done.stderr[-200:]}")
    return client.resolve()


class Run:
    """A workload that has run: its label and its own measurements."""

    def __init__(self, service, truth):
        self.service = service
        self.cpu_ns = truth["process_cpu_ns"]
        self.functions = truth["functions"]


@pytest.fixture(scope="session")
def runs(fleet):
    """All workloads with known shares, two at a time (there may be two CPUs only)."""
    pairs = [
        (5, [("c", ["burn_c"]), ("cpp", ["burn_cpp"])]),
        # 1/997 s: in step with the agent's frequency. Each round has one sample or none, so it takes more of them.
        (8, [("lockstep", ["burn_lockstep", "--period-us", "1003.009"]), ("kernel", ["burn_kernel"])]),
        (5, [("python", ["burn_python.py"]), ("threads", ["burn_c", "--threads", "2"])]),
    ]
    done = {}
    for seconds, pair in pairs:
        started = []
        for name, argv in pair:
            service = unique(name)
            started.append((name, service, workload(*argv, "--seconds", str(seconds), env={"OTEL_SERVICE_NAME": service})))
        for name, service, process in started:
            done[name] = Run(service, process.truth())
    fleet.api.wait_for_totals({run.service: run.cpu_ns for run in done.values()})
    return done
