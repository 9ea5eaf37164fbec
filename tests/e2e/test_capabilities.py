# SPDX-License-Identifier: Apache-2.0
"""The agent without one of the capabilities that the manifests give it: what does not work is named, the rest works."""
import subprocess

import pytest

from fleet import free_port, program, unique, with_capabilities, workload
from test_doctor import NEEDED, SIX

CHEAP = ("--profiles", "cpu", "--kubernetes", "none", "--cache", "none")
LOST = {
    "syslog": "kernel functions have no names",
    "dac_read_search": "processes of other users have no names",
    "checkpoint_restore": "deleted and replaced files have no unwind tables",
}


def names_of(log):
    """What the agent's log says of capabilities."""
    return sorted(line.split("capabilities: ", 1)[1] for line in log.splitlines() if "capabilities: CAP_" in line)


def warning(name):
    return f"CAP_{name.upper()} is missing: {LOST[name]}; add it to the agent's capabilities"


@pytest.mark.parametrize("missing", NEEDED)
def test_agent_does_not_start_without(missing):
    has = [f"+{name}" for name in SIX if name != missing]
    done = subprocess.run([*with_capabilities(*has), program("cairn-agent"), "--collector", f"127.0.0.1:{free_port()}", *CHEAP],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"which it lacks: CAP_{missing.upper()};" in done.stderr
    assert names_of(done.stderr) == []


@pytest.mark.parametrize("missing", LOST)
def test_agent_names_what_it_lacks(collector, start_agent, missing):
    """And samples all the same."""
    has = [f"+{name}" for name in SIX if name != missing]
    agent = start_agent(collector, "--frequency", "499", *CHEAP, prefix=with_capabilities(*has))
    service = unique("capability")
    truth = workload("burn_c", "--cpu", "0.5", env={"OTEL_SERVICE_NAME": service}).truth()
    collector.api.wait_for_total(service, truth["process_cpu_ns"])
    assert names_of(agent.log()) == [warning(missing)]


def test_least_privilege_names_three(collector, start_agent):
    """What the overlay of that name gives, and nothing else."""
    agent = start_agent(collector, "--frequency", "499", *CHEAP, prefix=with_capabilities(*(f"+{name}" for name in NEEDED)))
    service = unique("least")
    truth = workload("burn_c", "--cpu", "0.5", env={"OTEL_SERVICE_NAME": service}).truth()
    collector.api.wait_for_total(service, truth["process_cpu_ns"])
    assert names_of(agent.log()) == sorted(warning(name) for name in LOST)
    burned = collector.api.top(service)[0]
    assert any(name.startswith("burn") for name in burned), burned
