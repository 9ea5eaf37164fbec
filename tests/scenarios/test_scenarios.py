# SPDX-License-Identifier: Apache-2.0
"""`cairn spikes` against injected faults: it must name the cause first in nine of ten, and nothing in quiet services. Moments and
parameters are random: SCENARIO_SEED repeats a run, SCENARIOS="reload disk" runs a part, SCENARIO_QUIET_S lets the fleet be quiet for so long
before the faults. SCENARIO_KEEP=FOLDER keeps the store and what was injected; SCENARIO_REPLAY=FOLDER judges that again, without a
fleet. Run it alone: it measures what the kernel schedules (`make scenarios`)."""
import dataclasses
import json
import os
import pathlib
import random
import shutil
import subprocess
import time

import pytest

from fleet_of_faults import SCENARIOS, Fault, Scenario

from fleet import Agent, Collector, program, wait_until  # isort: skip
from gpu_double import make_doubles  # isort: skip

QUIET_S = float(os.environ.get("SCENARIO_QUIET_S", "240"))
BETWEEN_S = (6, 12)
ARRIVES_S = 120  # on a machine that is busy with something else
WRONG_MAX = 1  # of ten
KEEP, REPLAY = os.environ.get("SCENARIO_KEEP"), os.environ.get("SCENARIO_REPLAY")
NOT_KEPT = shutil.ignore_patterns("BALLAST", "*.sock")  # the disk's reserve


@dataclasses.dataclass
class Moments:
    """Of a run: quiet, then faults one after the other."""
    seed: int
    from_s: float
    faults_s: float
    to_s: float
    load: list  # averages of the machine, at the end
    faults: list
    quiet: list  # services without a fault

    def write(self, path):
        path.write_text(json.dumps(dataclasses.asdict(self), indent=1))

    @staticmethod
    def read(path):
        moments = Moments(**json.loads(path.read_text()))
        moments.faults = [Fault(**fault) for fault in moments.faults]
        return moments


class Run:
    """All faults, one after the other."""

    def __init__(self, folder, chosen):
        self.seed = int(os.environ.get("SCENARIO_SEED", random.randrange(1 << 31)))
        self.folder = folder
        self.chosen = chosen
        self.scenarios = []
        self.quiet = []

    def run(self, collector):
        """Returns the moments."""
        draw = random.Random(self.seed)
        make_doubles("libcuda.so.1")
        agent = Agent(collector.grpc, self.folder / "agent")
        try:
            from_s = time.time()
            faults_s = self.run_faults(draw)
            to_s = time.time()
            wait_until("the last batches", ARRIVES_S, lambda: collector.api.get("status")["newest_ns"] / 1e9 > to_s + 2)
        finally:
            for scenario in (*self.scenarios, *self.quiet):
                scenario.stop()
            agent.stop()
        return Moments(self.seed, from_s, faults_s, to_s, os.getloadavg(), [scenario.fault_of() for scenario in self.scenarios],
                       [scenario.service for scenario in self.quiet])

    def run_faults(self, draw):
        """Returns when they began."""
        self.scenarios = [SCENARIOS[name]() for name in self.chosen or SCENARIOS]
        self.quiet = [Scenario("steady", 2, (0, 0), "")]
        time.sleep(QUIET_S)
        faults_s = time.time()
        for scenario in draw.sample(self.scenarios, len(self.scenarios)):
            time.sleep(draw.uniform(*BETWEEN_S))
            scenario.inject(draw)
        return faults_s


class Found:
    """The spikes of a run."""

    def __init__(self, collector, moments):
        self.collector, self.moments = collector, moments
        self.of_fault = [self.spikes(fault.service, moments.to_s) for fault in moments.faults]
        self.of_quiet = [self.spikes(service, moments.to_s) for service in moments.quiet]
        services = [*(fault.service for fault in moments.faults), *moments.quiet]
        self.before = [spike for service in services for spike in self.spikes(service, moments.faults_s)]

    def spikes(self, service, to_s):
        done = subprocess.run([program("cairn"), "spikes", f'{{service="{service}"}}', "--json", "--collector-http",
                               self.collector.api.base, "--from", f"{self.moments.from_s:.0f}", "--to", f"{to_s:.0f}"],
                              capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["spikes"]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scenarios")
    data = folder / "data"
    if REPLAY:
        shutil.copytree(pathlib.Path(REPLAY) / "data", data)
    with Collector(data, folder / "collector.log") as collector:
        if REPLAY:
            moments = Moments.read(pathlib.Path(REPLAY) / "moments.json")
        else:
            moments = Run(folder, os.environ.get("SCENARIOS", "").split()).run(collector)
        found = Found(collector, moments)
    if KEEP:
        shutil.copytree(data, pathlib.Path(KEEP) / "data", ignore=NOT_KEPT)
        moments.write(pathlib.Path(KEEP) / "moments.json")
    return found


def lines(spikes):
    return "".join(f"\n      {spike['title']}: {spike['sentence']}" for spike in spikes)


def test_names_the_injected_cause_first(found, capsys):
    wrong = []
    with capsys.disabled():
        print(f"\nSCENARIO_SEED={found.moments.seed}, {found.moments.faults_s - found.moments.from_s:.0f} s quiet, load average "
              f"{found.moments.load[0]:.1f}")
        for fault, spikes in zip(found.moments.faults, found.of_fault):
            right = bool(spikes) and fault.is_named_by(spikes[0])
            later = next((i + 1 for i, spike in enumerate(spikes) if fault.is_named_by(spike)), None)
            print(f"  {'right' if right else 'WRONG'}  {fault.name}, {fault.about}: "
                  f"{'first' if right else f'number {later}' if later else 'not found'} of {len(spikes)}{lines(spikes[:1 if right else 4])}")
            if not right:
                wrong.append(fault.name)
    assert len(wrong) <= WRONG_MAX * len(found.moments.faults) / 10, wrong


def test_names_the_pod(found):
    """Of what is right: one of several pods had the fault."""
    for fault, spikes in zip(found.moments.faults, found.of_fault):
        if not (spikes and fault.of_one and fault.is_named_by(spikes[0])):
            continue
        labels = {label["name"]: label for label in spikes[0]["cause"]["labels"]}
        assert labels["instance"]["count"] == 1, (fault.name, spikes[0]["sentence"])


def test_quiet_services_have_none(found):
    """While others have faults: but for the run queue, which a neighbour fills for all."""
    assert [s for spikes in found.of_quiet for s in spikes if not s["type"].startswith("sched_delay")] == []


def test_nothing_is_found_before_the_faults(found):
    assert found.before == [], lines(found.before)
