# SPDX-License-Identifier: Apache-2.0
"""Wall-clock profiles against programs that measure themselves, with the real agent and collector.
Short by default; `--whole` (make wall) runs longer with tighter bounds."""
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

from fleet import Agent, Collector  # noqa: E402 pylint: disable=wrong-import-position
from wall import Bounds, Fleet, build_programs  # noqa: E402 pylint: disable=wrong-import-position


def pytest_addoption(parser):
    parser.addoption("--whole", action="store_true", help="run longer and with strict bounds")
    parser.addoption("--seconds", type=int, help="of all threads of the machine (8, with --whole 60)")


def pytest_configure(config):
    config.addinivalue_line("markers", "whole: only with --whole")
    config.addinivalue_line("markers", "exact: how long waits were, for an idle machine")


def missing_requirement():
    if os.geteuid() != 0:
        return "sampling the machine needs root"
    if not os.path.exists("/sys/kernel/btf/vmlinux"):
        return "this kernel has no BTF (/sys/kernel/btf/vmlinux)"
    if not os.path.exists("/proc/thread-self/schedstat"):
        return "this kernel has no scheduler statistics (CONFIG_SCHED_INFO)"
    return None


def pytest_collection_modifyitems(config, items):
    reason = missing_requirement()
    if reason:
        print(f"# SKIP wall clock: {reason}")
    for item in items:
        if not str(item.path).startswith(str(HERE)):
            continue
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
        elif "whole" in item.keywords and not config.getoption("--whole"):
            item.add_marker(pytest.mark.skip(reason="only with --whole"))


@pytest.fixture(scope="session")
def bounds(request):
    return Bounds(request.config.getoption("--whole"), request.config.getoption("--seconds"))


@pytest.fixture(scope="session")
def fleet(tmp_path_factory):
    """A collector and an agent for all tests of the session."""
    folder = tmp_path_factory.mktemp("wall")
    build_programs()
    with Collector(folder / "data", folder / "collector.log") as collector:
        agent = Agent(collector.grpc, folder / "agent", ["--thread-names", "exact"])
        try:
            collector.wait_for_agent()
            yield Fleet(collector, agent, folder)
        finally:
            agent.stop()
