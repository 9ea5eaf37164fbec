# SPDX-License-Identifier: Apache-2.0
"""The stack cache reuses a stack only for the same Python frames and the same kernel stack."""
import pytest

from test_waits import share_below
from wall import Comparison, Program

SECONDS, SECONDS_WHOLE = 10, 15


@pytest.fixture(scope="module")
def before(fleet):
    return fleet.counters()


@pytest.fixture(scope="module")
def program(fleet, bounds, before):  # pylint: disable=unused-argument
    seconds = SECONDS_WHOLE if bounds.whole else SECONDS
    in_kernel = Program("echo_timer", seconds)
    started = Program("places.py", seconds).finish()
    assert in_kernel.finish().truth["waits"] > 100
    fleet.wait_for([started])
    return started


@pytest.mark.exact
def test_wait_sites_have_python_frames(fleet, program):
    """With sampled waits, shares are right on average only."""
    comparison = Comparison()
    middle = (program.from_ns + program.to_ns) // 2  # its first waits may precede its unwind tables
    graph = fleet.graph(program.service, "places", from_=middle, to=program.to_ns)
    ways = program.truth["ways"][0]
    whole = share_below(graph, "nap")
    for way, true in ways.items():
        share = true / sum(ways.values())
        comparison.check(way, share * whole, share_below(graph, way),
                         (0.02 + 0.25 * share) * whole)
    comparison.done()


def test_stack_cache_is_right(fleet, program, before):  # pylint: disable=unused-argument
    """For all threads of the machine. A different kernel path of the same call counts as wrong, too."""
    counted = {name: count - before[name] for name, count in fleet.counters().items()}
    hits, checked, stale = (counted[f"stack_cache_{name}"] for name in ("hits", "checked", "stale"))
    print(f"  stack cache: {hits} hits, {counted['off_cpu_unwound']} unwound; "
          f"{stale} of {checked} checked were stale")
    assert hits > 100
    # 1 to 5 of some 120 here.
    assert stale <= 4 + 0.04 * checked
