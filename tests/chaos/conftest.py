# SPDX-License-Identifier: Apache-2.0
"""Real processes under faults and hostile peers. `make chaos` runs all; CHAOS_SECONDS says how long each fault lasts
(default 3), so that hours are an option. After each: nothing acknowledged is lost, nothing is counted twice,
memory is within its limit, it recovers by itself, others go on, and the log says what happened."""
import os
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

from chaos import Faults, Victim  # noqa: E402 pylint: disable=wrong-import-position

SECONDS = float(os.environ.get("CHAOS_SECONDS", "3"))


def pytest_configure(config):
    config.addinivalue_line("markers", "alone: needs the machine for itself")


def pytest_collection_modifyitems(items):
    if os.geteuid() == 0:
        return
    print("# SKIP chaos: mounts, network namespaces and cgroups need root")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="mounts, network namespaces and cgroups need root"))


@pytest.fixture
def seconds():
    """How long a fault lasts."""
    return SECONDS


@pytest.fixture
def keep():
    """keep(thing): close, end or stop it when the test ends; the last first."""
    kept = []

    def add(thing):
        kept.append(thing)
        return thing

    yield add
    errors = []
    for thing in reversed(kept):
        end = getattr(thing, "close", None) or getattr(thing, "end", None) or thing.stop
        try:
            end()
        except (OSError, AssertionError) as error:
            errors.append(error)
    if errors:
        raise errors[0]


@pytest.fixture
def faults(tmp_path):
    return Faults(tmp_path, tmp_path / "data")


@pytest.fixture
def victim(tmp_path, faults, keep):
    """A collector whose calls can be made to fail."""
    running = keep(Victim(tmp_path, env=faults.env))
    running.start()
    return running
