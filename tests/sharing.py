# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin: the processes of one run (tests/run-pytest) share its tests. What is next belongs to the
process that claims it first: one test, or all tests of a file that use a fixture of the whole file. Tests that use a
costly fixture of the session belong together. Marked `alone`, a test is left to a process that is alone."""
import os
import pathlib

import pytest

LEFT = "left"  # is there when a test was left


def pytest_addoption(parser):
    parser.addoption("--claims", type=pathlib.Path, help="the folder that processes claim tests in")
    parser.addoption("--together", default="", help="fixtures whose tests one process runs")
    parser.addoption("--left", action="store_true", help="run what others left, tests marked alone, too")


class Claims:
    """What this process may run."""

    def __init__(self, config):
        self.folder = config.getoption("claims")
        self.together = set(filter(None, config.getoption("together").split(",")))
        self.left = config.getoption("left")
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
        if item.get_closest_marker("alone"):
            (self.folder / LEFT).touch()
            return self.left
        name = self.name_of(item, number)
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
