# SPDX-License-Identifier: Apache-2.0
"""The governor: a storm of context switches makes the agent measure less, it says so everywhere, and
takes it back afterwards. Its times are a thirtieth of the usual ones."""
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from contract import TYPE
from fleet import Agent, in_manifest, program, wait_until

OVERHEAD = TYPE.OVERHEAD
SHEDDING_CHANGES = TYPE.SHEDDING_CHANGES
SHEDDING = TYPE.SHEDDING
AGENT = '{service="cairn-agent"}'
BUDGET = 5  # % of a core: less than a storm costs, and more than this small agent


class GovernedAgent(Agent):
    """An agent that looks at one process and its children, and not at memory, of which every page fault
    of the machine would cost something: it has little work of its own where others are busy."""

    def __init__(self, collector, folder, pid, budget, prefix):
        self.prefix = prefix
        super().__init__(collector.grpc, folder,
                         ["--pid", str(pid), "--profiles", "cpu,wall", "--overhead-budget", str(budget),
                          "--overhead-interval", "300ms"])

    def start(self):
        self.argv = [*self.prefix, *self.argv]
        super().start()

    def governor_said(self):
        return re.findall(r"governor: (.*)", self.log())

    def answers_to_switches(self):
        """Its log of exceeding the overhead budget because of the context-switch program."""
        figures = (re.search(r"([\d.]+) % of a core in [\d.]+ s \(off-CPU ([\d.]+), .*overhead budget", line)
                   for line in self.governor_said())
        return [figure[0] for figure in figures
                if figure and float(figure[1]) > 5 and float(figure[2]) > 1]

    def cost_percent(self):
        """The overhead in cores from SIGUSR1's report, which comes within seconds even under load."""
        before = self.log().count("shedding steps active")
        self.process.send_signal(signal.SIGUSR1)
        wait_until("the agent's report", 15,
                   lambda: self.log().count("shedding steps active") > before)
        return float(re.findall(r"overhead ([\d.]+) % of a core", self.log())[-1])

    def has_stepped_back(self):
        return any("restoring" in line or "retrying" in line or "has exited" in line
                   for line in self.governor_said())


def wait_for_a_step_back(agent):
    """All the way back takes minutes on a loaded machine: the first step has to come, once the agent
    has cost less than half its budget for a while. On some machines others leave it no such while."""
    calm = 0
    for _ in range(40):
        if agent.has_stepped_back():
            return
        calm = calm + 1 if agent.cost_percent() < 0.45 * BUDGET else 0
        assert calm < 10, f"no step back in {calm} s of calm:\n{agent.log()}"
        time.sleep(1)


@pytest.fixture
def storm():
    process = subprocess.Popen([program("workloads/switch_storm")], stdin=subprocess.DEVNULL)
    yield process
    process.kill()
    process.wait()


# As in a container: without CAP_SYS_ADMIN the kernel hides the run time of BPF programs.
CONTAINED = in_manifest()


@pytest.mark.alone
@pytest.mark.parametrize("prefix", [pytest.param([], id="root"),
                                    pytest.param(CONTAINED, id="capabilities")])
def test_sheds_load_in_storm_and_recovers(collector, tmp_path, storm, prefix):
    if prefix and not shutil.which(prefix[0]):
        pytest.skip("setpriv is not installed")
    agent = GovernedAgent(collector, tmp_path / "agent", storm.pid, BUDGET, prefix)
    try:
        wait_until("its budget in the log", 20,
                   lambda: f"overhead budget {BUDGET:.2f} % of a core" in agent.log())
        collector.wait_for_agent()
        time.sleep(2)  # it is not held responsible for what starting costs
        storm.send_signal(signal.SIGUSR1)
        assert agent.cost_percent() >= 0  # the loop answers
        # 20 s of the agent's usual times are less than one; a loaded machine may storm late.
        wait_until("an answer to the storm", 40, agent.answers_to_switches)
        wait_until("a step down", 60, lambda: any(
            "shedding load" in line for line in agent.governor_said()))
        wait_until("a cost within its budget, or that it cannot be had", 60, lambda:
                   agent.cost_percent() <= BUDGET or any("overhead budget exceeded" in line
                                                         for line in agent.governor_said()))
        # What is active when an interval ends is exported for all of it.
        wait_until("how long it was active", 30, lambda: collector.api.total(AGENT, type=SHEDDING) > 0)
        storm.send_signal(signal.SIGUSR2)

        # Others, such as that nothing is left to shed, may come first.
        wait_until("the change as a series", 30, lambda: any("off_cpu" in knob for knob in collector.api.get(
            "labels/knob/values", query=AGENT)["values"]))
        assert collector.api.total(AGENT, type=SHEDDING_CHANGES) >= 1
        programs = collector.api.get("labels/program/values", query=AGENT)["values"]
        assert {"agent", "sample_on_cpu", "switch_threads"} <= set(programs), programs
        assert collector.api.total('{service="cairn-agent",program="switch_threads"}', type=OVERHEAD) > 0

        wait_for_a_step_back(agent)
        assert agent.cost_percent() > 0
    finally:
        agent.stop()


def test_no_budget_disables_governor(collector, start_agent):
    agent = start_agent(collector)
    wait_until("that it has none", 20, lambda: "no overhead budget" in agent.log())
    os.kill(agent.process.pid, signal.SIGUSR1)
    wait_until("the report", 30, lambda: "samples," in agent.log())
    assert "governor" not in agent.log()
