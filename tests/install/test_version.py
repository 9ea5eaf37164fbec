# SPDX-License-Identifier: Apache-2.0
"""There is one version."""
import re

import pytest
import yaml
from installation import BUILD, PROGRAMS, ROOT, run


def version():
    return re.search(r'^#define CAIRN_VERSION "(.*)"$', (ROOT / "base/version.h").read_text(), re.M)[1]


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_print_the_version(program):
    assert run(BUILD / program, "--version") == f"{program} {version()}\n"


def test_changelog_begins_with_the_version():
    entries = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert re.fullmatch(re.escape(version()) + r" \(\d{4}-\d{2}-\d{2}\)", entries[0])


def test_manifests_name_the_version():
    tags, charts = set(), list((ROOT / "deploy").rglob("Chart.yaml"))
    for path in (ROOT / "deploy").rglob("*.yaml"):
        tags.update(re.findall(r"(?:newTag: |image: (?:\S*/)?cairn-(?:agent|collector):)([\w.+-]+)", path.read_text()))
    for chart in charts:
        described = yaml.safe_load(chart.read_text())
        tags.update(str(described[name]) for name in ("version", "appVersion"))
    assert tags == {version()}
