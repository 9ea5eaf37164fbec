# SPDX-License-Identifier: Apache-2.0
"""The programs load on Debian's kernels, at every fallback size of the loader, and give right
stacks of a native program without frame pointers and of a Python program."""
import base64
import json
import pathlib
import shutil
import subprocess
import sys

import pytest

import python_chains
import test_native
from interpreters import ask
from kernels import META_PACKAGES, fetch
from machine import X86_64, Machine
from programs import Build
from recording import ROOT, build_folder
from stacks import read_pprof

PYTHON = "/usr/bin/python3"
PYTHON_PROGRAM = str(pathlib.Path(python_chains.__file__).parent / "python/chains.py")
UNIT = ROOT / "tests/unit"
# Each in a machine that has booted just now: what takes an hour from its monotonic clock fails here.
UNIT_ROOMS = ["base", "bpf", "agent", *sorted(f"agent/{folder.name}" for folder in (UNIT / "agent").iterdir()
                                              if folder.is_dir())]
# Unit tests that do not run there, and why: most need a faster CPU than an emulated one.
EXCLUDED = {
    "agent/test_profiler": "its programs end before the profiler has loaded its own",
    "agent/test_program_pages": "the pages of its libraries are the initramfs, and cannot be given back",
    "agent/dump/test_blocked_registers": "loads a program within the second that a process is paused at most",
    "agent/dump/test_process_pause": "stops 300 threads within 100 ms",
    "agent/gpu/test_gpu_counts": "a copy of 5 ms is over before it is waited for",
    "agent/overhead/test_bpf_cost": "a third of the samples that are due is taken there",
    "agent/symbols/test_source_line_reader": "compiles programs: there is no compiler",
    "agent/unwind/test_coroutine_bases": "compiles libraries",
}
# What programs of unit tests start, or load.
TOOLS = ("sh", "cat", "chmod", "cp", "dirname", "env", "false", "ln", "mkdir", "mkfifo", "mv", "openssl", "rm", "sleep",
         "touch", "true")
LIBRARIES = ("libgcc_s.so.1", "libcurl.so.4", "libmicrohttpd.so.12")
# DAC_READ_SEARCH, SYS_PTRACE, SYSLOG, PERFMON, BPF, CHECKPOINT_RESTORE: as in deploy/systemd/cairn-agent.service.
SIX_CAPABILITIES = (2, 19, 34, 38, 39, 40)
BOOT_AND_RUN_SECONDS = 1800  # emulated: ten times as slow as the machine, which others use, too
EXACT_PERCENT = 99.0        # of some hundreds of samples
CRYPTO = "/usr/lib/x86_64-linux-gnu/libcrypto.so.3"
WAITS = """
import json, time

def for_a_short_time():
    time.sleep(0.01)

def for_a_long_time():
    time.sleep(0.04)

def wait(way, waited):
    begin = time.monotonic_ns()
    way()
    waited[way.__name__] = waited.get(way.__name__, 0) + time.monotonic_ns() - begin

waited = {}
end = time.monotonic() + 14
while time.monotonic() < end:
    wait(for_a_short_time, waited)
    wait(for_a_long_time, waited)
print(json.dumps(waited))
"""
LIST_MODULES = """
import runpy, sys
sys.argv = ["chains.py", "plain", "--seconds", "0", "--warm-up", "0"]
runpy.run_path(%r, run_name="__main__")
for module in list(sys.modules.values()):
    print("file", getattr(module, "__file__", None) or "")
"""


@pytest.fixture(scope="module", params=sorted(META_PACKAGES))
def kernel(request):
    assert shutil.which(X86_64.emulator), f"{X86_64.emulator} is not installed (packages-kernels.txt)"
    return fetch(request.param)


def python_files():
    """What the program needs of the standard library."""
    said = subprocess.run([PYTHON, "-c", LIST_MODULES % PYTHON_PROGRAM], capture_output=True,
                          text=True, check=True).stdout
    names = {line[5:] for line in said.splitlines() if line.startswith("file /")}
    interpreter = str(pathlib.Path(PYTHON).resolve())
    return {**{name: name for name in names}, interpreter: interpreter,
            PYTHON_PROGRAM: PYTHON_PROGRAM}, interpreter


def run_jobs(kernel, files, jobs):
    machine = Machine(kernel, files)
    done = machine.run(jobs, BOOT_AND_RUN_SECONDS)
    for job in done:
        assert job.status == 0, f"on {machine.release}: {job.words}: {job.status}\n{job.output[-6000:]}"
    return machine.release, done


def record(kernel, files, command, tmp_path, flags="", thread="truth"):
    """Record the command there; returns its output's lines and the stacks of its threads of that name."""
    files = {**files, "/usr/bin/cairn": build_folder() / "cairn", "/usr/bin/base64":
             shutil.which("base64")}
    jobs = [f"/usr/bin/cairn record -F 199 -d 60 {flags} -o /tmp/there.pb.gz -- {command} >/tmp/said",
            "/usr/bin/base64 /tmp/there.pb.gz", "/usr/bin/base64 /tmp/said"]
    release, (_, profile, said) = run_jobs(kernel, files, jobs)
    path = tmp_path / "there.pb.gz"
    path.write_bytes(base64.b64decode(profile.output))
    stacks = [stack for stack in read_pprof(path) if stack.labels.get("thread") == thread]
    return release, base64.b64decode(said.output).decode().splitlines(), stacks


def is_below(stack, function):
    """With the interpreted frames that lead there."""
    names = [frame.name for frame in stack.frames]
    return function in names and names.index("<module>") < names.index("wait") < names.index(function)


def expect_exact(verdict):
    print("\n" + verdict.line())
    assert verdict.samples > 20, verdict.line()
    assert verdict.percent(verdict.exact) >= EXACT_PERCENT, verdict.report()


def unit_programs(room):
    """{path there: path here}; of agent/ those of the folder itself."""
    sources = (UNIT / room).glob("test_*.c") if room == "agent" else (UNIT / room).rglob("test_*.c")
    names = sorted(str(path.relative_to(UNIT).with_suffix("")) for path in sources)
    return {f"/tests/{name}": build_folder() / "tests" / name for name in names if name not in EXCLUDED}


def unit_files():
    """What they need beside what they are linked with."""
    doubles = build_folder() / "tests/gpu"
    files = {f"/tests/gpu/{path.relative_to(doubles)}": path for path in doubles.rglob("*") if path.is_file()}
    files.update({f"/bin/{tool}": shutil.which(tool) for tool in TOOLS})
    files["/usr/lib/ssl/openssl.cnf"] = "/etc/ssl/openssl.cnf"
    for folder in ("/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"):
        files.update({f"{folder}/{name}": path for name in LIBRARIES
                      if (path := pathlib.Path(folder, name)).exists()})
    return files


def test_nothing_left_out_has_gone():
    assert not [name for name in EXCLUDED if not (UNIT / f"{name}.c").exists()]


def test_programs_load(kernel):
    """At each fallback size, and run. First, and alone by make load-kernels: what a change of BPF code breaks."""
    program = "/tests/agent/bpf/test_loader"
    release, _ = run_jobs(kernel, {program: build_folder() / program[1:]}, [program])
    print(f"\non {release}: loaded")


def test_six_capabilities_suffice_below_level_3(kernel):
    """Debian's kernels start with kernel.perf_event_paranoid = 3, and then ask for CAP_SYS_ADMIN."""
    files = {f"/usr/bin/{tool}": shutil.which(tool) for tool in ("setpriv", "sysctl")}
    record = f"/usr/bin/setpriv --bounding-set=-all,{','.join(f'+cap_{number}' for number in SIX_CAPABILITIES)} " \
             "/usr/bin/cairn record -d 1 -o /tmp/there.svg"
    machine = Machine(kernel, {**files, "/usr/bin/cairn": build_folder() / "cairn"})
    first, lowered, second = machine.run([record, "/usr/bin/sysctl -w kernel.perf_event_paranoid=2", record], BOOT_AND_RUN_SECONDS)
    assert first.status == 1 and "kernel.perf_event_paranoid is 3" in first.output, first
    assert lowered.status == 0, lowered
    assert second.status == 0 and "wrote /tmp/there.svg" in second.output, second


@pytest.mark.parametrize("room", UNIT_ROOMS)
def test_unit_tests(kernel, room):
    programs = unit_programs(room)
    if not programs:
        pytest.skip("all of them are left out")
    machine = Machine(kernel, {**programs, **unit_files()})
    done = machine.run(list(programs), BOOT_AND_RUN_SECONDS)
    for job in done:
        print(f"\non {machine.release}: {job.words}: {job.output.count('[       OK ]')} tests")
    failed = [job for job in done if job.status]
    assert not failed, "\n".join(f"{job.words}: {job.status}\n{job.output[-3000:]}" for job in failed)


def test_native_stacks_without_frame_pointers(kernel, tmp_path):
    build = Build("gcc", "O2", "nofp", "pie")
    folder = build.make()
    files = {"/chains": folder / "chains", "/library.so": folder / "library.so"}
    if pathlib.Path(CRYPTO).exists():
        files[CRYPTO] = CRYPTO
    release, lines, stacks = record(
        kernel, files, "/chains --seconds 8 --warm-up 4 --library /library.so", tmp_path)
    expect_exact(test_native.judge(build, f"{release} {build.name}", stacks, lines))


def test_python_stacks(kernel, tmp_path):
    files, interpreter = python_files()
    release, lines, stacks = record(
        kernel, files, f"{interpreter} {PYTHON_PROGRAM} callbacks --seconds 8 --warm-up 6", tmp_path)
    expect_exact(python_chains.judge(f"{release} Python", stacks, lines, ask(PYTHON)))


def test_python_off_cpu(kernel, tmp_path):
    """By the full program of context switches: complete stacks, not those of a fallback."""
    files, interpreter = python_files()
    script = tmp_path / "waits.py"
    script.write_text(WAITS)
    release, lines, stacks = record(kernel, {**files, "/waits.py": script}, f"{interpreter} /waits.py",
                                    tmp_path, "--type off-cpu", pathlib.Path(interpreter).name[:15])
    waits = {name: sum(stack.value for stack in stacks if is_below(stack, name) and stack.is_complete())
             for name in ("for_a_short_time", "for_a_long_time")}
    truth = json.loads(lines[0])
    print(f"\non {release}: blocked {waits} ns of {truth}")
    for name, ns in truth.items():
        # The first come before the tables do.
        assert 0.5 * ns < waits[name] < 1.1 * ns, (name, waits, truth)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-q", "-s"]))
