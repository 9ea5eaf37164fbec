# SPDX-License-Identifier: Apache-2.0
"""Processes in cgroups as the kubelet makes them, and what the collector has of them."""
import contextlib
import os
import pathlib
import subprocess
import sys

import pytest

from contract import TYPE
from fleet import wait_until

CPU_NS = 1_000_000_000
# It ends by its own CPU time, however busy the machine is. What it used before it entered the cgroup is some hundredths.
BURN = "import time\nwhile time.process_time() < 1: sum(range(1000))"
NEARLY = 0.1
IN_CGROUP = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


def cgroup_root():
    """A hierarchy of either version."""
    for root in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        if os.path.exists(f"{root}/cgroup.procs"):
            return pathlib.Path(root)
    return None


@pytest.fixture
def cgroups():
    """make(uid, container id): the folder of a container's cgroup, below kubepods; all are removed at the end."""
    root = cgroup_root()
    if not root:
        pytest.skip("no cgroup can be made here")
    made = []

    def make(uid, container):
        folder = root / "kubepods" / "burstable" / f"pod{uid}" / container
        try:
            for parent in [*reversed(folder.parents), folder]:
                if not parent.exists():
                    parent.mkdir()
                    made.append(parent)
        except OSError as error:
            pytest.skip(f"no cgroup can be made here: {error}")
        return folder

    yield make
    for folder in reversed(made):
        with contextlib.suppress(OSError):  # another test's pods are below it
            wait_until("the cgroup's end", 10, lambda: not (folder / "cgroup.procs").read_text().strip())
            folder.rmdir()


def start_in(folder):
    """A process that uses CPU_NS in this cgroup."""
    return subprocess.Popen(["sh", "-c", IN_CGROUP, str(folder), sys.executable, "-c", BURN])


def end(*processes):
    for process in processes:
        assert process.wait(120) == 0


def check_total(collector, selector, cpu_ns=CPU_NS):
    assert collector.api.wait_for_total(selector, cpu_ns) == pytest.approx(cpu_ns, rel=NEARLY)


def labels_of(api, selector):
    """All labels of the series: name to values."""
    names = api.get("labels", query=selector)["names"]
    return {name: api.get(f"labels/{name}/values", query=selector)["values"] for name in names}


def counted(api, counter):
    return api.total(f'{{service="cairn-agent",counter="{counter}"}}', type=TYPE.EVENTS)
