# SPDX-License-Identifier: Apache-2.0
"""Stacks that are not laid one call on another: the dynamic linker that binds a call, coroutines on stacks
of their own, a child on its parent's; and where a thread has just begun."""
import bisect
import subprocess

import pytest

from programs import single
from recording import Program, Recording
from stacks import Chains, Verdict, is_kernel
from test_native import expect_exact


def judge(program, lines, recording):
    """Each stack is complete, and one of the chains from its first own function on."""
    known = Chains([line[6:] for line in lines if line.startswith("chain ")])
    verdict = Verdict(program.name)
    for stack in recording.of(program.service, "truth"):
        verdict.add(stack, known.fit(stack))
    return program, lines, verdict


def test_unwinds_lazy_binding(tmp_path):
    """The linker's trampoline aligns the stack, and its caller is known by rbx alone."""
    library = single("lazy_library.so", "-shared", "-fPIC", sources=["lazy_library.c"])
    lazy = single("lazy", "-Wl,-z,lazy", sources=["lazy.c", library])
    with Recording(tmp_path / "x.pb.gz") as recording:
        program = Program("lazy", [str(lazy), "--seconds", "2"])
        lines = program.lines()
    result = judge(program, lines, recording)
    expect_exact([result])
    trampolines = [stack for stack in recording.of(program.service, "truth")
                   if any("_dl_fixup" in frame.name or frame.module.endswith("ld-linux-x86-64.so.2")
                          for frame in stack.frames)]
    assert sum(stack.value for stack in trampolines) > 1e9, "no call was being bound"


def test_unwinds_foreign_stacks(tmp_path):
    """They end where the coroutine begins, and a vfork() child is where its parent was."""
    with Recording(tmp_path / "x.pb.gz") as recording:
        program = Program("contexts", [str(single("contexts")), "--seconds", "2"])
        lines = program.lines()
    expect_exact([judge(program, lines, recording)])


def functions_of(path):
    """(first address in the file, name), sorted, of a program that is not stripped."""
    lines = subprocess.run(["readelf", "-sW", "-lW", path], capture_output=True, text=True, check=True).stdout.splitlines()
    # A program header: type, offset, virtual address, physical address, sizes, flags.
    loads = [line.split() for line in lines if line.strip().startswith("LOAD") and " E " in line]
    offset, address = int(loads[0][1], 16), int(loads[0][2], 16)
    return sorted({(int(words[1], 16) - address + offset, words[7]) for words in map(str.split, lines)
                   if len(words) == 8 and words[3] == "FUNC" and words[6] != "UND"})


def name_of(frame, functions):
    """Of a frame that is named by its file and an offset."""
    offset = int(frame.name.rpartition("+")[2], 16)
    return functions[bisect.bisect_right(functions, (offset, "~")) - 1][1]


@pytest.mark.parametrize("link", ["-static", "-pie"])
def test_unwinds_stripped_code(tmp_path, link):
    """Without unwind information: functions are found by what calls them, data, and code behind jump tables."""
    named = single(f"named{link}", link, "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-stack-protector",
                   sources=["stripped.c"])
    stripped = named.with_name(f"stripped{link}")
    subprocess.run(["strip", "-s", "-o", stripped, named], check=True)
    functions = functions_of(named)
    with Recording(tmp_path / "x.pb.gz") as recording:
        program = Program("stripped", [str(stripped), "--seconds", "2"])
        program.lines()
    stacks = [stack for stack in recording.of(program.service, "truth")
              if any(frame.name.startswith(f"{stripped.name}+") for frame in stack.frames)]
    whole, seen = 0, set()
    for stack in stacks:
        ours = [name_of(frame, functions) for frame in stack.frames if frame.name.startswith(f"{stripped.name}+")]
        own = [name for name in ours if name in OWN_FUNCTIONS]
        seen |= set(own)
        if stack.is_complete() and own[:3] == ["main", "work_until", "choose"] and follows(own):
            whole += stack.value
    everything = sum(stack.value for stack in stacks)
    assert everything > 3e8
    assert seen == OWN_FUNCTIONS
    assert whole > 0.98 * everything, f"{100 * whole / everything:.1f} %; {stacks[0]}"


CALLERS = {"work_until": {"main"}, "choose": {"work_until"}, "first": {"choose"}, "second": {"choose"}, "fail": {"choose"},
           "deep": {"choose", "first", "second", "deep"}, "spin": {"choose", "deep", "fail"}, "give_up": {"fail"}}
OWN_FUNCTIONS = {"main", "work_until", "choose", "first", "second", "fail", "deep", "spin"}


def follows(names):
    """Is each function called by the one before?"""
    return all(caller in CALLERS[name] for caller, name in zip(names, names[1:]))


BRIEF_PERCENT = 99  # of what threads do that live for microseconds: 43 % was cut in clone() once
# musl's and where a thread unmaps its stack have no symbols: the symbols before them are shown.
CLONES = {"gcc": ["clone"], "musl-gcc": ["clone", "memset", "pthread_exit"]}


def is_begin_or_end(stack, clones):
    """A thread's first functions and its last ones are the C library's; then it has no memory any more."""
    names = [frame.name for frame in stack.frames if not is_kernel(frame) and frame.module != "bpf"]
    if not names:
        # Of a leaf's caller the kernel's own unwinder for aarch64 may know nothing.
        return any(frame.name in ("do_exit", "__arm64_sys_exit") for frame in stack.frames)
    return len(names) <= 6 and any(clone in names[0] for clone in clones)


def has_no_stack(stack):
    """musl's pthread_join() unmaps it as soon as the kernel says that the thread ends."""
    return stack.end == "unreadable memory" and any(frame.name == "do_exit" for frame in stack.frames)


@pytest.mark.parametrize("compiler, flag", [("gcc", "-pie"), ("gcc", "-static"), ("musl-gcc", "-pie")])
def test_unwinds_short_lived_threads(tmp_path, compiler, flag):
    """clone() returns twice, on two stacks: the C library describes neither."""
    name = f"spawn-{compiler}{flag}"
    path = single(name, flag, sources=["spawn.c"], compiler=compiler)
    with Recording(tmp_path / "x.pb.gz") as recording:
        program = Program(name, [str(path), "--seconds", "2.5"])
        lines = program.lines()
    known = Chains([line[6:] for line in lines if line.startswith("chain ")])
    verdict, in_clone, without = Verdict(name), 0, 0
    for stack in recording.of(program.service, "truth"):
        if has_no_stack(stack):
            without += stack.value
            continue
        verdict.add(stack, known.fit(stack) or
                    ("beginning" if is_begin_or_end(stack, CLONES[compiler]) else None))
        in_clone += stack.value if any("clone" in frame.name for frame in stack.frames
                                       if is_kernel(frame)) else 0
    print("\n" + verdict.line())
    assert in_clone > 0.02 * verdict.total, "no thread was being made"
    assert without < (0.1 * verdict.total if compiler == "musl-gcc" else 1)
    assert verdict.percent(verdict.exact) > BRIEF_PERCENT, verdict.report()
