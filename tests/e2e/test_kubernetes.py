# SPDX-License-Identifier: Apache-2.0
"""Processes of pods and containers: real processes in cgroups as kubelet and Docker make them, described by doubles of the API
server and of Docker's files. One agent, one collector, one server: the tests leave them as they found them."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

from contract import TYPE
from fleet import Agent, Collector, unique, wait_until
from kubernetes_double import ApiServerDouble, new_id, pod

CPU_NS = 1_000_000_000  # where the sum is the claim
SOME_NS = 200_000_000   # where only the labels are
# It is done by its own CPU time, however busy the machine is, and stays until it is ended: a busy agent may look late. What it
# used before it entered the cgroup is some hundredths.
BURN = "import sys, time\nwhile time.process_time() < float(sys.argv[1]): sum(range(1000))\nsys.stdin.read()"
NEARLY = 0.1
ROUGHLY = 0.5
IN_CGROUP = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
RULES = """
relabel_configs:
- {source_labels: [namespace], regex: dropped, action: drop}
- {source_labels: [__meta_kubernetes_pod_label_squad], regex: (.+), target_label: squad, replacement: the-$1}
- {source_labels: [__meta_docker_container_label_tier], regex: (.+), target_label: tier}
- {source_labels: [unit], regex: none-has-it, target_label: service}
"""


def cgroup_root():
    """A hierarchy of either version."""
    for root in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        if os.path.exists(f"{root}/cgroup.procs"):
            return pathlib.Path(root)
    return None


@pytest.fixture
def cgroups():
    """make(path): the folder of a cgroup; all are removed at the end."""
    root = cgroup_root()
    if not root:
        pytest.skip("no cgroup can be made here")
    made = []

    def make(path):
        folder = root / path
        try:
            for parent in [*reversed(folder.parents), folder]:
                if not parent.exists():
                    parent.mkdir()
                    made.append(parent)
        except OSError as error:
            pytest.skip(f"no cgroup can be made here: {error}")
        return folder

    yield make
    for folder in reversed(made):
        with contextlib.suppress(OSError):  # another test's pods are below it
            wait_until("the cgroup's end", 10, lambda: not (folder / "cgroup.procs").read_text().strip())
            folder.rmdir()


class Node:
    """The agent, its collector, the API server and Docker's folder."""

    def __init__(self, collector, agent, server, docker):
        self.api = collector.api
        self.agent = agent
        self.server = server
        self.docker = docker

    def counted(self, counter):
        return self.api.total(f'{{service="cairn-agent",counter="{counter}"}}', type=TYPE.EVENTS)

    def labels_of(self, selector):
        """All labels of the series: name to values."""
        names = self.api.get("labels", query=selector)["names"]
        return {name: self.api.get(f"labels/{name}/values", query=selector)["values"] for name in names}

    def check_totals(self, expected, rel):
        """That the CPU time of each selector has arrived, and no more."""
        totals = self.api.wait_for_totals({selector: cpu_ns * (1 - rel) for selector, cpu_ns in expected.items()})
        for selector, cpu_ns in expected.items():
            assert totals[selector] == pytest.approx(cpu_ns, rel=rel), selector


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    folder = tmp_path_factory.mktemp("node")
    docker = folder / "docker"
    rules = folder / "rules.yaml"
    rules.write_text(RULES)
    with Collector(folder / "data", folder / "collector.log") as collector, ApiServerDouble(
            folder / "kubernetes", {"topology.kubernetes.io/zone": "eu-1a", "secret": "hunter2"}) as server:
        for name in ("one", "two", "three"):  # more than one page
            server.put(pod(name))
        agent = Agent(collector.grpc, folder / "agent", [
            "--frequency", "499", *server.flags, "--pod-labels", "team", "--exclude-namespaces", "kube-*", "--node-labels",
            "topology.kubernetes.io/*", "--relabel", str(rules), "--docker", str(docker), "--podman", "none"])
        try:
            yield Node(collector, agent, server, docker)
        finally:
            agent.stop()


def cgroup_of(described, container):
    return f"kubepods/burstable/pod{described['metadata']['uid']}/{container}"


def start_in(folder, cpu_ns=SOME_NS, env=None):
    """A process that uses so much CPU time in this cgroup."""
    return subprocess.Popen(["sh", "-c", IN_CGROUP, str(folder), sys.executable, "-c", BURN, str(cpu_ns / 1e9)],
                            stdin=subprocess.PIPE, env={**os.environ, **(env or {})})


def end(*processes):
    """When they are done."""
    for process in processes:
        process.stdin.close()
    for process in processes:
        assert process.wait(120) == 0


def in_pod(described):
    return f'{{pod_uid="{described["metadata"]["uid"]}"}}'


def test_processes_have_labels_of_their_pod(node, cgroups):
    web, proxy, app = new_id(), new_id(), unique("web")
    shop = pod(f"{app}-7d4b9c-x2x4z", owner=("ReplicaSet", f"{app}-7d4b9c"),
               labels={"team": "core", "secret": "hunter2", "squad": "red"},
               containers=[("web", "registry:5000/shop/web:1.2.3", web), ("proxy", "envoy@sha256:" + "ab" * 32, proxy)])
    node.server.put(shop)
    own = unique("own")
    processes = [start_in(cgroups(cgroup_of(shop, web))),
                 start_in(cgroups(cgroup_of(shop, proxy)), env={"OTEL_SERVICE_NAME": own})]
    node.check_totals({app: SOME_NS, own: SOME_NS}, ROUGHLY)
    end(*processes)
    found = node.labels_of(f'{{service="{app}"}}')
    assert found["namespace"] == ["shop"] and found["pod"] == [f"{app}-7d4b9c-x2x4z"]
    assert found["pod_uid"] == [shop["metadata"]["uid"]]
    assert found["workload"] == [app] and found["workload_kind"] == ["deployment"]
    assert found["container"] == ["web"] and found["container_id"] == [web] and found["version"] == ["1.2.3"]
    assert found["team"] == ["core"] and "secret" not in found
    assert found["zone"] == ["eu-1a"]  # of the node
    assert found["squad"] == ["the-red"]  # by a rule
    # A process that names itself keeps its name, in the same pod.
    found = node.labels_of(f'{{service="{own}"}}')
    assert found["workload"] == [app] and found["container"] == ["proxy"] and found["version"] == ["sha256:" + "ab" * 6]
    assert node.server.refused == 0 and node.server.unauthorized == 0


def test_a_container_of_docker_names_its_processes(node, cgroups):
    container, app = new_id(), unique("compose")
    folder = node.docker / "containers" / container
    folder.mkdir(parents=True)
    (folder / "config.v2.json").write_text(json.dumps({
        "ID": container, "Name": "/shop-web-1", "Image": "sha256:" + "ab" * 32, "Config": {
            "Image": "registry:5000/web:1.2", "Env": ["SECRET=x"], "Labels": {
                "com.docker.compose.service": app, "com.docker.compose.project": "shop", "tier": "gold"}}}))
    process = start_in(cgroups(f"docker/{container}"))
    node.check_totals({app: SOME_NS}, ROUGHLY)
    end(process)
    found = node.labels_of(f'{{service="{app}"}}')
    assert found["container"] == ["shop-web-1"] and found["container_id"] == [container] and found["version"] == ["1.2"]
    assert found["compose_project"] == ["shop"] and found["tier"] == ["gold"] and found["zone"] == ["eu-1a"]


def test_what_is_described_late_waits(node, cgroups):
    """Its series has the pod's labels from its first sample on; what is excluded then is never shipped."""
    containers = [new_id() for _ in range(5)]
    apps = [unique(name) for name in ("late", "private", "system", "dropped", "public")]
    late = pod(f"{apps[0]}-0", owner=("StatefulSet", apps[0]))
    private = pod("private", owner=("DaemonSet", apps[1]), annotations={"cairn.dev/profile": "false"},
                  containers=[("c", "i", containers[1])])
    system = pod("system", "kube-system", owner=("DaemonSet", apps[2]), containers=[("c", "i", containers[2])])
    dropped = pod("dropped", "dropped", owner=("DaemonSet", apps[3]), containers=[("c", "i", containers[3])])
    public = pod("public", "kube-system", owner=("DaemonSet", apps[4]), annotations={"cairn.dev/profile": "true"},
                 containers=[("c", "i", containers[4])])
    pods_late, excluded = node.counted("pods_late"), node.counted("samples_excluded")
    processes = [start_in(cgroups(cgroup_of(described, container)), CPU_NS if described is late else SOME_NS)
                 for described, container in zip((late, private, system, dropped, public), containers)]
    time.sleep(1.5)  # more than an export interval: nobody knows them yet, and nothing may be shipped
    for described in (late, private, system, dropped, public):
        node.server.put(described)
    time.sleep(1)  # it may have ended before its container has a name
    late["status"]["containerStatuses"] = [{"name": "web", "containerID": f"containerd://{containers[0]}"}]
    node.server.put(late)
    end(*processes)
    node.check_totals({f'{{service="{apps[0]}",container="web"}}': CPU_NS}, NEARLY)
    node.check_totals({apps[4]: SOME_NS}, ROUGHLY)
    assert node.api.get("labels/service/values", query=in_pod(late))["values"] == [apps[0]]
    assert node.api.get("labels/container/values", query=in_pod(late))["values"] == ["web"]
    assert node.counted("pods_late") == pods_late == 0
    wait_until("the counter", 20, lambda: node.counted("samples_excluded") > excluded)
    for described in (private, system, dropped):
        for kind in (TYPE.CPU, TYPE.RSS):
            assert node.api.total(in_pod(described), type=kind) == 0, node.labels_of(in_pod(described))


class NewPods:
    """Pods that come after each fault; their labels are checked together, as a look waits until no more comes."""

    def __init__(self, node, cgroups):
        self.node, self.cgroups, self.apps, self.processes = node, cgroups, [], []

    def start(self, name):
        container, app = new_id(), unique(name)
        new = pod(app, owner=("Job", app), containers=[("c", "image:7", container)])
        self.node.server.put(new)
        self.processes.append(start_in(self.cgroups(cgroup_of(new, container))))
        self.apps.append(app)

    def check(self):
        self.node.check_totals({f'{{service="{app}",workload_kind="job",version="7"}}': SOME_NS for app in self.apps}, ROUGHLY)
        end(*self.processes)


def test_pods_are_labelled_after_every_fault(node, cgroups):
    server, new_pods = node.server, NewPods(node, cgroups)
    new_pods.start("first")
    watches = server.watches
    server.drop_connections()
    wait_until("another watch", 20, lambda: server.watches > watches)
    lists = server.lists
    server.forget_events()
    wait_until("another list", 20, lambda: server.lists > lists)
    new_pods.start("gone")
    lists, watches = server.lists, server.watches
    server.send_garbage(b"\0\xff{" * 100 + b"}}}}")
    wait_until("another watch", 60, lambda: server.lists > lists and server.watches > watches)
    server.send_garbage(b'{"type":"ADDED","object":{"metadata":{"uid":"../../x"}}}\n')
    new_pods.start("garbage")
    watches = server.watches
    server.rotate_token()  # the watch that runs goes on; the next request has the new one
    server.drop_connections()
    wait_until("another watch", 20, lambda: server.watches > watches)
    new_pods.start("rotated")
    new_pods.check()
    assert server.unauthorized == 0
    assert node.agent.is_running()


def test_an_absent_api_server_costs_no_sample(node, cgroups):
    server, new_pods = node.server, NewPods(node, cgroups)
    container, app = new_id(), unique("known")
    known, unknown = pod(app, owner=("Job", app), containers=[("c", "image:7", container)]), pod("unknown")
    server.put(known)
    folder = cgroups(cgroup_of(known, container))
    first = start_in(folder)
    wait_until("the pod's first sample", 20, lambda: node.api.total(app))
    failures = node.counted("pod_requests_failed")
    server.stop()
    wait_until("the warning", 60, lambda: node.agent.log().count("new pods stay without labels") > 0)
    # A new process of a known container, and one of a pod that nobody describes: its wait is bounded.
    end(first, start_in(folder, CPU_NS), start_in(cgroups(cgroup_of(unknown, new_id())), CPU_NS))
    server.start()
    node.check_totals({app: SOME_NS + CPU_NS, in_pod(unknown): CPU_NS}, NEARLY)
    assert node.counted("pod_requests_failed") > failures
    wait_until("an answer", 60, lambda: "answers again" in node.agent.log())
    new_pods.start("back")
    new_pods.check()
