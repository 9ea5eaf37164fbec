# SPDX-License-Identifier: Apache-2.0
"""On Debian's arm64 kernels, emulated: the programs load, and stacks of C, C++, Go and Python programs are what these say."""
import base64
import json
import os
import pathlib
import re
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
# Until then the tables of a first program's libraries are built, on a machine that emulation makes twenty times as slow as a server.
WARM_UP_SECONDS, FIRST_WARM_UP_SECONDS = 3, 8
SPAWNS = {"spawn": "-pie", "spawn static": "-static"}
LIBC = "/lib/aarch64-linux-gnu/libc.so.6"
THREAD_START_BYTES = 0x40  # glibc's has 20, and begins at a multiple of 16


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
    """What programs that run one after the other on one machine say, and their stacks: of two recordings, because loading the kernel
    programs takes an emulator longer than most of these run."""

    def __init__(self):
        self.files = {"/usr/bin/cairn": build_folder() / "cairn", "/usr/bin/base64": ROOT / "usr/bin/base64", "/bin/sh": ROOT / "bin/dash"}
        self.commands = {"cpu": [], "off-cpu": []}
        self.services = {}  # by name
        self.found = {}  # by name: stacks, and the program's lines
        self.release = ""

    def add(self, name, service, files, arguments="", kind="cpu"):
        """@service is the program's file name. @files are below /@name, and so is what @arguments call {0}."""
        place = "/" + name.replace(" ", "-")
        self.files.update({path.format(place): here for path, here in files.items()})
        program = service if service.startswith("/") else f"{place}/{service}"
        self.commands[kind].append(f"{program} {arguments.format(place)} > {place}.said")
        self.services[name] = pathlib.Path(service).name

    def run(self, kernel, folder):
        jobs = []
        for kind, commands in self.commands.items():
            script = folder / kind
            script.write_text("".join(f"{command}\n" for command in commands))
            self.files[f"/scripts/{kind}"] = script
            jobs += [f"/usr/bin/cairn record -F {FREQUENCY} -d 1200 --type {kind} -o /tmp/{kind}.pb.gz -- /bin/sh -e /scripts/{kind}",
                     f"/usr/bin/base64 /tmp/{kind}.pb.gz"]
        said = [f"/usr/bin/base64 /{name.replace(' ', '-')}.said" for name in self.services]
        machine = Machine(kernel, self.files, architecture=aarch64(ROOT))
        done = machine.run([*jobs, *said], BOOT_AND_RUN_SECONDS)
        self.release = machine.release
        stacks = []
        for kind, recorded, profile in zip(self.commands, done[0:4:2], done[1:4:2]):
            print("\n" + "\n".join(re.findall(r"^cairn record: .*$", recorded.output, re.M)))
            assert recorded.status == 0, f"on {self.release}: {kind}: {recorded.output[-4000:]}"
            path = folder / f"{kind}.pb.gz"
            path.write_bytes(base64.b64decode(profile.output))
            stacks += read_pprof(path)
        for name, printed in zip(self.services, done[4:]):
            own = [stack for stack in stacks if stack.labels.get("service") == self.services[name]]
            self.found[name] = own, base64.b64decode(printed.output).decode().splitlines()

    def of(self, name, thread="truth"):
        stacks, lines = self.found[name]
        return [stack for stack in stacks if thread in (None, stack.labels.get("thread"))], lines


@pytest.fixture(scope="module")
def recordings(kernel, tmp_path_factory):
    """Of all programs, in one machine."""
    folder = tmp_path_factory.mktemp("recordings")
    made = Recordings()
    for name, (build, options) in BUILDS.items():
        built, service = build.make(), name.replace(" ", "-")
        files = {f"{{0}}/{service}": built / "chains"}
        if not build.is_static():
            files["{0}/library.so"] = built / "library.so"
            options += " --library {0}/library.so"
        warm_up = WARM_UP_SECONDS if made.services else FIRST_WARM_UP_SECONDS
        made.add(name, service, files, f"--seconds 3 --warm-up {warm_up} {options}")
    for name, flag in SPAWNS.items():
        path, service = single(f"spawn-{COMPILER}{flag}", flag, sources=["spawn.c"], compiler=COMPILER), name.replace(" ", "-")
        made.add(name, service, {f"{{0}}/{service}": path}, "--seconds 2")
    go = go_program(folder)
    if go:
        made.add("Go", "go", {"{0}/go": go}, "3 3")
    python = python_files()
    made.add("Python", PYTHON, {**python, "{0}/chains.py": PYTHON_PROGRAM}, "{0}/chains.py callbacks --seconds 4 --warm-up 5")
    waits = folder / "waits.py"
    waits.write_text(WAITS)
    made.add("waits", "waits", {"{0}/waits": ROOT / PYTHON[1:], "{0}/waits.py": waits}, "{0}/waits.py", "off-cpu")
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


def thread_starts():
    """Names of the first function of glibc's threads: the one behind clone(), a local symbol, which Debian's library does not have."""
    symbols = subprocess.run(["readelf", "--dyn-syms", "-W", ROOT / LIBC[1:]], check=True, capture_output=True, text=True).stdout
    value, size = re.search(r": (\w+) +(\d+) FUNC .* clone@@", symbols).groups()
    end = int(value, 16) + int(size)
    return ["clone", "thread_start", *(f"libc.so.6+{hex(address)}" for address in range(end, end + THREAD_START_BYTES))]


@pytest.mark.parametrize("name", SPAWNS)
def test_children_of_clone_end_there(recordings, name):
    stacks, lines = recordings.of(name)
    starts = thread_starts()
    known = Chains([line[6:] for line in lines if line.startswith("chain ")])
    verdict = Verdict(f"{recordings.release} {name}")
    for stack in stacks:
        verdict.add(stack, known.fit(stack) or ("beginning" if test_odd_stacks.is_begin_or_end(stack, starts) else None))
    expect_exact(verdict)


def test_go_stacks(recordings):
    if "Go" not in recordings.found:
        pytest.skip("go is not installed")
    stacks, lines = recordings.of("Go")
    chains = Chains([line[6:] for line in lines if line.startswith("chain ")])
    verdict = Verdict(f"{recordings.release} Go")
    for stack in stacks:
        root, own = chains.split_root(stack)
        right = [frame.name.removesuffix(".abi0") for frame in root] == ["runtime.goexit", "runtime.main"]
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
