# SPDX-License-Identifier: Apache-2.0
"""Python functions in the collector's answers: named, on their lines, with their shares."""
import os
import pathlib
import subprocess
import sys

import pytest

from fleet import unique

POINTS = 0.02  # share of the service's CPU time
WORKLOAD = pathlib.Path(__file__).resolve().parents[1] / "workloads" / "burn_python.py"


def shown(function, text):
    """What a frame of the function at the first line with this text below its def is called."""
    lines = WORKLOAD.read_text().splitlines()
    begin = lines.index(next(line for line in lines if line.startswith(f"def {function}(")))
    number = next(i for i in range(begin + 1, len(lines)) if text in lines[i]) + 1
    return f"{function} ({WORKLOAD.name}:{number})"


@pytest.fixture(scope="module")
def graph(fleet, runs):
    graph = fleet.api.merge(runs["python"].service)
    graph.check()
    return graph


@pytest.mark.parametrize("function", ["burn_parse", "burn_render"])
def test_python_shares_are_exact(graph, runs, function):
    truth = runs["python"].functions[function] / runs["python"].cpu_ns
    measured = graph.total_of(shown(function, "return spin")) / graph.total
    assert measured == pytest.approx(truth, abs=POINTS)


def test_python_leaf_has_its_line(graph):
    lines = graph.kind_total_below(shown("burn_parse", "return spin"), "python")
    loop = sum(graph.self_values[node] for node in range(1, len(graph.names))
               if graph.names[node] in (shown("spin", "for i in"), shown("spin", "total +="))
               and shown("burn_parse", "return spin") in graph.path(node))
    assert loop > 0.95 * lines > 0


def test_python_frames_lie_above_interpreter_main(graph):
    path = next(graph.path(node) for node in range(1, len(graph.names))
                if graph.names[node] == shown("burn_parse", "return spin"))
    module = next(i for i, name in enumerate(path) if name.startswith("<module> ("))
    assert "_start" in path[:module], path
    assert path[module + 1].startswith("main ("), path


def test_marks_python_frames(graph):
    kinds = {graph.kinds[node] for node in range(1, len(graph.names))
             if f"({WORKLOAD.name}:" in graph.names[node]}
    assert kinds == {"python"}


ALTERED = """
import ctypes, sys, time
if sys.argv[1] == "altered":
    ctypes.c_ssize_t.from_address(id(type((lambda: 0).__code__)) + 32).value = 7
def spinner():
    end = time.process_time() + 1.5
    while time.process_time() < end:
        pass
spinner()
"""


def test_an_altered_process_disables_no_others(collector, start_agent):
    """It overwrites the size of code objects, by which its build was judged."""
    start_agent(collector, "--frequency", "499")
    totals = {}
    for name in ("altered", "plain"):
        service = unique(name)
        subprocess.run([sys.executable, "-c", ALTERED, name], check=True,
                       env={**os.environ, "OTEL_SERVICE_NAME": service})
        collector.api.wait_for_total(service, 1.5e9)
        graph = collector.api.merge(service)
        totals[name] = graph.total_of_any_line("spinner") / graph.total
    assert totals["plain"] > 0.9, totals
