# SPDX-License-Identifier: Apache-2.0
"""PyTorch on its CPU threads: the Python frames above its operators are exact, and every stack, of
its thread pool too, is complete. Runs where an interpreter has PyTorch; TRUTH_TORCH may name one."""
import os
import pathlib
import subprocess

import pytest

from interpreters import ask
from python_chains import judge
from recording import Program, Recording
from stacks import Verdict, is_kernel

PROGRAM = str(pathlib.Path(__file__).resolve().parent / "python/torch_chains.py")
EXACT_PERCENT = 99.5  # of the complete stacks
# What is new is cut: PyTorch makes code as it goes, and code without unwind information is
# analyzed once it was sampled.
COMPLETE_PERCENT = 99


def python_with_torch():
    for python in (os.environ.get("TRUTH_TORCH"), "python3", "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", "import torch"], capture_output=True,
                                     check=False).returncode == 0:
            return python
    return None


def judge_pool(stacks):
    """Threads that know no Python: from clone to the leaf."""
    verdict = Verdict("PyTorch's threads")
    for stack in stacks:
        frames = [frame for frame in stack.frames if not is_kernel(frame)]
        if not frames:
            continue  # at its end a thread has no user memory any more
        from_clone = "clone" in frames[0].name or "+0x" in frames[0].name
        verdict.add(stack, "full", None if from_clone else "root")
    return verdict


@pytest.mark.whole
def test_unwinds_pytorch(tmp_path):
    python = python_with_torch()
    if not python:
        pytest.skip("no interpreter has PyTorch; TRUTH_TORCH may name one")
    with Recording(tmp_path / "torch.pb.gz", frequency=499) as recording:
        program = Program("torch", [python, PROGRAM, "--seconds", "8", "--warm-up", "14"])
        lines = program.lines(timeout=200)
    verdicts = [judge("PyTorch's callers", recording.of(program.service, "truth"), lines,
                      ask(python)), judge_pool(recording.of(program.service, "pool"))]
    print("\n" + "\n".join(verdict.line() for verdict in verdicts))
    wrong = [verdict.report() for verdict in verdicts
             if verdict.percent(verdict.complete) < COMPLETE_PERCENT
             or 100 * verdict.exact < EXACT_PERCENT * verdict.complete]
    assert not wrong, "\n\n".join(wrong)
