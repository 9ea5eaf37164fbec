# SPDX-License-Identifier: Apache-2.0
"""Pods that the real kubelet runs by containerd: their CPU time has the right labels, whatever the API server does meanwhile.
POD_MINUTES=10 lets pods come and go for so long, and SERVER_AWAY_SECONDS=600 keeps the API server away."""
import calendar
import json
import os
import time
import uuid

import pytest

from cluster import NODE
from fleet import unique, wait_until
from helm import kustomize
from node import BURN, BUSYBOX
from processes import counted, labels_of

PODS_A_MINUTE = 50
MINUTES = float(os.environ.get("POD_MINUTES", "1"))
AWAY_SECONDS = float(os.environ.get("SERVER_AWAY_SECONDS", "20"))
SAMPLED = 0.05  # of CPU time, either way: thousands of samples
RIGHT = 0.999  # of CPU time, after a container's first second
BURN_SECONDS = 3
SETTLED_SECONDS = 4


@pytest.fixture
def agent(server, node, collector, start_agent, tmp_path):
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    server.kubectl("apply", objects=[item for item in kustomize("base") if item["kind"] in kinds])
    credentials = server.credentials_of("cairn-agent", "cairn", tmp_path / "account", "2h")
    return start_agent(collector, "--frequency", "199", "--kubernetes", server.address, "--node", NODE,
                       "--kubernetes-credentials", str(credentials), "--pod-labels", "team")


class Started:
    """A pod that was created: what its series must say."""

    def __init__(self, name, namespace, app, uid):
        self.name, self.namespace, self.app, self.uid = name, namespace, app, uid


def create(server, namespace, image=BURN, command=None, seconds=BURN_SECONDS, policy="Never", app=None):
    app = app or unique("app")
    name = f"{app}-{uuid.uuid4().hex[:5]}"
    arguments = {"args": ["--seconds", str(seconds)]} if command is None else {"command": command}
    server.kubectl("create", objects=[{
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"team": "core", "app.kubernetes.io/name": app}},
        "spec": {"nodeName": NODE, "automountServiceAccountToken": False, "restartPolicy": policy, "terminationGracePeriodSeconds": 1,
                 "enableServiceLinks": False,
                 "containers": [{"name": "web", "image": image, "imagePullPolicy": "Never", **arguments}]}}])
    pod = server.get("pod", name, "-n", namespace)
    return Started(name, namespace, app, pod["metadata"]["uid"])


def status_of(server, pod):
    return server.get("pod", pod.name, "-n", pod.namespace)["status"]


def wait_for_phase(server, pod, *phases, seconds=60):
    """Its container's state."""
    wait_until(f"{pod.name} is {phases}", seconds, lambda: status_of(server, pod)["phase"] in phases)
    return status_of(server, pod)["containerStatuses"][0]["state"]


def begin_s(state):
    """When the container began: Kubernetes says it by the second, so this is up to one too early."""
    started = (state.get("terminated") or state["running"])["startedAt"]
    return calendar.timegm(time.strptime(started, "%Y-%m-%dT%H:%M:%SZ"))


def others_of(collector, of_pod, pod):
    """Labels of what is not right, for messages."""
    found = {}
    for wrong in ('container!="web"', f'service!="{pod.app}"', f'pod!="{pod.name}"'):
        for name, values in labels_of(collector.api, f"{{{of_pod},{wrong}}}").items():
            found.setdefault(name, set()).update(values)
    return {name: sorted(values) for name, values in found.items() if name not in ("pod_uid", "node")}


def shares(collector, pods):
    """CPU ns after the first second of each container: of all processes of its pod, and of those with all labels right."""
    total = right = 0
    wrong = []
    for pod, since_s in pods:
        of_pod = f'pod_uid="{pod.uid}",container!="pause"'
        labels = f'pod="{pod.name}",namespace="{pod.namespace}",container="web",service="{pod.app}",team="core"'
        one = collector.api.total(f"{{{of_pod}}}", from_=since_s + 1)
        good = collector.api.total(f"{{{of_pod},{labels}}}", from_=since_s + 1)
        total, right = total + one, right + good
        if one != good:
            wrong.append((pod.name, one, good, others_of(collector, of_pod, pod)))
    return total, right, wrong


def check_shares(collector, pods):
    """Waits until all has arrived: what the agent holds comes within its bound of 10 s. Returns (total, right)."""
    seen, since = -1, 0

    def is_settled():
        nonlocal seen, since
        before, seen = seen, shares(collector, pods)[0]
        if seen != before:
            since = time.monotonic()
        return seen > 0 and time.monotonic() - since > SETTLED_SECONDS
    wait_until("the pods' CPU time", 90, is_settled)
    total, right, wrong = shares(collector, pods)
    print(f"{len(pods)} pods, {total / 1e9:.1f} s of CPU time after each container's first second: {100 * right / total:.4f} % labelled right; {wrong}")
    assert right >= RIGHT * total, wrong
    return total, right


def own_account(node, pod):
    """CPU time that the container's process had by its own account, which it prints at its end."""
    (log,) = (node.folder / "logs").glob(f"{pod.namespace}_{pod.name}_{pod.uid}/web/0.log")
    return json.loads(log.read_text().split(" F ", 1)[1])["process_cpu_ns"]


def test_pods_that_come_and_go(server, node, collector, agent):
    namespaces = [f"n{number}-{uuid.uuid4().hex[:6]}" for number in range(3)]
    for namespace in namespaces:
        server.make_namespace(namespace)
    done, running = [], []
    begin = time.monotonic()
    count = int(PODS_A_MINUTE * MINUTES)
    for number in range(count):
        time.sleep(max(0, begin + number * 60 / PODS_A_MINUTE - time.monotonic()))
        # Each burns as much as two cores have for it, all in all: half of the time.
        running.append(create(server, namespaces[number % 3], seconds=0.6 + 2 * (number % 2)))
        if len(running) > 20:
            done.append(finish(server, node, running.pop(0)))
    print(f"{count} pods made in {time.monotonic() - begin:.0f} s")
    done += [finish(server, node, pod) for pod in running]
    check_shares(collector, done)
    # By the processes' own account, first seconds included: by the right labels all of it has arrived.
    truth = sum(pod.cpu_ns for pod, _ in done)
    arrived = sum(collector.api.total(f'{{pod="{pod.name}",container="web",service="{pod.app}"}}', from_=since_s) for pod, since_s in done)
    print(f"by their own account {truth / 1e9:.2f} s of CPU time; by the right labels {100 * arrived / truth:.2f} % of it")
    assert abs(arrived - truth) < SAMPLED * truth
    assert counted(collector.api, "pods_late") == 0 and counted(collector.api, "counts_not_held") == 0


def finish(server, node, pod):
    """Its end, and deletion: (pod, when it began). Its own account is in cpu_ns."""
    state = wait_for_phase(server, pod, "Succeeded", "Failed", seconds=90)
    assert state["terminated"]["exitCode"] == 0, state
    pod.cpu_ns = own_account(node, pod)
    server.kubectl("delete", "pod", pod.name, "-n", pod.namespace, "--wait=false")
    return pod, begin_s(state)


def test_restarted_containers(server, node, collector, agent):
    namespace = f"again-{uuid.uuid4().hex[:6]}"
    server.make_namespace(namespace)
    pod = create(server, namespace, seconds=2, policy="Always")
    wait_until("two restarts", 120, lambda: (status_of(server, pod).get("containerStatuses") or [{}])[0].get("restartCount", 0) >= 2)
    check_shares(collector, [(pod, int(time.time()) - 600)])
    ids = collector.api.get("labels/container_id/values", query=f'{{pod_uid="{pod.uid}",container="web"}}')["values"]
    assert len(ids) >= 2
    server.kubectl("delete", "pod", pod.name, "-n", namespace, "--wait=false")


def test_shells_of_static_busybox(server, node, collector, agent):
    """Processes that a container starts, and those of kubectl exec, are its own."""
    namespace = f"shell-{uuid.uuid4().hex[:6]}"
    server.make_namespace(namespace)
    script = "i=0; while [ $i -lt 400 ]; do i=$((i+1)); /bin/busybox seq 20000 > /dev/null; done"
    pod = create(server, namespace, image=BUSYBOX, command=["/bin/sh", "-c", script])
    state = wait_for_phase(server, pod, "Succeeded", seconds=90)
    check_shares(collector, [(pod, begin_s(state))])


def test_server_is_away(server, node, collector, agent):
    """Pods that run keep their labels; those that the kubelet starts again meanwhile are of a known pod."""
    namespace = f"away-{uuid.uuid4().hex[:6]}"
    server.make_namespace(namespace)
    pod = create(server, namespace, seconds=2, policy="Always")
    state = wait_for_phase(server, pod, "Running")
    time.sleep(1)
    server.stop()
    try:
        wait_until("the warning", 60, lambda: "new pods stay without labels" in agent.log())
        time.sleep(AWAY_SECONDS)
    finally:
        server.start()
    wait_until("an answer", 90, lambda: "answers again" in agent.log())
    # A container that began meanwhile is known by its pod, but has its id for a name.
    of_pod = f'pod_uid="{pod.uid}",container!="pause"'
    total = collector.api.total(f"{{{of_pod}}}", from_=begin_s(state) + 1)
    right = collector.api.total(f'{{{of_pod},pod="{pod.name}",namespace="{namespace}",service="{pod.app}"}}', from_=begin_s(state) + 1)
    print(f"API server away for {AWAY_SECONDS:.0f} s: {100 * right / total:.4f} % of {total / 1e9:.1f} s have their pod's labels")
    assert right >= RIGHT * total
    server.kubectl("delete", "pod", pod.name, "-n", namespace, "--wait=false")
    fresh = create(server, namespace, seconds=2)
    check_shares(collector, [finish(server, node, fresh)])
