# SPDX-License-Identifier: Apache-2.0
"""Python programs that note their frames as the interpreter itself knows them: each sampled stack
must be one of these chains with exact names and lines, native frames where C code calls back into
Python and nowhere else, and a native root."""
import pathlib

import pytest

import python_packages
from interpreters import interpreters, newest
from python_chains import judge
from recording import Program, Recording

PROGRAM = str(pathlib.Path(__file__).resolve().parent / "python/chains.py")
SCENARIOS = ("plain", "callbacks", "generators", "asyncio", "threads", "processes", "forks", "deep")
EXACT_PERCENT = 99.9
# Allowed for: the frame that was just entered and is not linked yet.
JUST_ENTERED_PERCENT = 0.1
# Threads that C makes are new all the time: in a last function that is being left there are no Python frames any more.
EXACT_PERCENT_OF = {"extension": 99.0}


def run(interpreter_list, scenarios, tmp_path, seconds=3, at_once=2, env=None):
    """Record the scenarios, some at a time; returns their verdicts. @env: of each interpreter."""
    jobs = [(interpreter, scenario) for interpreter in interpreter_list for scenario in scenarios]
    done = []
    with Recording(tmp_path / "python.pb.gz") as recording:
        for i in range(0, len(jobs), at_once):
            running = [(interpreter, Program(f"{interpreter.name}-{scenario}", [
                interpreter.path, PROGRAM, scenario, "--seconds", str(seconds)],
                (env or {}).get(interpreter.name)))
                for interpreter, scenario in jobs[i:i + at_once]]
            done += [(interpreter, program, program.lines()) for interpreter, program in running]
    return [(judge(program.name, recording.of(program.service, "truth"), lines, interpreter), lines)
            for interpreter, program, lines in done]


def expect_exact(results):
    print("\n" + "\n".join(verdict.line() for verdict, _ in results))
    wrong = []
    for verdict, lines in results:
        assert verdict.samples, f"{verdict.name}: no samples"
        scenario = verdict.name.rsplit("-", 1)[1]
        least = EXACT_PERCENT_OF.get(scenario, EXACT_PERCENT - JUST_ENTERED_PERCENT)
        if verdict.percent(verdict.exact) < least:
            wrong.append(f"{lines[0]}\n{verdict.report()}")
    assert not wrong, "\n\n".join(wrong)


def of_each_kind():
    """The oldest, the last before inlined calls, the system's, the newest."""
    found = interpreters()
    return [one for one in found if one.version[:2] in ((3, 6), (3, 10))] + \
        [one for one in found if one.path.startswith("/usr/")] + newest()


def test_python_stacks_match_interpreter(tmp_path):
    expect_exact(run(of_each_kind(), ("callbacks",), tmp_path, seconds=2))


def test_threads_without_gil_keep_python_frames(tmp_path):
    expect_exact(run(newest(), ("threads", "asyncio"), tmp_path, seconds=2))


def run_with(make, interpreter_list, scenario, tmp_path, seconds):
    """The scenario by those interpreters that can have what it imports."""
    folders = {one.name: make(one) for one in interpreter_list}
    able = [one for one in interpreter_list if folders[one.name]]
    if not able:
        pytest.skip("no interpreter here can have it")
    env = {one.name: {"PYTHONPATH": str(folders[one.name]), "OPENBLAS_NUM_THREADS": "1"}
           for one in able}
    expect_exact(run(able, (scenario,), tmp_path, seconds, env=env))


def test_unwinds_c_callbacks(tmp_path):
    """At once, by way of the GIL, and from threads of their own."""
    run_with(python_packages.extension, newest(), "extension", tmp_path, seconds=2)


@pytest.mark.whole
def test_unwinds_c_callbacks_on_every_interpreter(tmp_path):
    run_with(python_packages.extension, interpreters(), "extension", tmp_path, seconds=3)


@pytest.mark.whole
def test_unwinds_greenlets(tmp_path):
    """Their Python frames are theirs alone; of the C stack only the part above where they began is."""
    run_with(lambda one: python_packages.package(one, "greenlet"), interpreters(), "greenlets", tmp_path,
             seconds=3)


@pytest.mark.whole
def test_unwinds_coroutines_under_cython_loop(tmp_path):
    run_with(lambda one: python_packages.package(one, "uvloop"), interpreters(), "uvloop", tmp_path,
             seconds=3)


@pytest.mark.whole
def test_unwinds_numpy_without_gil(tmp_path):
    run_with(lambda one: python_packages.package(one, "numpy"), interpreters(), "numpy", tmp_path,
             seconds=4)


@pytest.mark.whole
@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("interpreter", interpreters(), ids=lambda one: one.name)
def test_unwinds_every_interpreter(tmp_path, interpreter, scenario):
    expect_exact(run([interpreter], (scenario,), tmp_path))
