# SPDX-License-Identifier: Apache-2.0
"""On Debian's arm64 kernels, emulated: the programs load, and stacks of C, C++, Go and Python programs are what these say."""
import base64
import json
import os
import pathlib
import shutil
import subprocess

import pytest

import python_chains
import test_native
import test_odd_stacks
from interpreters import Interpreter
from kernels import META_PACKAGES, fetch
from machine import Machine, aarch64, is_elf
from programs import Build, single
from recording import build_folder
from stacks import Chains, Verdict, is_kernel, read_pprof
from test_kernels import WAITS, is_below

HERE = pathlib.Path(__file__).resolve().parent
ROOT = pathlib.Path(__file__).resolve().parents[2] / "build/sysroot/aarch64"
COMPILER = "aarch64-linux-gnu-gcc"
PYTHON = "/usr/bin/python3.11"
PYTHON_LIBRARY = "/usr/lib/python3.11"
PYTHON_PROGRAM = str(pathlib.Path(python_chains.__file__).parent / "python/chains.py")
BOOT_AND_RUN_SECONDS = 3600  # of a machine that others use, too; alone it takes two minutes
FREQUENCY = 199
EXACT_PERCENT = 99.0  # of some hundreds of samples
BUILDS = {
    "signed": (Build("aarch64", "O2", "nofp", "pie", ["-mbranch-protection=standard"]), ""),
    "frame pointers": (Build("aarch64", "O2", "fp", "pie", ["-mbranch-protection=none"]), ""),
    "threads": (Build("aarch64", "O2", "nofp", "pie", ["-mbranch-protection=standard"]), "--threads 3"),
    "signals": (Build("aarch64", "O2", "nofp", "pie", ["-mbranch-protection=none"]), "--timer"),
    "static": (Build("aarch64", "O1", "nofp", "static", ["-mbranch-protection=standard"]), ""),
}
SPAWNS = {"spawn": "-pie", "spawn static": "-static"}


def needs():
    """What has to be installed first; None: nothing."""
    tools = [aarch64(ROOT).emulator, COMPILER, "aarch64-linux-gnu-g++"]
    missing = [tool for tool in tools if not shutil.which(tool)]
    return f"{', '.join(missing)}: not installed (packages-kernels.txt)" if missing else None


pytestmark = pytest.mark.skipif(needs() is not None, reason=str(needs()))


@pytest.fixture(scope="module", params=sorted(META_PACKAGES))
def kernel(request):
    return fetch(request.param, "arm64")


def python_files():
    files = {PYTHON: ROOT / PYTHON[1:]}
    for path in (ROOT / PYTHON_LIBRARY[1:]).rglob("*"):
        if path.is_file() and (path.suffix == ".py" or is_elf(path)):
            files[f"{PYTHON_LIBRARY}/{path.relative_to(ROOT / PYTHON_LIBRARY[1:])}"] = path
    return files


def go_program(folder):
    """The path, or None where there is no Go."""
    if not shutil.which("go"):
        return None
    target = folder / "chains"
    subprocess.run(["go", "build", "-o", target, HERE / "go/chains.go"], check=True, cwd=folder,
                   env={**os.environ, "GO111MODULE": "off", "GOARCH": "arm64", "CGO_ENABLED": "0"})
    return target


class Recordings:
    """Programs that are recorded one after the other on one machine."""

    def __init__(self):
        self.files = {"/usr/bin/cairn": build_folder() / "cairn", "/usr/bin/base64": ROOT / "usr/bin/base64"}
        self.jobs, self.names = [], []
        self.found = {}  # by name: stacks, and the program's lines
        self.release = ""

    def add(self, name, files, command, flags=""):
        number = len(self.names)
        self.files.update({place.format(number): path for place, path in files.items()})
        self.jobs += [f"/usr/bin/cairn record -F {FREQUENCY} -d 120 {flags} -o /tmp/{number}.pb.gz -- "
                      f"{command.format(number)} >/tmp/{number}.said",
                      f"/usr/bin/base64 /tmp/{number}.pb.gz", f"/usr/bin/base64 /tmp/{number}.said"]
        self.names.append(name)

    def run(self, kernel, folder):
        machine = Machine(kernel, self.files, architecture=aarch64(ROOT))
        done = machine.run(self.jobs, BOOT_AND_RUN_SECONDS)
        self.release = machine.release
        for number, name in enumerate(self.names):
            recorded, profile, said = done[3 * number:3 * number + 3]
            assert recorded.status == 0, f"on {self.release}: {name}: {recorded.output[-4000:]}"
            path = folder / f"{number}.pb.gz"
            path.write_bytes(base64.b64decode(profile.output))
            self.found[name] = read_pprof(path), base64.b64decode(said.output).decode().splitlines()

    def of(self, name, thread="truth"):
        stacks, lines = self.found[name]
        return [stack for stack in stacks if thread in (None, stack.labels.get("thread"))], lines


@pytest.fixture(scope="module")
def recordings(kernel, tmp_path_factory):
    """Of all programs, in one machine."""
    folder = tmp_path_factory.mktemp("recordings")
    made = Recordings()
    for name, (build, options) in BUILDS.items():
        built = build.make()
        files = {"/{0}/chains": built / "chains"}
        if not build.is_static():
            files["/{0}/library.so"] = built / "library.so"
            options += " --library /{0}/library.so"
        made.add(name, files, "/{0}/chains --seconds 3 --warm-up 3 " + options)
    for name, flag in SPAWNS.items():
        path = single(f"spawn-{COMPILER}{flag}", flag, sources=["spawn.c"], compiler=COMPILER)
        made.add(name, {"/{0}/spawn": path}, "/{0}/spawn --seconds 2")
    go = go_program(folder)
    if go:
        made.add("Go", {"/{0}/chains": go}, "/{0}/chains 3 3")
    python = python_files()
    made.add("Python", {**python, "/{0}/chains.py": PYTHON_PROGRAM}, f"{PYTHON} /{{0}}/chains.py callbacks --seconds 4 --warm-up 5")
    waits = folder / "waits.py"
    waits.write_text(WAITS)
    made.add("waits", {**python, "/{0}/waits.py": waits}, f"{PYTHON} /{{0}}/waits.py", "--type off-cpu")
    made.run(kernel, folder)
    return made


def expect_exact(verdict):
    print("\n" + verdict.line())
    assert verdict.samples > 50, verdict.line()
    assert verdict.percent(verdict.exact) >= EXACT_PERCENT, verdict.report()


def test_programs_load(kernel):
    """At each fallback size, and run."""
    program = "/tests/agent/bpf/test_loader"
    machine = Machine(kernel, {program: build_folder() / program[1:]}, architecture=aarch64(ROOT))
    (done,) = machine.run([program], BOOT_AND_RUN_SECONDS)
    assert done.status == 0, f"on {machine.release}: {done.output[-6000:]}"
    print(f"\non {machine.release}: loaded")


@pytest.mark.parametrize("name", BUILDS)
def test_native_stacks(recordings, name):
    """Return addresses are signed, but for frame pointers and signals."""
    build, options = BUILDS[name]
    stacks, lines = recordings.of(name)
    expect_exact(test_native.judge(build, f"{recordings.release} {build.name} {options}", stacks, lines))


@pytest.mark.parametrize("name", SPAWNS)
def test_children_of_clone_end_there(recordings, name):
    stacks, lines = recordings.of(name)
    known = Chains([line[6:] for line in lines if line.startswith("chain ")])
    verdict = Verdict(f"{recordings.release} {name}")
    for stack in stacks:
        verdict.add(stack, known.fit(stack) or ("beginning" if test_odd_stacks.is_begin_or_end(stack, ["clone"]) else None))
    expect_exact(verdict)


def test_go_stacks(recordings):
    if "Go" not in recordings.found:
        pytest.skip("go is not installed")
    stacks, lines = recordings.of("Go")
    chains = Chains([line[6:] for line in lines if line.startswith("chain ")])
    verdict = Verdict(f"{recordings.release} Go")
    for stack in stacks:
        root, own = chains.split_root(stack)
        right = [frame.name for frame in root] == ["runtime.goexit", "runtime.main"]
        verdict.add(stack, chains.fit(stack), None if right or not own else "root")
    expect_exact(verdict)


def test_python_stacks(recordings):
    stacks, lines = recordings.of("Python")
    expect_exact(python_chains.judge(f"{recordings.release} Python", stacks, lines, Interpreter(PYTHON, (3, 11, 0), False)))


def test_off_cpu_time(recordings):
    stacks, lines = recordings.of("waits", None)
    waits = {name: sum(stack.value for stack in stacks if is_below(stack, name) and stack.is_complete())
             for name in ("for_a_short_time", "for_a_long_time")}
    truth = json.loads(lines[0])
    print(f"\non {recordings.release}: blocked {waits} ns of {truth}")
    for name, ns in truth.items():
        # The first come before the tables do.
        assert 0.5 * ns < waits[name] < 1.1 * ns, (name, waits, truth)
