# SPDX-License-Identifier: Apache-2.0
"""Rust programs that know their own stack, as test_native's: generic functions, trait objects, closures,
futures, panics; with names as people write them, whichever way they are mangled."""
import os
import re
import shutil
import subprocess

import pytest

from programs import SOURCE
from recording import Program, Recording, build_folder
from stacks import Chains, Verdict, is_kernel
from test_native import EXACT_PERCENT, expect_exact

MANGLED = re.compile(r"^_(R|ZN)|::h[0-9a-f]{16}$|17h[0-9a-f]{16}E")
MANGLINGS = ("legacy", "v0")
LEVELS = ("0", "1", "2", "3", "s")
FEW = [("0", "legacy", ()), ("3", "v0", ())]
MORE = [(level, mangling, ()) for level in LEVELS for mangling in MANGLINGS] + \
    [("3", "v0", flags) for flags in (("-C", "lto=fat"), ("-C", "target-feature=+crt-static"),
                                      ("-g",), ("-C", "force-frame-pointers=yes"))]


def missing():
    """Why no Rust program can be built here; None: it can."""
    if not shutil.which("rustc"):
        return "rustc is not installed"
    done = subprocess.run(["rustc", "--version"], capture_output=True, check=False)
    return None if done.returncode == 0 else "rustc does not work"


def name_of(level, mangling, flags):
    return "-".join(["rust", f"O{level}", mangling,
                     *[flag.strip("-").replace("=", "-") for flag in flags if flag != "-C"]])


def make(level, mangling, flags):
    """Build it; the path. Which mangling is the default depends on the version, and the other one is
    not for everybody."""
    program = build_folder() / "truth" / name_of(level, mangling, flags) / "chains"
    program.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["rustc", "--edition", "2021", "-Z", "unstable-options", "-C", f"opt-level={level}",
         "-C", f"symbol-mangling-version={mangling}", *flags, "-o", program, SOURCE / "chains.rs"],
        capture_output=True, text=True, check=False, env={**os.environ, "RUSTC_BOOTSTRAP": "1"})
    assert done.returncode == 0, done.stderr
    return program


def judge(name, stacks, lines):
    chains = Chains([line[6:] for line in lines if line.startswith("chain ")])
    verdict = Verdict(name)
    for stack in stacks:
        root, own = chains.split_root(stack)
        frames = [frame for frame in stack.frames if not is_kernel(frame)]
        wrong = None
        if own and root[0].name != "_start":
            wrong = "root"
        if any(MANGLED.search(frame.name) for frame in frames):
            wrong = "mangled"
        verdict.add(stack, chains.fit(stack), wrong)
    return verdict


def run(kinds, tmp_path, seconds=2.5):
    made = [(name_of(*kind), make(*kind)) for kind in kinds]
    done = []
    with Recording(tmp_path / "rust.pb.gz") as recording:
        for at in range(0, len(made), 2):
            running = [Program(name, [str(path), "--seconds", str(seconds), "--warm-up", "1.2"])
                       for name, path in made[at:at + 2]]
            done += [(program, program.lines()) for program in running]
    return recording, [(program, lines, judge(program.name, recording.of(program.service, "truth"),
                                              lines)) for program, lines in done]


def names_of(recording, program):
    return {frame.name for stack in recording.of(program.service, "truth") for frame in stack.frames}


def test_every_stack_is_a_known_chain(tmp_path):
    reason = missing()
    if reason:
        print(f"# SKIP rust: {reason}")
        pytest.skip(reason)
    recording, results = run(FEW, tmp_path)
    expect_exact(results)
    # Names that are equal in legacy mangling differ in v0.
    assert "chains::generic" in names_of(recording, results[0][0])
    assert {"chains::generic::<u64>", "chains::generic::<alloc::string::String>",
            "<chains::kitchen::Pot<f64>>::simmer"} <= names_of(recording, results[1][0])


@pytest.mark.whole
def test_every_build_gives_known_chains(tmp_path):
    reason = missing()
    if reason:
        print(f"# SKIP rust: {reason}")
        pytest.skip(reason)
    expect_exact(run(MORE, tmp_path)[1])
