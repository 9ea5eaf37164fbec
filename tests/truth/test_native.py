# SPDX-License-Identifier: Apache-2.0
"""Native programs that write down the chain of calls they are about to walk: every sampled stack
must be one of these chains, frame by frame, from the thread's first function to the leaf."""
import pytest

from programs import Build, every_build, few_builds
from recording import Program, Recording
from stacks import Chains, Verdict, without_foreign

HANDLER = ("on_timer", "burn_in_handler")
EXACT_PERCENT = 99.9
FULL_PERCENT = 95  # of the time is spent in the leaves


def root_is_right(build, frames, first_own):
    """What stands before the program's own first function: the C library's start of a process, or
    of a thread. Its functions may be unnamed (Debian's libc has no symbols for them)."""
    names = [frame.name for frame in frames]
    if first_own == "main":
        expected = range(1, 5) if build.is_musl() else (3,)
        # musl's _start has no size.
        return len(names) in expected and (names[0] == "_start" or build.is_musl())
    if build.is_musl():  # its clone has no name of its own
        return len(names) in range(1, 4)
    return len(names) == 2 and ("clone" in names[0] or "+0x" in names[0])


def judge(build, name, stacks, lines):
    chains = Chains([line[6:] for line in lines if line.startswith("chain ")], HANDLER)
    verdict = Verdict(name)
    for stack in stacks:
        fit = chains.fit(stack)
        root, own = chains.split_root(stack)
        deep = fit == "inside"
        right_root = bool(own) and (deep or root_is_right(build, root, own[0]))
        if deep:
            stack.end = "complete"  # as much of it as the unwinder promises
        verdict.add(stack, fit, None if right_root or not own else "root")
    return verdict


def run_builds(builds, tmp_path, *options, seconds=2.0, at_once=2):
    """Record all builds, some at a time; returns their verdicts."""
    made = [(build, build.make()) for build in builds]
    done = []
    with Recording(tmp_path / "native.pb.gz") as recording:
        for i in range(0, len(made), at_once):
            running = []
            for build, folder in made[i:i + at_once]:
                argv = [str(folder / "chains"), "--seconds", str(seconds), "--warm-up", "1.2"]
                if not build.is_static():
                    argv += ["--library", str(folder / "library.so")]
                running.append((build, Program(build.name, [*argv, *options])))
            done += [(build, program, program.lines()) for build, program in running]
    return [(program, lines, (judge_musl if build.is_musl() else judge)(
        build, build.name, recording.of(program.service, "truth"), lines))
        for build, program, lines in done]


def judge_musl(build, name, stacks, lines):
    """musl has no unwind information: what is made up for it may miss a function, which then cuts the
    stack. What is shown has to be true."""
    chains = Chains([line[6:] for line in lines if line.startswith("chain ")], HANDLER)
    verdict = Verdict(name)
    for stack in stacks:
        root, own = chains.split_root(stack)
        if stack.is_complete():
            right = bool(own) and root_is_right(build, root, own[0])
            verdict.add(stack, chains.fit(stack), None if right or not own else "root")
        else:
            right = chains.patterns.fits_inside(without_foreign(own)) if own else True
            stack.end = "complete" if right else stack.end
            verdict.add(stack, "inside" if right else None)
    return verdict


def expect_exact(results):
    print("\n" + "\n".join(verdict.line() for _, _, verdict in results))
    wrong = []
    for program, lines, verdict in results:
        assert verdict.samples, f"{program.name}: no samples"
        # One bad stack of a few hundred exceeds that.
        few = 100 - 200 / verdict.samples
        if verdict.percent(verdict.exact) < min(EXACT_PERCENT, few):
            seed = next((line for line in lines if line.startswith("seed")), "")
            wrong.append(f"{seed}\n{verdict.report()}\n  chains walked, for example:\n    "
                         + "\n    ".join(line for line in lines if line.startswith("chain"))[:3000])
    assert not wrong, "\n\n".join(wrong)


def installed(builds):
    for build in builds:
        if build.missing():
            print(f"# SKIP {build.name}: {build.missing()} is not installed")
    return [build for build in builds if not build.missing()]


def test_every_stack_is_a_known_chain(tmp_path):
    results = run_builds(installed(few_builds()), tmp_path)
    expect_exact(results)
    for program, _, verdict in results:
        assert "musl" in program.name or verdict.percent(verdict.full) > FULL_PERCENT, verdict.line()


@pytest.mark.whole
@pytest.mark.parametrize("part", range(4))
def test_every_build_gives_known_chains(tmp_path, part):
    expect_exact(run_builds(installed(every_build())[part::4], tmp_path))


@pytest.mark.parametrize("build", [Build("gcc", "O2", "nofp", "pie"),
                                   Build("clang", "O2", "nofp", "static")],
                         ids=lambda build: build.name)
def test_unwinds_signals_at_any_instruction(tmp_path, build):
    expect_exact(run_builds(installed([build]), tmp_path, "--timer", seconds=4))


def test_thread_stacks_end_at_clone(tmp_path):
    builds = installed([Build("gcc", "O2", "nofp", "pie"), Build("clang", "O1", "nofp", "static"),
                        Build("musl", "O2", "nofp", "musl")])
    expect_exact(run_builds(builds, tmp_path, "--threads", "4", at_once=1))


@pytest.mark.parametrize("depth", [200, 1000])
def test_unwinds_recursion_to_its_limit(tmp_path, depth):
    builds = installed([Build("gcc", "O2", "nofp", "pie")])
    results = run_builds(builds, tmp_path, "--deep", str(depth))
    expect_exact(results)
    if depth == 1000:
        for _, _, verdict in results:
            assert verdict.fits["inside"], verdict.line()
