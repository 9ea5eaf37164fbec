# SPDX-License-Identifier: Apache-2.0
"""Labels from a process's environment and from its agent, and grouping by them."""
import os
import subprocess
import sys

import pytest

from fleet import unique, wait_until, workload

pytestmark = pytest.mark.samples_cpu


def test_resource_attributes_become_labels(fleet):
    service = unique("attributes")
    run = workload("burn_c", "--cpu", "1", env={
        "OTEL_RESOURCE_ATTRIBUTES":
            f"service.name={service},service.version=1.2.3,deployment.environment=test"})
    fleet.api.wait_for_total(service, run.truth()["process_cpu_ns"])
    names = fleet.api.get("labels", query=service)["names"]
    assert {"service", "process", "thread", "node"} <= set(names)
    assert fleet.api.get("labels/process/values", query=service)["values"] == ["burn_c"]
    values = {value for name in names
              for value in fleet.api.get(f"labels/{name}/values", query=service)["values"]}
    assert "1.2.3" in values, f"service.version is nowhere in {names}"


def test_reserved_and_secret_attributes_become_no_labels(collector, start_agent):
    start_agent(collector, "--frequency", "499", "--resource-attributes", "team.name,node,tenant")
    service = unique("claims")
    run = workload("burn_c", "--cpu", "1", env={
        "OTEL_RESOURCE_ATTRIBUTES":
            f"service.name={service},service.zone=z1,team.name=core,node=forged,tenant=forged,namespace=forged,"
            "pod=forged,p%6Fd=forged,k8s.pod.name=forged,db.password=hunter2"})
    collector.api.wait_for_total(service, run.truth()["process_cpu_ns"])
    names = collector.api.get("labels", query=service)["names"]
    labels = {name: collector.api.get(f"labels/{name}/values", query=service)["values"] for name in names}
    assert labels["service_zone"] == ["z1"] and labels["team_name"] == ["core"]
    values = {value for some in labels.values() for value in some}
    assert not values & {"forged", "hunter2"}, labels
    wait_until("the refusals' counter", 20, lambda: collector.api.total(
        '{service="cairn-agent",counter="attributes_refused"}', type="cairn:events:count:event:count") >= 7)


THREADS = """
import ctypes, sys, threading, time
name_thread = ctypes.CDLL(None).prctl
end = time.monotonic() + float(sys.argv[1])
def burn(number):
    name_thread(15, f"{chr(97 + number % 26)}{number}x".encode(), 0, 0, 0)
    while time.monotonic() < end:
        sum(range(1000))
threads = [threading.Thread(target=burn, args=[number]) for number in range(100)]
for thread in threads:
    thread.start()
"""


def test_thread_names_do_not_multiply_series(collector, start_agent):
    start_agent(collector, "--frequency", "499")
    service = unique("names")
    before = os.times()
    subprocess.run([sys.executable, "-c", THREADS, "2"], check=True, env={**os.environ, "OTEL_SERVICE_NAME": service})
    after = os.times()
    cpu_ns = (after.children_user + after.children_system - before.children_user - before.children_system) * 1e9
    assert collector.api.wait_for_total(service, cpu_ns) == pytest.approx(cpu_ns, rel=0.05)
    names = collector.api.get("labels/thread/values", query=service)["values"]
    assert "other" in names and len(names) <= 32 + 1, names
    wait_until("the counter", 20, lambda: collector.api.total(
        '{service="cairn-agent",counter="threads_other"}', type="cairn:events:count:event:count") > 0)


def test_service_name_wins_over_resource_attributes(fleet):
    wins, loses = unique("wins"), unique("loses")
    run = workload("burn_c", "--cpu", "1", env={
        "OTEL_SERVICE_NAME": wins, "OTEL_RESOURCE_ATTRIBUTES": f"service.name={loses}"})
    fleet.api.wait_for_total(wins, run.truth()["process_cpu_ns"])
    assert fleet.api.total(loses) == 0


def test_service_defaults_to_executable(fleet):
    run = workload("burn_lockstep", "--seconds", "1")
    run.truth()
    services = wait_until("a service", 20, lambda: fleet.api.get("labels/service/values", query='{process="burn_lockstep"}')["values"])
    assert "burn_lockstep" in services


def test_selectors_support_every_operator(fleet, runs):
    c, cpp = runs["c"].service, runs["cpp"].service
    total_c, total_cpp = fleet.api.total(c), fleet.api.total(cpp)
    both = f'{{service=~"{c}|{cpp}"}}'
    assert fleet.api.total(f'{{service="{c}"}}') == total_c
    assert fleet.api.total(both) == total_c + total_cpp
    assert fleet.api.total(f'{{service=~"{c}|{cpp}",service!="{c}"}}') == total_cpp
    assert fleet.api.total(f'{{service=~"{c}|{cpp}",service!~".*-cpp-.*"}}') == total_c
    groups = fleet.api.get("top", query=both, group_by="service")["groups"]
    assert {g["group"]: g["total"] for g in groups} == {c: total_c, cpp: total_cpp}


def test_merges_agents_and_groups_by_node(collector, start_agent):
    for node in ("left", "right"):
        start_agent(collector, "--frequency", "499", "--label", "fleet=blue",
                    "--label", f"node={node}")
    # Two agents on one machine have one identity: their labels distinguish them.
    wait_until("data of both agents", 20,
               lambda: collector.api.get("labels/node/values")["values"] == ["left", "right"])
    service = unique("merged")
    cpu_ns = workload("burn_c", "--cpu", "2",
                      env={"OTEL_SERVICE_NAME": service}).truth()["process_cpu_ns"]
    tag = f'{{service="{service}",fleet="blue"}}'
    # Both profile the same process.
    assert collector.api.wait_for_total(tag, 2 * cpu_ns) == pytest.approx(2 * cpu_ns, rel=0.03)
    for node in ("left", "right"):
        one = collector.api.total(f'{{service="{service}",fleet="blue",node="{node}"}}')
        assert one == pytest.approx(cpu_ns, rel=0.03), node
    assert collector.api.total(f'{{service="{service}",fleet="green"}}') == 0
    graph = collector.api.merge(tag)
    graph.check()
    paths = [tuple(graph.path(node)) for node in range(1, len(graph.names))]
    assert len(paths) == len(set(paths)), "one tree: equal stacks of both nodes are one path"
    grouped = collector.api.merge(tag, group_by="node")
    assert {grouped.names[n] for n in range(1, len(grouped.names)) if grouped.parents[n] == 0} \
        == {"left", "right"}
