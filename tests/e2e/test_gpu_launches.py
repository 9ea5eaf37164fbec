# SPDX-License-Identifier: Apache-2.0
"""Launch counts by weighted on phases against the client's own. It takes minutes to have some on phases, so only
`make gpu-verdicts` runs it."""
import os

import pytest

from contract import TYPE
from fleet import unique, wait_until
from gpu_double import make_doubles, start_script

LAUNCH = TYPE.GPU_LAUNCH
pytestmark = pytest.mark.skipif("GPU_VERDICTS" not in os.environ, reason="# SKIP only `make gpu-verdicts` runs these")
RATE, SECONDS = 2000, 120
SETTLED, LEFT_OUT = 30, 15  # seconds at the begin, in which the rate is measured; at the end, which may not have arrived


def test_weighted_launches_match_the_true_count(fleet):
    make_doubles("libcuda.so.1")
    service = unique("gpu-launches")
    with start_script("launch_client.py", service, str(RATE), str(SECONDS)) as client:
        wait_until("launches", 60, lambda: fleet.api.total(service, type_=LAUNCH) > 0)
        lines = [line.split() for line in client.communicate()[0].splitlines()]
    truth = [(float(when), int(count)) for when, count in lines][SETTLED:-LEFT_OUT]
    (begin, first), (end, last) = truth[0], truth[-1]
    seen = fleet.api.total(service, type_=LAUNCH, from_=begin, to=end)
    print(f"{seen} launches seen, {last - first} made, in {end - begin:.0f} s")
    # 75 s have some 8 on phases, at random moments of their periods: the ends cut one.
    assert seen == pytest.approx(last - first, rel=0.25)
