# SPDX-License-Identifier: Apache-2.0
"""A cluster of one machine for all tests. What is missing is the reason to skip (`make cluster` builds and installs it)."""
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e"), str(HERE.parent / "deploy")]

from cluster import ApiServer, missing_programs  # noqa: E402 pylint: disable=wrong-import-position
from fleet import Agent, Collector  # noqa: E402 pylint: disable=wrong-import-position
from node import Node, make_loopback, reason_to_skip  # noqa: E402 pylint: disable=wrong-import-position
from processes import cgroups  # noqa: E402,F401 pylint: disable=wrong-import-position,unused-import

NAMESPACE = HERE.parents[1] / "deploy/kubernetes/base/namespace.yaml"
DEFINITIONS = pathlib.Path(os.environ.get("CLUSTER_DEFINITIONS", "none"))  # of operators' objects


@pytest.fixture(scope="session")
def node(server, tmp_path_factory):
    """The kubelet and containerd."""
    reason = reason_to_skip() or missing_programs("containerd", "runc", "ctr", "kubelet")
    if reason:
        pytest.skip(reason)
    with Node(server, tmp_path_factory.mktemp("cluster") / "node") as running:
        yield running


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    reason = missing_programs("etcd", "kubectl", "kube-apiserver")
    if reason:
        pytest.skip(reason)
    make_loopback()
    listen = "127.0.0.1" if reason_to_skip() else "0.0.0.0"  # for pods, in a network of their own
    with ApiServer(tmp_path_factory.mktemp("cluster") / "server", listen) as running:
        running.kubectl("apply", "-f", NAMESPACE)
        for path in sorted(DEFINITIONS.glob("*.yaml")):
            running.kubectl("create", "-f", path)
        yield running


@pytest.fixture
def collector(tmp_path):
    with Collector(tmp_path / "data", tmp_path / "collector.log") as running:
        yield running


@pytest.fixture
def start_agent(tmp_path):
    """start_agent(collector, *flags): agents that end with the test."""
    agents = []

    def start(collector, *flags):
        agents.append(Agent(collector.grpc, tmp_path / f"agent-{len(agents)}", flags))
        return agents[-1]

    yield start
    for agent in agents:
        agent.stop()
