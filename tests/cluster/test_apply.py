# SPDX-License-Identifier: Apache-2.0
"""The real API server takes what the chart and the manifests render to, without a warning, and grants no more than they say."""
import subprocess

import pytest
import yaml

from cluster import Refusal
from helm import CHART, HELM, kustomize, needs_helm, template
from test_chart import CUSTOM, NAMES, SAME, VALUES


def apply(server, objects, *flags):
    """kubectl's output. Objects whose operator's definition is not there are left out."""
    kinds = {line.split()[-1] for line in server.kubectl("api-resources", "--no-headers").splitlines()}
    known = [item for item in objects if item["kind"] in kinds or item["kind"] not in CUSTOM]
    text = yaml.safe_dump_all(known)
    done = subprocess.run(["kubectl", "--kubeconfig", server.config, "apply", "-n", "cairn", *flags, "-f", "-"], input=text,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.parametrize("folder", SAME)
def test_server_takes_the_manifests(server, folder):
    said = apply(server, kustomize(folder), "--dry-run=server")
    assert "daemonset.apps/cairn-agent created (server dry run)" in said
    assert "statefulset.apps/cairn-collector created (server dry run)" in said


@needs_helm
@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_server_takes_the_chart(server, values):
    assert "(server dry run)" in apply(server, template(values), "--dry-run=server", "--validate=strict")


def may(server, verb, resource, *flags):
    done = server.run("auth", "can-i", verb, resource, "--as", "system:serviceaccount:cairn:cairn-agent", *flags)
    return done.stdout.strip() == "yes"


def test_account_may_list_and_watch_pods_only(server):
    apply(server, kustomize("base"))
    try:
        assert may(server, "list", "pods", "-A") and may(server, "watch", "pods", "-A")
        for verb in ("get", "create", "delete", "patch", "update"):
            assert not may(server, verb, "pods", "-A"), verb
        for resource in ("nodes", "secrets", "namespaces", "configmaps", "replicasets"):
            assert not may(server, "list", resource, "-A") and not may(server, "get", resource, "-A"), resource
        for resource, part in (("nodes", "proxy"), ("pods", "exec"), ("pods", "log"), ("serviceaccounts", "token")):
            for verb in ("get", "create"):
                assert not may(server, verb, resource, "--subresource", part, "-A"), f"{verb} {resource}/{part}"
    finally:
        server.kubectl("delete", "-k", "deploy/kubernetes/base", "--wait=false")


def test_a_restricted_namespace_warns(server):
    """As docs/install.md says: the DaemonSet is taken, its pods would not be."""
    server.make_namespace("strict", {"pod-security.kubernetes.io/enforce": "baseline"})
    (agent,) = [item for item in kustomize("base") if item["kind"] == "DaemonSet"]
    agent["metadata"]["namespace"] = "strict"
    done = server.run("apply", "-f", "-", "--dry-run=server", text=yaml.safe_dump(agent))
    assert done.returncode == 0
    assert "would violate PodSecurity" in done.stderr and "host namespaces (hostPID=true)" in done.stderr


def test_server_refuses_unknown_fields(server):
    """Else the tests above would show nothing."""
    (agent,) = [item for item in kustomize("base") if item["kind"] == "DaemonSet"]
    agent["spec"]["template"]["spec"]["containers"][0]["securityContext"]["capabilitys"] = {}
    with pytest.raises(Refusal, match="unknown field"):
        server.kubectl("apply", "--dry-run=server", "--validate=strict", objects=[agent])


@needs_helm
def test_release_is_installed_changed_and_removed(server, tmp_path):
    """With what it says of Secrets and commands; and nothing of it is left."""
    def helm(*words):
        done = subprocess.run([HELM, "--kubeconfig", server.config, "--namespace", "obs", *map(str, words)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    server.kubectl("create", "namespace", "obs")
    server.kubectl("label", "namespace", "obs", "pod-security.kubernetes.io/enforce=privileged")
    values = tmp_path / "values.yaml"
    values.write_text("{agent: {secretName: mine}}")
    notes = helm("install", "prof", CHART, "--values", values).split("NOTES:")[1]
    assert "mine: ca.crt, token" in notes and "prof-cairn-collector: tls.crt, tls.key, access" in notes
    assert "new-secrets, which makes them: --namespace obs --name prof-cairn." in notes
    assert "kubectl -n obs rollout status --timeout 5m daemonset/prof-cairn-agent" in notes
    helm("upgrade", "prof", CHART, "--values", values, "--set", "gpuNodes.enabled=true", "--set", "agent.maxUnavailable=2")
    names = server.kubectl("get", "daemonsets", "-n", "obs", "-o", "name").split()
    assert names == ["daemonset.apps/prof-cairn-agent", "daemonset.apps/prof-cairn-agent-gpu"]
    helm("uninstall", "prof")
    for kinds in ("daemonsets,statefulsets,services,serviceaccounts,networkpolicies,poddisruptionbudgets,roles,rolebindings",
                  "clusterroles,clusterrolebindings,priorityclasses"):
        assert "prof-cairn" not in server.kubectl("get", kinds, "-n", "obs", "-o", "name")
