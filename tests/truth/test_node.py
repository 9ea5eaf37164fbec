# SPDX-License-Identifier: Apache-2.0
"""Node with perf maps: stacks go through V8's built-in functions, of which no unwind
information speaks, into JavaScript, whose functions have their names and follow each other."""
import pathlib
import shutil

import pytest

from recording import Program, Recording
from stacks import Verdict, is_kernel

PROGRAM = str(pathlib.Path(__file__).resolve().parent / "node/json.js")
# V8 pushes arguments in loops, some instructions long, in which the frame's location is unknown.
EXACT_PERCENT = 98.5
UNDER = {"v8::internal::Builtin_JsonParse": ("serveAll", "parseAll"),
         "v8::internal::Builtin_JsonStringify": ("serveAll", "writeAll")}


def javascript(stack):
    """The program's functions on the stack, outermost first."""
    names = [frame.name.split()[0] for frame in stack.frames if frame.name.startswith("JS:")]
    return tuple(name[3:].lstrip("~^+*") for name in names if name.endswith("All"))


def judge(stacks):
    verdict = Verdict("Node's main thread")
    for stack in stacks:
        frames = [frame.name for frame in stack.frames if not is_kernel(frame)]
        expected = next((UNDER[name] for name in frames if name in UNDER), None)
        wrong = None if frames and frames[0] == "_start" else "root"
        if expected == UNDER["v8::internal::Builtin_JsonParse"] and \
                javascript(stack) == ("serveAll", "writeAll"):
            pass  # its value is parsed first
        elif expected and javascript(stack) != expected:
            wrong = "JavaScript"
        verdict.add(stack, "full" if expected else "beginning", wrong)
    return verdict


@pytest.mark.whole
def test_unwinds_javascript_under_builtins(tmp_path):
    if not shutil.which("node"):
        pytest.skip("Node is not installed")
    with Recording(tmp_path / "node.pb.gz", frequency=499) as recording:
        program = Program("node", ["node", "--perf-basic-prof", "--interpreted-frames-native-stack",
                                   "--no-turbo-inlining", PROGRAM, "3", "2"],
                          folder=tmp_path)  # V8 writes a log beside
        program.lines()
    verdict = judge(recording.of(program.service, "truth"))
    print("\n" + verdict.line())
    assert verdict.samples, "no samples"
    assert verdict.percent(verdict.exact) >= EXACT_PERCENT, verdict.report()
