# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes manifests: complete, consistent with the programs' flags, and with no more rights than stated."""

import base64
import pathlib
import re
import subprocess

import pytest
import yaml

from helm import KUBERNETES, has_kustomize, kustomize

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE = ROOT / "deploy/kubernetes/base"
SIX = {"BPF", "PERFMON", "SYS_PTRACE", "SYSLOG", "CHECKPOINT_RESTORE", "DAC_READ_SEARCH"}


def resources():
    listed = yaml.safe_load((BASE / "kustomization.yaml").read_text())["resources"]
    for name in listed:
        yield from yaml.safe_load_all((BASE / name).read_text())


def namespace():
    return yaml.safe_load((BASE / "namespace.yaml").read_text())


def one(kind, name=None):
    found = [r for r in resources() if r["kind"] == kind and name in (None, r["metadata"]["name"])]
    assert len(found) == 1, f"{len(found)} of {kind}"
    return found[0]


def pod(kind):
    return one(kind)["spec"]["template"]["spec"]


def test_agent_has_exactly_six_capabilities():
    spec = pod("DaemonSet")
    (agent,) = spec["containers"]
    security = agent["securityContext"]
    assert spec["hostPID"] is True
    assert "hostNetwork" not in spec and "privileged" not in security
    assert security["capabilities"]["drop"] == ["ALL"]
    assert set(security["capabilities"]["add"]) == SIX
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True


def test_agent_only_lists_and_watches_pods():
    role, binding = one("ClusterRole"), one("ClusterRoleBinding")
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"] and binding["roleRef"]["kind"] == "ClusterRole"
    spec = pod("DaemonSet")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": spec["serviceAccountName"], "namespace": namespace()["metadata"]["name"]}]
    assert spec["automountServiceAccountToken"] is True
    assert pod("StatefulSet").get("automountServiceAccountToken") is not True
    (agent,) = spec["containers"]
    (node,) = [variable for variable in agent["env"] if variable["name"] == "NODE_NAME"]
    assert node["valueFrom"]["fieldRef"]["fieldPath"] == "spec.nodeName"


def test_agent_mounts_host_cgroups_read_only():
    spec = pod("DaemonSet")
    (agent,) = spec["containers"]
    paths = {volume["name"]: volume.get("hostPath", {}).get("path") for volume in spec["volumes"]}
    (mount,) = [mount for mount in agent["volumeMounts"] if paths[mount["name"]] == "/sys/fs/cgroup"]
    assert mount["readOnly"] is True
    assert mount["recursiveReadOnly"] == "IfPossible"  # submounts on cgroup v1


def test_agents_spool_outlives_the_pod():
    spec = pod("DaemonSet")
    (agent,) = spec["containers"]
    (folder,) = [arg.split("=", 1)[1] for arg in agent["args"] if arg.startswith("--spool-dir=")]
    (mount,) = [mount for mount in agent["volumeMounts"] if mount["mountPath"] == folder]
    assert not mount.get("readOnly")
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == mount["name"]]
    assert volume["hostPath"] == {"path": folder, "type": "DirectoryOrCreate"}
    # Two agents cannot share it: in a rollout the old one ends first.
    assert "maxSurge" not in one("DaemonSet")["spec"]["updateStrategy"]["rollingUpdate"]


def test_deletion_keeps_the_namespace():
    """And with it the collector's volume and the Secrets: kubectl delete -k."""
    assert not [r for r in resources() if r["kind"] == "Namespace"]
    kustomization = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    assert namespace()["metadata"]["name"] == kustomization["namespace"]


def test_namespace_admits_the_agent():
    labels = namespace()["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "privileged"


def test_collector_runs_unprivileged_on_volume():
    spec = pod("StatefulSet")
    (collector,) = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert collector["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    claims = one("StatefulSet")["spec"]["volumeClaimTemplates"]
    mounts = {mount["name"]: mount["mountPath"] for mount in collector["volumeMounts"]}
    assert mounts[claims[0]["metadata"]["name"]] == "/data"
    assert "--data=/data" in collector["args"]


def test_agent_has_priority_and_scratch():
    spec = pod("DaemonSet")
    (agent,) = spec["containers"]
    priority = one("PriorityClass")
    assert spec["priorityClassName"] == priority["metadata"]["name"]
    assert priority["preemptionPolicy"] == "Never"
    scratch = next(mount["name"] for mount in agent["volumeMounts"] if mount["mountPath"] == "/tmp")
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == scratch]
    assert volume["emptyDir"]["sizeLimit"]


def test_agent_is_probed_where_it_listens():
    (agent,) = pod("DaemonSet")["containers"]
    listens = next(arg for arg in agent["args"] if arg.startswith("--admin="))
    (port,) = agent["ports"]
    assert listens.rsplit(":", 1)[1] == str(port["containerPort"])
    for probe, path in (("startupProbe", "/healthz"), ("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        assert agent[probe]["httpGet"] == {"path": path, "port": port["name"]}
        # Longer than the agent takes to find that its main loop hangs.
        assert agent[probe]["timeoutSeconds"] > 3


@pytest.mark.parametrize("name, kind", [("cairn-agent", "DaemonSet"), ("cairn-collector", "StatefulSet")])
def test_network_policy_names_ports_that_exist(name, kind):
    policy = one("NetworkPolicy", name)["spec"]
    labels = one(kind)["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    (container,) = pod(kind)["containers"]
    names = {port["name"] for port in container["ports"]}
    admitted = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert admitted == names


def test_agents_pass_the_collectors_policy():
    (rule,) = [rule for rule in one("NetworkPolicy", "cairn-collector")["spec"]["ingress"]
               if rule["ports"] == [{"port": "grpc"}]]
    (source,) = rule["from"]
    labels = one("DaemonSet")["spec"]["template"]["metadata"]["labels"]
    assert source["podSelector"]["matchLabels"].items() <= labels.items()


def test_agents_ship_to_collector_service():
    (agent,) = pod("DaemonSet")["containers"]
    target = next(arg for arg in agent["args"] if arg.startswith("--collector=")).split("=", 1)[1]
    host, port = target.split(":")
    name, inside = host.split(".")[:2]
    assert inside == namespace()["metadata"]["name"]
    service = next(r for r in resources() if r["kind"] == "Service" and r["metadata"]["name"] == name)
    assert int(port) in [p["port"] for p in service["spec"]["ports"]]
    labels = one("StatefulSet")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_secrets_have_what_manifests_mount(tmp_path):
    text = subprocess.run([ROOT / "deploy/kubernetes/new-secrets"], capture_output=True, text=True, check=True).stdout
    secrets = {s["metadata"]["name"]: s["data"] for s in yaml.safe_load_all(text) if s}
    for kind in ("StatefulSet", "DaemonSet"):
        spec = pod(kind)
        (container,) = spec["containers"]
        (volume,) = [v for v in spec["volumes"] if "secret" in v]
        (mount,) = [m for m in container["volumeMounts"] if m["name"] == volume["name"]]
        folder = tmp_path / volume["secret"]["secretName"]
        folder.mkdir()
        for name, data in secrets[volume["secret"]["secretName"]].items():
            (folder / name).write_bytes(base64.b64decode(data))
        for argument in container["args"]:
            if mount["mountPath"] in argument:
                assert (folder / argument.split(mount["mountPath"] + "/")[1]).exists(), argument
    subprocess.run(["openssl", "verify", "-CAfile", tmp_path / "cairn-agent/ca.crt", "-verify_hostname",
                    "cairn-collector.cairn.svc", tmp_path / "cairn-collector/tls.crt"], check=True, capture_output=True)
    hashes = (tmp_path / "cairn-collector/access").read_text()
    assert "agents ingest - sha256:" in hashes
    assert (tmp_path / "cairn-agent/token").read_text().strip().rsplit(".", 1)[1] not in hashes


def test_collector_is_encrypted_and_asks_who():
    (collector,) = pod("StatefulSet")["containers"]
    words = " ".join(collector["args"])
    assert "--tls-cert=" in words and "--access=" in words and "--insecure" not in words
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert collector[probe]["httpGet"]["scheme"] == "HTTPS"


@pytest.mark.parametrize("kind, program", [("DaemonSet", "cairn-agent"), ("StatefulSet", "cairn-collector")])
def test_manifests_use_known_flags(kind, program):
    (container,) = pod(kind)["containers"]
    text = subprocess.run([ROOT / "build" / program, "--help"], capture_output=True, text=True, check=True).stdout
    for argument in container["args"]:
        flag = re.match(r"--[a-z-]+", argument).group()
        assert re.search(rf"{flag}\b", text), f"{program} --help does not name {flag}"


@pytest.mark.parametrize("image", ["agent", "collector"])
def test_images_have_program_and_cli(image):
    text = (ROOT / f"deploy/images/{image}.Dockerfile").read_text()
    assert f"/packages/install cairn cairn-{image}" in text
    assert re.search(rf'^ENTRYPOINT \["/usr/bin/cairn-{image}"\]$', text, re.M)
    # https servers of --debuginfod.
    assert "ca-certificates" in (ROOT / "deploy/images/install").read_text()


@pytest.mark.skipif(not has_kustomize(), reason="no kubectl with kustomize 5: the rendering is not checked")
@pytest.mark.parametrize("folder", ["base", "monitoring", *(f"overlays/{path.name}" for path in sorted((KUBERNETES / "overlays").iterdir()))])
def test_kustomize_renders(folder):
    rendered = kustomize(folder)
    assert {r["kind"] for r in rendered} >= {"DaemonSet", "StatefulSet", "Service", "NetworkPolicy"}
    cluster_wide = ("ClusterRole", "ClusterRoleBinding", "PriorityClass", "SecurityContextConstraints")
    assert all(r["metadata"].get("namespace") == "cairn" for r in rendered if r["kind"] not in cluster_wide)


@pytest.mark.skipif(not has_kustomize(), reason="no kubectl with kustomize 5")
def test_least_privilege_is_what_docs_say():
    rendered = kustomize("overlays/least-privilege")
    (agent,) = [r for r in rendered if r["kind"] == "DaemonSet"]
    spec = agent["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert set(container["securityContext"]["capabilities"]["add"]) == {"BPF", "PERFMON", "SYS_PTRACE"}
    assert not [volume for volume in spec["volumes"] if "hostPath" in volume]
    assert spec["automountServiceAccountToken"] is False and not [r for r in rendered if r["kind"].startswith("ClusterRole")]
    text = (ROOT / "docs/install.md").read_text().split("**`least-privilege`**")[1].split("\n\n")[0]
    assert set(re.findall(r"CAP_([A-Z_]+)", text)) == SIX - {"BPF", "PERFMON", "SYS_PTRACE"}
