# SPDX-License-Identifier: Apache-2.0
"""Alerts and dashboards ask for metrics that the programs have."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
MONITORING = ROOT / "deploy/kubernetes/monitoring"
METRIC = re.compile(r"\b(cairn_[a-z_]+|process_[a-z_]+)\b")
SUFFIXES = ("_sum", "_count")  # of a summary


def known_metrics():
    """Those of docs/counters.md, which is generated, and those that agent/metrics.c writes beside its counters."""
    ours, collectors = (ROOT / "docs/counters.md").read_text().split("## Of the collector")
    names = {f"cairn_agent_{token}_total" for token in re.findall(r"^\| `([a-z_]+)` \|", ours, re.M)}
    names |= set(re.findall(r"^\| `([a-z_]+)` \| (?:counter|gauge|summary)", collectors, re.M))
    names |= set(re.findall(r'"(cairn_agent_[a-z_]+|process_[a-z_]+)"', (ROOT / "agent/metrics.c").read_text()))
    return names


def rules():
    document = yaml.safe_load((MONITORING / "rules.yaml").read_text())
    return [rule for group in document["spec"]["groups"] for rule in group["rules"]]


DASHBOARDS = sorted((ROOT / "deploy/grafana").glob("*.json"))


def panels(dashboard):
    return [panel for panel in json.loads(dashboard.read_text())["panels"] if panel["type"] != "row"]


def targets(kind):
    """(panel, target) of all panels that ask a data source of this kind."""
    return [(panel, target) for dashboard in DASHBOARDS for panel in panels(dashboard) for target in panel["targets"]
            if panel["datasource"]["type"] == kind]


def expressions():
    yield from ((rule["alert"], rule["expr"]) for rule in rules())
    yield from ((panel["title"], target["expr"]) for panel, target in targets("prometheus"))


def profile_types():
    """{profile type: whether it has stacks, labels of its own} of docs/profile-types.md, which is generated."""
    rows = re.findall(r"^\|.*\| `(\w+:\w+:\w+:\w+:\w+)` \|.*\| (yes|no) \|(.*)\|$", (ROOT / "docs/profile-types.md").read_text(), re.M)
    return {name: (stacks == "yes", re.findall(r"`(\w+)`", labels)) for name, stacks, labels in rows}


def test_metrics_exist():
    known = known_metrics()
    assert len(known) > 150
    for what, expression in expressions():
        used = METRIC.findall(re.sub(r'"[^"]*"', '""', expression)) or re.findall(r"^up\{", expression)
        assert used, what
        for name in used:
            base = next((name[:-len(suffix)] for suffix in SUFFIXES if name.endswith(suffix)), name)
            assert name in known or base in known or name == "up{", f"{what}: no metric {name}"


def test_alerts_say_what_to_do():
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) >= 12
    for rule in rules():
        assert rule["labels"]["severity"] in ("info", "warning", "critical"), rule["alert"]
        assert len(rule["annotations"]["description"]) > 40 and rule["annotations"]["summary"], rule["alert"]


def test_profile_types_exist():
    known = profile_types()
    asked = targets("grafana-pyroscope-datasource")
    assert len(known) > 20 and len(asked) > 10
    for panel, target in asked:
        has_stacks, labels = known[target["profileTypeId"]]
        assert target["queryType"] == ("profile" if panel["type"] == "flamegraph" else "metrics"), panel["title"]
        assert has_stacks or panel["type"] != "flamegraph", panel["title"]
        assert set(target["groupBy"]) <= {*labels, "node", "thread"}, panel["title"]
        unit = panel["fieldConfig"]["defaults"]["unit"]
        assert {"ns": "nanoseconds", "bytes": "bytes", "short": "count"}[unit] == target["profileTypeId"].split(":")[2], panel["title"]


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_have_units_and_words(dashboard):
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in panels(dashboard)]
    assert len(places) == len(set(places))
    for panel in panels(dashboard):
        assert panel["fieldConfig"]["defaults"]["unit"] and panel["description"], panel["title"]


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_variables_are_declared(dashboard):
    text = dashboard.read_text()
    declared = [variable["name"] for variable in json.loads(text)["templating"]["list"]]
    assert set(re.findall(r"\$\{?(\w+)", text)) == set(declared)


def test_monitors_scrape_ports_that_exist():
    base = ROOT / "deploy/kubernetes/base"
    pods = {}
    for name in ("agent.yaml", "collector.yaml"):
        for document in yaml.safe_load_all((base / name).read_text()):
            if document["kind"] in ("DaemonSet", "StatefulSet"):
                pods[document["metadata"]["name"]] = document["spec"]["template"]["spec"]["containers"][0]["ports"]
    for monitor in yaml.safe_load_all((MONITORING / "pod-monitors.yaml").read_text()):
        ports = [port["name"] for port in pods[monitor["metadata"]["name"]]]
        assert all(endpoint["port"] in ports for endpoint in monitor["spec"]["podMetricsEndpoints"])


@pytest.mark.skipif(not shutil.which("promtool"), reason="no promtool: the rules are not parsed")
def test_promtool_accepts_the_rules(tmp_path):
    document = yaml.safe_load((MONITORING / "rules.yaml").read_text())
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(document["spec"]))
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
