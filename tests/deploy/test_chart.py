# SPDX-License-Identifier: Apache-2.0
"""The Helm chart: the manifests are made of it, it renders with all its values, and none of them gives more rights."""
import hashlib
import json
import os
import subprocess

import pytest
import yaml

from helm import (CHART, HELM, KUBECONFORM, KUBERNETES, OLDEST, ROOT, SCHEMAS, comparable, has_kustomize, helm, key, kustomize, needs_helm, one,
                  pod_specs, refusal, template)
from test_manifests import SIX

# Of operators.
CUSTOM = ("PodMonitor", "PrometheusRule", "SecurityContextConstraints")
THREE = {"BPF", "PERFMON", "SYS_PTRACE"}
# Folders of deploy/kubernetes, and the chart's values that mean the same.
SAME = {
    "base": {},
    "monitoring": {"monitoring": {"podMonitors": True, "rules": True}},
    "overlays/mtls": {"mutualTls": {"enabled": True}},
    "overlays/gpu-nodes": {"gpuNodes": {"enabled": True}},
    "overlays/least-privilege": {"agent": {"leastPrivilege": True}},
    "overlays/openshift": {"openshift": {"enabled": True}},
}
EVERYTHING = {
    "agent": {"nodeSelector": {"pool": "batch"}, "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
              "affinity": {"podAffinity": {}}, "resources": {"limits": {"memory": "1Gi"}}, "extraArgs": ["--frequency=49"],
              "nodeLabels": ["topology.kubernetes.io/zone", "example.com/*"],
              "relabelConfigs": [{"source_labels": ["namespace"], "regex": "a|b", "action": "keep"},
                                 {"source_labels": ["pod", "node"], "regex": "(.+);(.+)", "target_label": "x", "replacement": "${1}:$2"},
                                 {"source_labels": ["pod"], "modulus": 8, "target_label": "shard", "action": "hashmod"}],
              "podLabels": {"team": "core"}, "podAnnotations": {"note": "x"}, "maxUnavailable": 3, "secretName": "mine",
              "image": {"repository": "registry:5000/cairn-agent", "digest": "sha256:" + "ab" * 32, "pullPolicy": "Always"},
              "priorityClass": {"create": False, "name": "system-node-critical"}},
    "collector": {"nodeSelector": {"pool": "io"}, "tolerations": [{"operator": "Exists"}], "affinity": {"podAffinity": {}},
                  "extraArgs": ["--memory=1GiB"], "httpHosts": ["profiles.example.org"], "retention": "3d", "secretName": "ours",
                  "storage": {"size": "200Gi", "className": "fast"}, "service": {"type": "LoadBalancer", "annotations": {"a": "b"}},
                  "image": {"repository": "registry:5000/cairn-collector", "tag": "9.9"}, "priorityClassName": "high",
                  "podLabels": {"team": "core"}, "podAnnotations": {"note": "x"}},
    "imagePullSecrets": [{"name": "pull"}],
    "monitoring": {"podMonitors": True, "rules": True, "dashboards": True, "labels": {"release": "prometheus"}},
    "mutualTls": {"enabled": True}, "gpuNodes": {"enabled": True}, "openshift": {"enabled": True},
    "fullnameOverride": "profiler", "clusterDomain": "corp.example",
}

LEAST = EVERYTHING | {"agent": EVERYTHING["agent"] | {"leastPrivilege": True}}
VALUES, NAMES = [*SAME.values(), EVERYTHING, LEAST], [*SAME, "everything", "least privilege with everything"]


def test_manifests_are_made_of_the_chart():
    """Without Helm, too: neither was edited alone."""
    lines = (KUBERNETES / "rendered.sha256").read_text().splitlines()
    listed = {path: digest for digest, path in (line.split("  ") for line in lines)}
    for path, digest in listed.items():
        assert hashlib.sha256((ROOT / path).read_bytes()).hexdigest() == digest, \
            f"{path} was edited: edit deploy/helm/cairn only, then `make manifests`"
    templates = {str(path.relative_to(ROOT)) for path in (CHART / "templates").iterdir()}
    assert templates <= set(listed)


def test_schema_names_each_value():
    schema = json.loads((CHART / "values.schema.json").read_text())

    def compare(values, part, path):
        part = schema["definitions"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part
        for name, value in values.items():
            if "properties" not in part:
                continue
            assert name in part["properties"], f"{path}.{name} is not in the schema"
            if isinstance(value, dict):
                compare(value, part["properties"][name], f"{path}.{name}")
        if "properties" in part and path != ".agent.resources" and path != ".collector.resources":
            assert part["additionalProperties"] is False, path
    compare(yaml.safe_load((CHART / "values.yaml").read_text()), schema, "")


def test_chart_packs_the_dashboards():
    assert {path.name for path in (CHART / "dashboards").glob("*.json")} == {path.name for path in (ROOT / "deploy/grafana").glob("*.json")} != set()


@needs_helm
def test_manifests_are_what_the_chart_renders():
    done = subprocess.run([ROOT / "deploy/helm/render", "--check"], capture_output=True, text=True, check=False, env={**os.environ, "HELM": HELM})
    assert done.returncode == 0, done.stderr


@needs_helm
def test_lint_finds_nothing(tmp_path):
    for number, values in enumerate(VALUES):
        path = tmp_path / f"{number}.yaml"
        path.write_text(yaml.safe_dump(values))
        done = helm("lint", "--strict", "--kube-version", OLDEST, "--values", path, CHART)
        assert done.returncode == 0, done.stdout + done.stderr


@needs_helm
@pytest.mark.skipif(not has_kustomize(), reason="no kubectl with kustomize 5")
@pytest.mark.parametrize("folder", SAME)
def test_kustomize_renders_what_the_chart_does(folder):
    ours, theirs = comparable(kustomize(folder)), comparable(template(SAME[folder]))
    assert ours.keys() == theirs.keys()
    for name, item in ours.items():
        arguments(item), arguments(theirs[name])
        assert item == theirs[name], name


def arguments(item):
    """Their order says nothing."""
    for spec in pod_specs([item]):
        for container in spec["containers"]:
            container["args"].sort()
            container["volumeMounts"].sort(key=lambda mount: mount["name"])
        spec["volumes"].sort(key=lambda volume: volume["name"])


@needs_helm
@pytest.mark.skipif(not KUBECONFORM or not SCHEMAS.exists(), reason="no kubeconform or no schemas for it (`make chart` makes them)")
@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_objects_are_of_kubernetes_schemas(values):
    """Of the oldest version that is supported, too."""
    versions = sorted(path.name for path in SCHEMAS.iterdir())
    assert versions
    text = yaml.safe_dump_all(template(values))
    for version in versions:
        done = subprocess.run([KUBECONFORM, "-strict", "-summary", "-schema-location",
                               f"{SCHEMAS}/{version}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"], input=text, capture_output=True,
                              text=True, check=False)
        assert done.returncode == 0, f"{version}: {done.stdout}"
        assert "Invalid: 0, Errors: 0" in done.stdout


@needs_helm
def test_agents_get_the_rules_that_were_written():
    objects = template(EVERYTHING)
    rules = next(item for item in objects if item["kind"] == "ConfigMap" and item["metadata"]["name"].endswith("-relabel"))
    assert yaml.safe_load(rules["data"]["relabel.yaml"]) == {"relabel_configs": EVERYTHING["agent"]["relabelConfigs"]}
    changed = {**EVERYTHING, "agent": {**EVERYTHING["agent"], "relabelConfigs": [{"target_label": "x"}]}}
    pods, others = ([item["spec"]["template"] for item in each if item["kind"] == "DaemonSet"] for each in (objects, template(changed)))
    assert len(pods) == len(others) == 2
    for pod, other in zip(pods, others):
        container = pod["spec"]["containers"][0]
        mount = next(mount for mount in container["volumeMounts"] if mount["name"] == "relabel")
        assert f"--relabel={mount['mountPath']}/relabel.yaml" in container["args"]
        assert "--node-labels=topology.kubernetes.io/zone,example.com/*" in container["args"]
        assert {"name": "relabel", "configMap": {"name": rules["metadata"]["name"]}} in pod["spec"]["volumes"]
        assert pod["metadata"]["annotations"] != other["metadata"]["annotations"]  # they are read at start: new ones, new pods


@needs_helm
@pytest.mark.parametrize("values", VALUES, ids=NAMES)
def test_no_value_gives_more_rights(values):
    objects = template(values)
    allowed = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    if values.get("agent", {}).get("nodeLabels"):  # the one that has its price beside it
        allowed.append({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]})
    for item in objects:
        if item["kind"] in ("ClusterRole", "Role") and "securitycontextconstraints" not in item["rules"][0]["resources"]:
            assert item["rules"] == allowed
    is_least = values.get("agent", {}).get("leastPrivilege", False)
    for spec in pod_specs(objects):
        assert not spec.get("hostNetwork") and not spec.get("hostIPC")
        for container in spec["containers"]:
            security = container["securityContext"]
            assert not security.get("privileged") and security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True and security["capabilities"]["drop"] == ["ALL"]
            expected = set() if container["name"] == "collector" else THREE if is_least else SIX
            assert set(security["capabilities"].get("add", [])) == expected
        hosts = {volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
        assert not is_least or hosts <= {"/etc/cairn/pki"}  # of mutualTls


@needs_helm
def test_values_reach_the_objects():
    objects = template(EVERYTHING)
    (gpu,) = [item for item in objects if key(item) == ("DaemonSet", "profiler-agent-gpu")]
    agent, collector = one(objects, "DaemonSet", "profiler-agent"), one(objects, "StatefulSet", "profiler-collector")
    for item in (gpu, agent):
        spec = item["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        assert container["image"] == "registry:5000/cairn-agent@sha256:" + "ab" * 32 and container["imagePullPolicy"] == "Always"
        assert "--frequency=49" in container["args"] and "--collector=profiler-collector.cairn.svc:7171" in container["args"]
        assert container["resources"]["limits"] == {"memory": "1Gi"}
        assert spec["tolerations"] == EVERYTHING["agent"]["tolerations"] and spec["nodeSelector"]["pool"] == "batch"
        assert spec["priorityClassName"] == "system-node-critical" and spec["imagePullSecrets"] == [{"name": "pull"}]
        assert spec["securityContext"]["seLinuxOptions"] == {"type": "spc_t"} and "podAffinity" in spec["affinity"]
        assert item["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == 3
        assert {"mine"} == {volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume}
        assert item["spec"]["template"]["metadata"]["labels"]["team"] == "core"
    assert not [item for item in objects if item["kind"] == "PriorityClass"]
    spec = collector["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["image"] == "registry:5000/cairn-collector:9.9" and "--retention=3d" in container["args"]
    assert "--tls-client-ca=/etc/cairn/client-ca.crt" in container["args"] and "--memory=1GiB" in container["args"]
    assert "--http-host=profiles.example.org,profiler-collector,profiler-collector.cairn,profiler-collector.cairn.svc," \
        "profiler-collector.cairn.svc.corp.example" in container["args"]
    assert spec["nodeSelector"] == {"pool": "io"} and spec["priorityClassName"] == "high"
    (claim,) = collector["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast" and claim["spec"]["resources"]["requests"]["storage"] == "200Gi"
    assert one(objects, "Service", "profiler-collector")["spec"]["type"] == "LoadBalancer"
    rules = one(objects, "PrometheusRule", "profiler")
    assert rules["metadata"]["labels"]["release"] == "prometheus" and 'job="cairn/profiler-agent"' in json.dumps(rules).replace("\\", "")
    for name in ("fleet-health", "service-profile"):
        dashboard = one(objects, "ConfigMap", f"profiler-{name}")
        assert json.loads(dashboard["data"][f"{name}.json"])["panels"]


@needs_helm
def test_annotations_win_over_defaults():
    objects = template({"agent": {"podAnnotations": {"prometheus.io/scrape": "false"}}})
    annotations = one(objects, "DaemonSet", "cairn-agent")["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"prometheus.io/scrape": "false", "prometheus.io/port": "7073", "prometheus.io/path": "/metrics"}


@needs_helm
def test_omits_absent_storage_class():
    objects = template({"agent": {"priorityClass": {"create": False}}})
    assert not [item for item in objects if item["kind"] == "PriorityClass"]
    assert "priorityClassName" not in one(objects, "DaemonSet", "cairn-agent")["spec"]["template"]["spec"]


@needs_helm
def test_long_names_fit():
    for item in template(EVERYTHING | {"fullnameOverride": ""}, "a" * 53):
        name = item["metadata"]["name"]
        # The label controller-revision-hash of a StatefulSet's pods has its name and 11 characters more.
        assert len(name) <= (52 if item["kind"] == "StatefulSet" else 63), name


@needs_helm
def test_each_node_has_one_agent():
    """Those with GPUs from one DaemonSet, all others from the other."""
    objects = template({"gpuNodes": {"enabled": True}})
    gpu, plain = (one(objects, "DaemonSet", name)["spec"] for name in ("cairn-agent-gpu", "cairn-agent"))
    assert gpu["template"]["spec"]["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert gpu["template"]["spec"]["runtimeClassName"] == "nvidia" and "runtimeClassName" not in plain["template"]["spec"]
    (term,) = plain["template"]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "nvidia.com/gpu.present", "operator": "NotIn", "values": ["true"]}]
    assert not gpu["selector"]["matchLabels"].items() <= plain["template"]["metadata"]["labels"].items()
    policy = one(objects, "NetworkPolicy", "cairn-collector")["spec"]["ingress"][0]["from"][0]["podSelector"]["matchLabels"]
    for item in (gpu, plain):
        assert policy.items() <= item["template"]["metadata"]["labels"].items()


@needs_helm
def test_releases_share_no_object():
    first, second = (comparable(template(EVERYTHING | {"fullnameOverride": ""}, name)).keys() for name in ("cairn-a", "b"))
    assert not first & second
    assert ("DaemonSet", "b-cairn-agent") in second


@needs_helm
def test_agents_alone_ship_elsewhere():
    objects = template({"collector": {"enabled": False}, "agent": {"collector": "profiles.example:7171"}, "monitoring": {"podMonitors": True}})
    assert not [item for item in objects if "collector" in item["metadata"]["name"]]
    (container,) = one(objects, "DaemonSet", "cairn-agent")["spec"]["template"]["spec"]["containers"]
    assert "--collector=profiles.example:7171" in container["args"]
    assert "agent.collector" in refusal({"collector": {"enabled": False}})


@needs_helm
@pytest.mark.parametrize("values", [
    {"agents": {}}, {"agent": {"securityContext": {"privileged": True}}}, {"agent": {"privileged": True}},
    {"agent": {"extraArgs": ["frequency=49"]}}, {"agent": {"extraArgs": "--frequency=49"}}, {"agent": {"image": {"digest": "latest"}}},
    {"agent": {"maxUnavailable": "0%"}}, {"agent": {"maxUnavailable": 0}}, {"agent": {"collector": "https://collector"}},
    {"collector": {"replicas": 2}}, {"collector": {"retention": "a week"}}, {"collector": {"storage": {"size": "50"}}},
    {"collector": {"service": {"type": "ExternalName"}}}, {"gpuNodes": {"enabled": "yes"}}, {"tls": {"enabled": False}},
    {"mutualTls": {"volume": {}, "enable": True}}, {"networkPolicy": {"enabled": None}, "fullnameOverride": "-x"},
    {"gpuNodes": {"enabled": True, "label": ""}}, {"agent": {"podLabels": {"app.kubernetes.io/name": "mine"}}},
    {"agent": {"image": {"repository": "a\nprivileged: true"}}}, {"gpuNodes": {"runtimeClassName": "a: b"}},
    {"fullnameOverride": "a" * 41}, {"collector": {"storage": {"className": "fast disks"}}},
], ids=json.dumps)
def test_schema_refuses(values):
    assert "values don't meet the specifications of the schema" in refusal(values)


@needs_helm
def test_affinity_and_gpu_nodes_are_not_mixed():
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    assert "agent.nodeSelector can" in refusal({"agent": {"affinity": affinity}, "gpuNodes": {"enabled": True}})
