# SPDX-License-Identifier: Apache-2.0
"""LuaJIT: its interpreter's stacks reach the process's first function; its traces keep no frame pointer, so
they are named where LuaJIT lists them, and who called them is not shown. TRUTH_LUAJIT names a build that
has LUAJIT_USE_PERFTOOLS; Debian's has not."""
import os
import pathlib
import shutil

import pytest

from recording import Program, Recording
from stacks import is_kernel

# Skips functions with wrong unwind information, such as floor().
LUA = """
local function name_thread(name)
  local file = io.open("/proc/thread-self/comm", "w")
  file:write(name)
  file:close()
end
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local function text(n)
  local words = {}
  for i = 1, n do words[#words + 1] = string.upper("word" .. i) end
  return #table.concat(words)
end
local function run(finish) while os.clock() < finish do fib(20) text(1000) end end
run(1)
name_thread("truth")
run(1 + tonumber(arg[1]))
name_thread("done")
"""
COMPLETE_PERCENT = 99
SECONDS = "3"


def record(tmp_path, flag):
    """Its stacks without the kernel's part: (frames, end, value)."""
    luajit = os.environ.get("TRUTH_LUAJIT") or shutil.which("luajit")
    if not luajit:
        print("# SKIP luajit: it is not installed; TRUTH_LUAJIT may name one")
        pytest.skip("LuaJIT is not installed")
    script = tmp_path / "burn.lua"
    script.write_text(LUA)
    with Recording(tmp_path / "lua.pb.gz", frequency=499) as recording:
        program = Program("luajit", [luajit, flag, str(script), SECONDS])
        program.lines()
    pathlib.Path(f"/tmp/perf-{program.process.pid}.map").unlink(missing_ok=True)
    stacks = [([frame for frame in stack.frames if not is_kernel(frame)], stack.end, stack.value)
              for stack in recording.of(program.service, "truth")]
    assert stacks, "no samples"
    return stacks


def percent(stacks, is_right):
    right = sum(value for frames, end, value in stacks if is_right(frames, end))
    return 100 * right / sum(value for _, _, value in stacks)


@pytest.mark.whole
def test_unwinds_interpreter(tmp_path):
    stacks = record(tmp_path, "-joff")
    whole = percent(stacks, lambda frames, end: end == "complete" and frames[0].name == "_start"
                    and any(frame.name == "lua_pcall" for frame in frames))
    print(f"\nLuaJIT's interpreter: {len(stacks)} stacks, {whole:.2f} % whole")
    assert whole > COMPLETE_PERCENT, stacks[0]


@pytest.mark.whole
def test_names_listed_trace(tmp_path):
    stacks = record(tmp_path, "-jon")
    traces = [stack for stack in stacks if any(is_trace(frame) for frame in stack[0])]
    listed = percent(traces, lambda frames, _: frames[0].name.startswith("TRACE_"))
    print(f"\nLuaJIT's traces: {len(traces)} of {len(stacks)} stacks, {listed:.2f} % named")
    assert len(traces) > 0.5 * len(stacks)
    # Nothing is made up: no caller of a trace is shown.
    assert percent(traces, lambda frames, end: end == "no frame pointer" and is_trace(frames[0])) > 99
    assert listed > 90 or not os.environ.get("TRUTH_LUAJIT")


def is_trace(frame):
    return frame.name.startswith(("TRACE_", "[anon]"))
