# SPDX-License-Identifier: Apache-2.0
"""The services: systemd takes the units, they have no more rights than stated, their settings exist."""
import re
import subprocess

import pytest
import yaml
from installation import flags_of, run

SERVICES = {"cairn-agent": "agent.yaml", "cairn-collector": "collector.yaml"}
SIX = {"CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_SYSLOG", "CAP_CHECKPOINT_RESTORE", "CAP_DAC_READ_SEARCH"}
# systemd's word for how much a service could do: 10 is all. A unit without sandbox has 9.6.
EXPOSURE_MAX = {"cairn-agent": 3.1, "cairn-collector": 1.5}


def unit(installed, service):
    text = (installed / "usr/lib/systemd/system" / f"{service}.service").read_text()
    return dict(re.findall(r"^(\w+)=(.*)$", text, re.M))


@pytest.mark.parametrize("service", SERVICES)
def test_systemd_takes_the_units(installed, service):
    path = installed / "usr/lib/systemd/system" / f"{service}.service"
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("service", SERVICES)
def test_units_are_confined(installed, service):
    path = installed / "usr/lib/systemd/system" / f"{service}.service"
    judged = run("systemd-analyze", "security", "--offline=true", "--no-pager", path)
    exposure = float(re.search(r"exposure level for \S+: ([\d.]+)", judged)[1])
    assert exposure <= EXPOSURE_MAX[service], judged


def test_agent_has_exactly_six_capabilities(installed):
    agent = unit(installed, "cairn-agent")
    assert set(agent["CapabilityBoundingSet"].split()) == SIX
    assert agent["NoNewPrivileges"] == "yes"


def test_agents_spool_outlives_it(installed):
    agent = unit(installed, "cairn-agent")
    assert agent["Environment"] == f"CAIRN_SPOOL_DIR=%S/{agent['StateDirectory']}"
    assert agent["StateDirectoryMode"] == "0700"
    assert "--spool-dir" in flags_of("cairn-agent")


def test_collector_has_no_privileges(installed):
    collector = unit(installed, "cairn-collector")
    assert collector["CapabilityBoundingSet"] == ""
    users = (installed / "usr/lib/sysusers.d/cairn-collector.conf").read_text()
    assert f"u {collector['User']} " in users


@pytest.mark.parametrize("service", SERVICES)
def test_programs_know_the_settings_that_files_suggest(installed, service):
    started = unit(installed, service)["ExecStart"].split()
    assert started == [f"{installed}/usr/bin/{service}", "--config", f"{installed}/etc/cairn/{SERVICES[service]}"]
    text = (installed / "etc/cairn" / SERVICES[service]).read_text()
    assert yaml.safe_load(text) is None, "a setting is active"
    suggested = yaml.safe_load(re.sub(r"^#(?! )", "", text, flags=re.M))
    assert len(suggested) > 3
    assert {f"--{name}" for name in suggested} <= flags_of(service)
