# SPDX-License-Identifier: Apache-2.0
"""The agent's watch of pods against the real API server: real processes in cgroups as the kubelet makes them, and Pod objects
whose status a test sets, as the kubelet does."""
import json
import time
import uuid

import pytest

from cluster import NODE
from fleet import unique, wait_until
from helm import kustomize
from processes import check_total, counted, end, labels_of, start_in

ACCOUNT = "cairn-agent"


def new_id():
    return uuid.uuid4().hex * 2


class Pods:
    """Pods of this node, in a namespace."""

    def __init__(self, server, namespace):
        self.server, self.namespace = server, namespace
        server.make_namespace(namespace)

    def create(self, name, image="registry:5000/shop/web:1.2.3", owner=None, labels=None, annotations=None):
        """Its uid."""
        owners = []
        if owner:
            owners = [{"apiVersion": "apps/v1", "kind": owner[0], "name": owner[1], "uid": str(uuid.uuid4()), "controller": True}]
        self.server.kubectl("create", objects=[{
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels or {}, "annotations": annotations or {},
                         "ownerReferences": owners},
            "spec": {"nodeName": NODE, "automountServiceAccountToken": False, "containers": [{"name": "web", "image": image}]}}])
        return self.get(name)["metadata"]["uid"]

    def get(self, name):
        return self.server.get("pod", name, "-n", self.namespace)

    def run(self, name, container):
        """As the kubelet says that it runs."""
        image = self.get(name)["spec"]["containers"][0]["image"]
        status = {"phase": "Running", "containerStatuses": [{
            "name": "web", "image": image, "imageID": "", "containerID": f"containerd://{container}", "ready": True, "restartCount": 0,
            "state": {"running": {"startedAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}}}]}
        self.server.kubectl("patch", "pod", name, "-n", self.namespace, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))

    def delete(self, name):
        self.server.kubectl("delete", "pod", name, "-n", self.namespace, "--grace-period=0", "--force")


@pytest.fixture(scope="module")
def rights(server):
    """What the manifests give the agent's account."""
    kinds = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
    server.kubectl("apply", objects=[item for item in kustomize("base") if item["kind"] in kinds])


@pytest.fixture
def credentials(server, rights, tmp_path):
    return server.credentials_of(ACCOUNT, "cairn", tmp_path / "account")


@pytest.fixture
def pods(server):
    return Pods(server, f"shop-{uuid.uuid4().hex[:8]}")


def flags(server, credentials, *more):
    return ["--frequency", "499", "--kubernetes", server.address, "--node", NODE, "--kubernetes-credentials", str(credentials), *more]


def settle_on(collector, pods, cgroups, name):
    """A pod that comes now is labelled."""
    container, app = new_id(), unique(name)
    uid = pods.create(app, "image:7", owner=("Job", app))
    pods.run(app, container)
    end(start_in(cgroups(uid, container)))
    check_total(collector, f'{{service="{app}",workload_kind="job",version="7",namespace="{pods.namespace}"}}')
    return app, uid


def test_processes_have_labels_of_their_pod(server, collector, start_agent, credentials, pods, cgroups):
    app, container = unique("web"), new_id()
    other = Pods(server, f"other-{uuid.uuid4().hex[:8]}")
    uid = pods.create(f"{app}-7d4b9c-x2x4z", owner=("ReplicaSet", f"{app}-7d4b9c"), labels={"pod-template-hash": "7d4b9c", "team": "core"})
    pods.run(f"{app}-7d4b9c-x2x4z", container)
    start_agent(collector, *flags(server, credentials, "--pod-labels", "team"))
    second, second_uid, late = unique("second"), None, new_id()
    end(start_in(cgroups(uid, container)))
    check_total(collector, app)
    found = labels_of(collector.api, f'{{service="{app}"}}')
    assert found["namespace"] == [pods.namespace] and found["pod"] == [f"{app}-7d4b9c-x2x4z"] and found["pod_uid"] == [uid]
    assert found["workload"] == [app] and found["workload_kind"] == ["deployment"]
    assert found["container"] == ["web"] and found["version"] == ["1.2.3"] and found["team"] == ["core"]
    # Of another namespace, and described when it already runs.
    second_uid = other.create(second, owner=("StatefulSet", second))
    process = start_in(cgroups(second_uid, late))
    time.sleep(1)
    other.run(second, late)
    end(process)
    check_total(collector, f'{{service="{second}",container="web",namespace="{other.namespace}"}}')
    assert counted(collector.api, "pods_late") == 0


def test_pods_of_other_nodes_are_not_sent(server, collector, start_agent, credentials, pods):
    """By the server's field selector: this node's pods are all that come."""
    server.kubectl("create", objects=[{
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"far-{number}", "namespace": pods.namespace},
        "spec": {"nodeName": "n2", "automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]}} for number in range(5)])
    start_agent(collector, *flags(server, credentials))
    name = unique("near")
    pods.create(name)
    wait_until("the pod's event", 30, lambda: counted(collector.api, "pod_events") >= 1)
    assert counted(collector.api, "pod_events") < 5
    pods.run(name, new_id())
    wait_until("the status's event", 30, lambda: counted(collector.api, "pod_events") >= 2)


def test_relabelled_and_restarted_pods(server, collector, start_agent, credentials, pods, cgroups):
    start_agent(collector, *flags(server, credentials, "--pod-labels", "team"))
    app, uid = settle_on(collector, pods, cgroups, "renamed")
    server.kubectl("label", "pod", app, "-n", pods.namespace, "team=two", f"app.kubernetes.io/name={app}-2")
    again = new_id()
    pods.run(app, again)  # its container was restarted
    end(start_in(cgroups(uid, again)))
    check_total(collector, f'{{service="{app}-2",team="two",pod_uid="{uid}"}}')
    # Deleted, and made again by the same name: another pod.
    pods.delete(app)
    other, last = pods.create(app, owner=("Job", app)), new_id()
    assert other != uid
    pods.run(app, last)
    end(start_in(cgroups(other, last)))
    check_total(collector, f'{{service="{app}",pod="{app}",pod_uid="{other}"}}')


def test_server_goes_away_and_comes_back(server, collector, start_agent, credentials, pods, cgroups):
    """What the agent has watched is older than what the new server remembers: 410, and a list."""
    agent = start_agent(collector, *flags(server, credentials))
    app, uid = settle_on(collector, pods, cgroups, "before")
    for number in range(20):  # the version goes on without this node's pods
        server.kubectl("create", "configmap", f"c{number}", "-n", pods.namespace)
    lists = counted(collector.api, "pods_listed")
    server.stop()
    wait_until("the warning", 60, lambda: "new pods stay without labels" in agent.log())
    known = new_id()
    end(start_in(cgroups(uid, known)))  # known pods keep their labels
    check_total(collector, f'{{service="{app}"}}', 2_000_000_000)
    server.start()
    wait_until("an answer", 90, lambda: "answers again" in agent.log())
    settle_on(collector, pods, cgroups, "after")
    wait_until("another list", 30, lambda: counted(collector.api, "pods_listed") > lists)


def test_missing_rights_are_named(server, collector, start_agent, pods, cgroups, tmp_path):
    """And found when they come."""
    server.kubectl("apply", objects=[{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody", "namespace": "cairn"}}])
    credentials = server.credentials_of("nobody", "cairn", tmp_path / "nobody")
    agent = start_agent(collector, *flags(server, credentials))
    wait_until("the warning", 30, lambda: "let the service account list and watch pods" in agent.log())
    assert "403" in agent.log()
    server.kubectl("create", "clusterrolebinding", f"nobody-{uuid.uuid4().hex[:8]}", "--clusterrole=cairn-agent",
                   "--serviceaccount=cairn:nobody")
    wait_until("an answer", 90, lambda: "answers again" in agent.log())
    settle_on(collector, pods, cgroups, "allowed")


def test_rereads_token_of_deleted_account(server, collector, start_agent, pods, cgroups, tmp_path):
    name = f"turned-{uuid.uuid4().hex[:8]}"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "cairn"}}
    server.kubectl("create", objects=[account])
    server.kubectl("create", "clusterrolebinding", name, "--clusterrole=cairn-agent", f"--serviceaccount=cairn:{name}")
    credentials = server.credentials_of(name, "cairn", tmp_path / "account")
    server.kubectl("delete", "serviceaccount", name, "-n", "cairn")  # its tokens are void
    agent = start_agent(collector, *flags(server, credentials))
    wait_until("the warning", 30, lambda: "new pods stay without labels" in agent.log())
    assert "401" in agent.log()
    server.kubectl("create", objects=[account])
    server.credentials_of(name, "cairn", credentials)
    wait_until("an answer", 90, lambda: "answers again" in agent.log())
    settle_on(collector, pods, cgroups, "turned")


def test_long_lists_come_whole(server, collector, start_agent, credentials, pods, cgroups):
    """More pods than a page of a list has, with what real ones carry."""
    big = {f"example.com/a{number}": "x" * 2000 for number in range(5)}
    server.kubectl("create", objects=[{
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"many-{number}", "namespace": pods.namespace, "annotations": big},
        "spec": {"nodeName": NODE, "automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]}} for number in range(250)])
    app, container = unique("among"), new_id()
    uid = pods.create(app, owner=("Job", app))
    pods.run(app, container)
    start_agent(collector, *flags(server, credentials))
    end(start_in(cgroups(uid, container)))
    check_total(collector, app)
    assert counted(collector.api, "pods_dropped") == 0
    server.kubectl("delete", "pods", "--all", "-n", pods.namespace, "--grace-period=0", "--force")
