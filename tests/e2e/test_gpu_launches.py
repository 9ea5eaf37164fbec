# SPDX-License-Identifier: Apache-2.0
"""How many kernels are launched: what was seen in windows stands for what was not. It takes minutes to have some windows, so
`make gpu-verdicts` runs it."""
import os

import pytest

from contract import TYPE
from fleet import unique, wait_until
from gpu_double import make_doubles, start_script

LAUNCH = TYPE.GPU_LAUNCH
pytestmark = pytest.mark.skipif("GPU_VERDICTS" not in os.environ, reason="# SKIP only `make gpu-verdicts` runs these")
RATE, SECONDS = 2000, 120
SETTLED, LEFT_OUT = 30, 15  # before, windows are for learning how hot launches are; after, some have not arrived


def test_the_number_of_launches_is_what_the_process_launched(fleet):
    make_doubles("libcuda.so.1")
    service = unique("gpu-launches")
    with start_script("launch_client.py", service, str(RATE), str(SECONDS)) as client:
        wait_until("launches", 60, lambda: fleet.api.total(service, type_=LAUNCH) > 0)
        lines = [line.split() for line in client.communicate()[0].splitlines()]
    told = [(float(when), int(count)) for when, count in lines][SETTLED:-LEFT_OUT]
    (begin, first), (end, last) = told[0], told[-1]
    seen = fleet.api.total(service, type_=LAUNCH, from_=begin, to=end)
    print(f"{seen} launches seen, {last - first} made, in {end - begin:.0f} s")
    # Of 75 s there are some 8 windows, each at a random moment of its period: the ends cut one.
    assert seen == pytest.approx(last - first, rel=0.25)
