# SPDX-License-Identifier: Apache-2.0
"""The agent and the collector as the manifests run them: pods of the real kubelet, with the capabilities, mounts, probes, Secrets
and the account that they have there. No controller runs, so the pods are made here of the DaemonSet's and the StatefulSet's templates."""
import base64
import json
import os
import pathlib
import ssl
import subprocess
import urllib.parse
import urllib.request

import pytest
import yaml

from cluster import NODE
from fleet import ROOT, program, unique, wait_until
from helm import kustomize
from images import library
from node import ADDRESS, BURN

SIX = ["BPF", "PERFMON", "SYS_PTRACE", "SYSLOG", "CHECKPOINT_RESTORE", "DAC_READ_SEARCH"]
THREE = SIX[:3]
NUMBERS = {"SYS_PTRACE": 19, "DAC_READ_SEARCH": 2, "SYSLOG": 34, "PERFMON": 38, "BPF": 39, "CHECKPOINT_RESTORE": 40}
IMAGES = {"agent": "localhost/cairn-agent:1", "collector": "localhost/cairn-collector:1"}


@pytest.fixture(scope="module")
def images(node):
    node.add_image(IMAGES["agent"], {"/usr/bin/cairn-agent": program("cairn-agent"), "/usr/bin/cairn": program("cairn"),
                                     **library("libmicrohttpd.so.12")}, ["/usr/bin/cairn-agent"])
    node.add_image(IMAGES["collector"], {"/usr/bin/cairn-collector": program("cairn-collector")}, ["/usr/bin/cairn-collector"], "10001:10001")


@pytest.fixture(scope="module")
def secrets(server):
    """By name: contents."""
    text = subprocess.run([ROOT / "deploy/kubernetes/new-secrets"], capture_output=True, text=True, check=True,
                          env={**os.environ, "COLLECTOR": program("cairn-collector")}).stdout
    objects = [item for item in yaml.safe_load_all(text) if item]
    server.kubectl("apply", objects=objects)
    # What controllers put into each namespace.
    server.kubectl("apply", objects=[{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "cairn"}},
                                     {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kube-root-ca.crt", "namespace": "cairn"},
                                      "data": {"ca.crt": pathlib.Path(server.ca).read_text()}}])
    return {item["metadata"]["name"]: item["data"] for item in objects}


def pod_of(workload, **fields):
    """The pod that its controller would make."""
    template = json.loads(json.dumps(workload["spec"]["template"]))
    spec = {**template["spec"], "nodeName": NODE, **fields}
    for container in spec["containers"]:
        container["image"] = IMAGES[container["name"]]
    spec["volumes"] += [{"name": claim["metadata"]["name"], "emptyDir": {}} for claim in workload["spec"].get("volumeClaimTemplates", [])]
    name = workload["metadata"]["name"] + "-0"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": name, "namespace": "cairn"}, "spec": spec}


def is_ready(server, name):
    conditions = server.get("pod", name, "-n", "cairn")["status"].get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def wait_for_ready(server, node, name, seconds=120):
    try:
        wait_until(f"{name} is ready", seconds, lambda: is_ready(server, name))
    except AssertionError as error:
        status = json.dumps(server.get("pod", name, "-n", "cairn")["status"].get("containerStatuses"))
        raise AssertionError(f"{error}; {status[:2000]}; its log:\n{log_of(node, name)[-3000:]}") from None
    return server.get("pod", name, "-n", "cairn")["status"]


def log_of(node, name):
    return "".join(path.read_text() for path in sorted((node.folder / "logs").glob(f"cairn_{name}_*/*/*.log")))


class Collector:
    """The one in the pod, asked as people do: by TLS, with a token."""

    def __init__(self, address, secret, folder):
        ca = pathlib.Path(folder) / "ca.crt"
        ca.write_bytes(base64.b64decode(secret["ca.crt"]))
        self.token = base64.b64decode(secret["token"]).decode().strip()
        self.context = ssl.create_default_context(cafile=ca)
        self.context.check_hostname = False  # names are for those within the cluster
        self.address = address

    def total(self, selector):
        query = urllib.parse.urlencode({"query": selector, "limit": 1, "from": "now-10m"})
        request = urllib.request.Request(f"https://{self.address}:7070/api/v1/top?{query}", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=20, context=self.context) as answer:
            return json.loads(answer.read())["total"]


def process_of(node, status):
    """Of the one container: its pid on the node."""
    container = status["containerStatuses"][0]["containerID"].split("//")[1]
    for line in node.run_ctr("tasks", "ls").splitlines():
        if line.startswith(container):
            return line.split()[1]
    raise AssertionError(container)


@pytest.mark.parametrize("folder, capabilities", [("base", SIX), ("overlays/least-privilege", THREE)])
def test_manifests_run(server, node, images, secrets, tmp_path, folder, capabilities):
    objects = kustomize(folder)
    server.kubectl("apply", objects=[item for item in objects if item["kind"] not in ("DaemonSet", "StatefulSet")])
    (agents,), (collectors,) = ([item for item in objects if item["kind"] == kind] for kind in ("DaemonSet", "StatefulSet"))
    server.kubectl("apply", objects=[pod_of(collectors)])
    status = wait_for_ready(server, node, "cairn-collector-0")
    collector = Collector(status["podIP"], secrets["cairn-people"], tmp_path)
    agent = pod_of(agents, hostAliases=[{"ip": status["podIP"], "hostnames": ["cairn-collector.cairn.svc"]}])  # no DNS here
    if folder == "base":  # nor a proxy of services
        agent["spec"]["containers"][0]["args"].append(f"--kubernetes=https://{ADDRESS}:{server.port}")
    server.kubectl("apply", objects=[agent])
    status = wait_for_ready(server, node, "cairn-agent-0")  # a batch was acknowledged, by TLS and with the token
    check_rights(process_of(node, status), capabilities)
    app = unique("app")
    server.kubectl("create", objects=[{
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": app, "namespace": "cairn", "labels": {"app.kubernetes.io/name": app}},
        "spec": {"nodeName": NODE, "automountServiceAccountToken": False, "restartPolicy": "Never", "enableServiceLinks": False,
                 "containers": [{"name": "web", "image": BURN, "imagePullPolicy": "Never", "args": ["--seconds", "3"]}]}}])
    uid = server.get("pod", app, "-n", "cairn")["metadata"]["uid"]
    selector = f'{{pod_uid="{uid}"' + (f',pod="{app}",service="{app}",container="web",namespace="cairn",node="{NODE}"}}' if folder == "base" else "}")
    try:
        wait_until("the pod's profile", 60, lambda: collector.total(selector) > 0)
    finally:
        log = log_of(node, "cairn-agent-0")
        print(log)
    missing = [name for name in SIX if f"CAP_{name} is missing" in log]
    assert missing == [name for name in SIX if name not in capabilities]
    assert "new pods stay without labels" not in log and "seccomp: refused" not in log


@pytest.fixture(autouse=True)
def no_pods_left(server):
    yield
    server.kubectl("delete", "pods", "--all", "-n", "cairn", "--timeout=60s")


def check_rights(pid, capabilities):
    """As the kernel has them."""
    lines = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    expected = sum(1 << NUMBERS[name] for name in capabilities)
    for name in ("CapPrm", "CapEff", "CapBnd"):
        assert int(lines[name], 16) == expected, name
    assert int(lines["CapInh"], 16) & ~expected == 0 and int(lines["CapAmb"], 16) == 0
    assert lines["NoNewPrivs"] == "1" and lines["Seccomp"] == "2"
    mounts = {line.split()[1]: line.split()[3].split(",") for line in pathlib.Path(f"/proc/{pid}/mounts").read_text().splitlines()}
    assert "ro" in mounts["/"]
    cgroups = [options for path, options in mounts.items() if path.startswith("/host/sys/fs/cgroup")]
    assert bool(cgroups) == (capabilities == SIX)
    assert "ro" in mounts.get("/host/sys/fs/cgroup", ["ro"])
