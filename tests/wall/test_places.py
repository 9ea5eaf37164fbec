# SPDX-License-Identifier: Apache-2.0
"""A remembered stack is taken for another wait only if that has the same Python frames, too."""
import pytest

from test_waits import share_below
from wall import Comparison, Program

SECONDS, SECONDS_WHOLE = 10, 15


@pytest.fixture(scope="module")
def before(fleet):
    return fleet.counters()


@pytest.fixture(scope="module")
def program(fleet, bounds, before):  # pylint: disable=unused-argument
    started = Program("places.py", SECONDS_WHOLE if bounds.whole else SECONDS).finish()
    fleet.wait_for([started])
    return started


def test_waits_are_told_by_python_frames(fleet, bounds, program):
    """Where not all waits are chosen, shares are right on average only."""
    comparison = Comparison()
    middle = (program.from_ns + program.to_ns) // 2  # its first waits may come before its tables
    graph = fleet.graph(program.service, "places", from_=middle, to=program.to_ns)
    ways = program.books["ways"][0]
    whole = share_below(graph, "nap")
    for way, true in ways.items():
        share = true / sum(ways.values())
        comparison.check(way, share * whole, share_below(graph, way),
                         (0.02 + 0.25 * share) * whole * (1 if bounds.whole else 2.5))
    comparison.done()


def test_memos_are_right(fleet, program, before):  # pylint: disable=unused-argument
    """Of all threads of the machine. Other ways in the kernel for one call are wrong, too."""
    counted = {name: count - before[name] for name, count in fleet.counters().items()}
    hits, checked, wrong = (counted[f"memo_{name}"] for name in ("hits", "checked", "wrong"))
    print(f"  memo: {hits} hits, {counted['waits_unwound']} unwound; "
          f"{wrong} of {checked} checked were wrong")
    assert hits > 100
    assert wrong <= 2 + 0.02 * checked
