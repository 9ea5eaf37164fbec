# SPDX-License-Identifier: Apache-2.0
"""Helm, kubectl's kustomize and kubeconform, where they are: what the chart and the manifests render to."""
import functools
import json
import os
import pathlib
import shutil
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/cairn"
KUBERNETES = ROOT / "deploy/kubernetes"
HELM = shutil.which(os.environ.get("HELM") or "helm")
KUBECONFORM = shutil.which(os.environ.get("KUBECONFORM") or "kubeconform")
SCHEMAS = pathlib.Path(os.environ.get("SCHEMAS") or "none")  # of tests/deploy/make-schemas
OLDEST = "1.30.0"  # Kubernetes, as Chart.yaml has it
# Labels by which Helm knows its objects.
HELMS_LABELS = ("app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart")

needs_helm = pytest.mark.skipif(not HELM, reason="no helm: the chart is not rendered (`make chart` builds one)")


@functools.cache
def has_kustomize():
    """Of version 5, as kubectl has had it since 1.27."""
    if not shutil.which("kubectl"):
        return False
    return "Kustomize Version: v5" in subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True, check=False).stdout


def helm(*arguments):
    return subprocess.run([HELM, *map(str, arguments)], capture_output=True, text=True, check=False)


def template(values=None, name="cairn", namespace="cairn"):
    """The objects of the chart with these values, a tree. AssertionError, with Helm's words, where it refuses."""
    done = subprocess.run([HELM, "template", name, CHART, "--namespace", namespace, "--kube-version", OLDEST, "--values", "-"],
                          input=json.dumps(values or {}), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def refusal(values):
    """Why Helm refuses these values."""
    done = subprocess.run([HELM, "template", "cairn", CHART, "--kube-version", OLDEST, "--values", "-"], input=json.dumps(values),
                          capture_output=True, text=True, check=False)
    assert done.returncode != 0, done.stdout
    return done.stderr


def kustomize(folder):
    done = subprocess.run(["kubectl", "kustomize", KUBERNETES / folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def key(item):
    return item["kind"], item["metadata"]["name"]


def comparable(objects):
    """Objects by kind and name, without what only one of Helm and kustomize writes."""
    found = {}
    for item in objects:
        item = json.loads(json.dumps(item))
        item["metadata"].pop("namespace", None)  # Helm's is the release's
        for label in HELMS_LABELS:
            item["metadata"].get("labels", {}).pop(label, None)
        assert key(item) not in found, key(item)
        found[key(item)] = item
    return found


def pod_specs(objects):
    return [item["spec"]["template"]["spec"] for item in objects if item["kind"] in ("DaemonSet", "StatefulSet")]


def one(objects, kind, name):
    (found,) = [item for item in objects if key(item) == (kind, name)]
    return found
