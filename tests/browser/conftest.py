# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the browser tests: a Chromium, collectors and a folder for screenshots."""

import os
import pathlib
import sys
import time
import urllib.parse

import pytest

from browser import Browser
from fake_collector import FakeCollector
from fake_data import Data

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(REPOSITORY / "tests" / "e2e"))
import fleet  # noqa: E402  real collectors, agents and workloads

WORKLOAD_SECONDS = 5
FRESH_S = 120  # ages of what the fake collector has: pages show the last quarter of an hour
ARTEFACTS = REPOSITORY / "build" / "artefacts"


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: measures what other tests change")


@pytest.fixture(scope="session")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture(scope="session")
def shared_fake():
    with FakeCollector(Data(5000)) as running:
        yield running


@pytest.fixture
def fake(shared_fake):
    """The fake collector with its default data, answering without delay."""
    shared_fake.server.away, shared_fake.server.delay_s = False, 0
    shared_fake.server.api.data.excess, shared_fake.server.api.data.silent = False, None
    shared_fake.server.api.data.has_budget = True
    shared_fake.server.requests.clear()
    if time.time() - shared_fake.server.api.data.started_s > FRESH_S:
        shared_fake.server.api.data.begin_now()
    return shared_fake


@pytest.fixture(scope="session")
def idle_pages(browser):  # pylint: disable=unused-argument
    """Tabs of tests that are over: a new one costs more than another document in an old one."""
    return []


@pytest.fixture
def open_page(browser, idle_pages, shared_fake):
    """open_page(url, width=..., dark=...): a tab there, until the test ends. Without a path, the service page."""
    pages = []

    def open_at(url, **look):
        pages.append(idle_pages.pop() if idle_pages else browser.page())
        pages[-1].set_look(**look)
        pages[-1].open(url if urllib.parse.urlsplit(url).path else url + "/?page=service")
        return pages[-1]

    yield open_at
    for page in pages:
        page.leave(shared_fake.url + "/empty")
    browser.events.clear()
    idle_pages += pages


def missing_for_real():
    """Why the real programs cannot run here, or None."""
    if os.geteuid() != 0:
        return "sampling the machine needs root"
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "this kernel has no BTF (/sys/kernel/btf/vmlinux)"
    missing = [name for name in ["cairn-agent", "cairn-collector", "workloads/burn_c"]
               if not os.path.exists(fleet.program(name))]
    return f"not built: {', '.join(missing)}" if missing else None


@pytest.fixture(scope="module")
def real_url(tmp_path_factory):
    """A real collector with a real agent's profiles of two workloads; or the one at CAIRN_URL. Not for longer than one file needs
    it: the agent samples the browsers, too."""
    if os.environ.get("CAIRN_URL"):
        yield os.environ["CAIRN_URL"].rstrip("/")
        return
    reason = missing_for_real()
    if reason:
        print(f"# SKIP real collector: {reason}")
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("browser")
    with fleet.Collector(folder / "data", folder / "collector.log") as collector:
        agent = fleet.Agent(collector.grpc, folder / "agent", ["--frequency", "997"])
        try:
            collector.wait_for_agent()
            burning = {name: fleet.workload(*argv, "--seconds", str(WORKLOAD_SECONDS), env={"OTEL_SERVICE_NAME": name})
                       for name, argv in [("c-browser", ["burn_c"]), ("python-browser", ["burn_python.py"])]}
            for name, process in burning.items():
                collector.api.wait_for_total(name, process.truth()["process_cpu_ns"])
            yield f"http://{collector.http}"
        finally:
            agent.stop()


@pytest.fixture(params=["fake", "real"])
def collector_url(request):
    """A collector with data: the fake one, then a real one."""
    return request.getfixturevalue("real_url") if request.param == "real" else request.getfixturevalue("shared_fake").url


@pytest.fixture
def artefact(request):
    """artefact(name): the path of a screenshot, separate for the real collector."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    real = "real-" if "real_url" in request.fixturenames or "[real]" in request.node.name else ""
    return lambda name: ARTEFACTS / f"{real}{name}.png"
