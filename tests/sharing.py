# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: the processes of one run (tests/run-pytest) share its tests. What is next belongs to the
process that claims it first: one test, or all tests of a file that use a fixture of the whole file. Tests that use a
costly fixture of the session belong together. Marked tests come after the others: those that compare CPU time with
what was sampled of it beside one other, those marked `alone` by themselves."""
import os
import pathlib

import pytest

# Marks and how many processes may run their tests at a time, in their order. A file of the mark's name in the folder of
# claims: there are tests of it.
MARKS = {"samples_cpu": 2, "alone": 1}


def pytest_addoption(parser):
    parser.addoption("--claims", type=pathlib.Path, help="the folder that processes claim tests in")
    parser.addoption("--together", default="", help="fixtures whose tests one process runs")
    parser.addoption("--mark", choices=MARKS, help="run the tests with this mark; without it those with none")


class Claims:
    """What this process may run."""

    def __init__(self, config):
        self.folder = config.getoption("claims")
        self.together = set(filter(None, config.getoption("together").split(",")))
        self.mark = config.getoption("mark")
        self.mine = set()

    def name_of(self, item, number):
        """What it is claimed as."""
        if self.together.intersection(item.fixturenames):
            return "together"
        # pylint: disable=protected-access
        fixtures = (found[-1] for found in item._fixtureinfo.name2fixturedefs.values() if found)
        return item.path.name if any(fixture.scope == "module" for fixture in fixtures) else str(number)

    def take(self, item, number):
        """Is it ours to run?"""
        mark = next((mark for mark in MARKS if item.get_closest_marker(mark)), None)
        if mark != self.mark:
            if mark:
                (self.folder / mark).touch()
            return False
        name = f"{mark}-{self.name_of(item, number)}"
        if name in self.mine:
            return True
        try:
            os.close(os.open(self.folder / name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        self.mine.add(name)
        return True


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """As pytest's own, over what can be claimed. Fixtures end when the next test has been chosen."""
    if not session.config.getoption("claims") or session.config.option.collectonly or session.testsfailed:
        return None
    claims = Claims(session.config)
    items = (item for number, item in enumerate(session.items) if claims.take(item, number))
    item = next(items, None)
    while item:
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        item = following
    return True
