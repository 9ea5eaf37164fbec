# SPDX-License-Identifier: Apache-2.0
"""Quality of a profiler's stacks: the share that is complete, and with every frame named.

One rule for all: a stack is complete if its outermost frame is the function that a process or a thread
begins with, because nothing calls it; a frame has a name if it shows more than an address, an
offset in a file, or a word for what is not known. Only frames in user space count: a stack without any,
as of a process that exits, is left out.
"""
import pathlib
import re
import struct
import sys
import zlib

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "tests/e2e"))
from pprof_file import Pprof  # noqa: E402 pylint: disable=wrong-import-position

FIRST_FUNCTIONS = re.compile(
    r"(_start|(__GI_)?_{0,2}clone3?|start_thread|thread_start|_dl_start.*)$")
# Where a profiler shows Python's frames alone, what Python runs first.
PYTHON_FIRST = re.compile(r"(<module>|_run_module_as_main|(.+\.)?_bootstrap)$")
UNNAMED = re.compile(r"$|(0x)?[0-9a-fA-F]{8,}$|0x[0-9a-fA-F]+$|<unknown|\?\?|unknown$|\[[^\[]*\]$|.*\+0x")
PYTHON_FRAME = re.compile(r".+ \((.*\.py|<.*>)(:\d+)?\)$")
KERNEL_ADDRESS = re.compile(r"ffff[0-9a-f]{12}$")
KERNEL_MARK = "_[k]"
COLLAPSED_LINE = re.compile(r"(.+) (\d+)$")
LABELS_MAX = 3  # of process and thread, before the frames of a collapsed line
GZIP = b"\x1f\x8b"
PID_LABELS = ("pid", "tgid", "process_id", "process.pid", "process-id")


class Unreadable(Exception):
    """There are no stacks; the message says why."""


class Stacks:
    """What share of the recorded stacks is complete, and of which every frame has a name."""

    def __init__(self):
        self.count = self.complete = self.named = self.frames = 0

    def add(self, weight, frame_count, is_complete, is_named):
        self.count += weight
        self.complete += weight if is_complete else 0
        self.named += weight if is_named else 0
        self.frames += weight * frame_count

    def add_chain(self, weight, names, first_functions=FIRST_FUNCTIONS):
        """@names: functions, outermost first."""
        self.add(weight, len(names), bool(first_functions.match(names[0])),
                 all(map(is_name, names)))

    def percent(self, part):
        return 100 * part / self.count if self.count else float("nan")

    def line(self):
        return (f"complete {self.percent(self.complete):.2f} %, fully named "
                f"{self.percent(self.named):.2f} %, {self.frames / max(self.count, 1):.1f} frames")


def is_name(name):
    return not UNNAMED.match(name)


# ---- cairn's ---------------------------------------------------------------------------------

def add_flame_graph(stacks, graph):
    """A tree's nodes come after their parents; the first is the root, below it the process. Whoever
    says that a stack was cut is believed; whoever does not is judged by the outermost frame."""
    count = len(graph.names)
    frames, complete, named = [0] * count, [True] * count, [True] * count
    is_kernel = [False] * count
    for node in range(1, count):
        parent, name = graph.parents[node], graph.names[node]
        is_reason = name.startswith("[truncated")
        is_frame = graph.kinds[node] in ("native", "python", "jit") and not is_reason
        frames[node] = frames[parent] + (1 if is_frame else 0)
        is_first = is_frame and frames[parent] == 0
        complete[node] = (complete[parent] and not is_reason and
                          (not is_first or bool(FIRST_FUNCTIONS.match(name))))
        named[node] = named[parent] and (not is_frame or is_name(name))
        is_kernel[node] = is_kernel[parent] or graph.kinds[node] == "kernel"
        is_kernel_alone = is_kernel[node] and complete[node] and not frames[node]
        if graph.self_values[node] and not is_kernel_alone:
            stacks.add(graph.self_values[node], frames[node], complete[node] and frames[node] > 0,
                       named[node])


# ---- text of perf and bpftrace ----------------------------------------------------------------

def of_perf_script(text):
    """Of `perf script -F ip,sym`: blocks of lines "address name", innermost first."""
    stacks = Stacks()
    for block in text.split("\n\n"):
        lines = [line.split(None, 1) for line in block.strip().splitlines()]
        names = [line[-1].strip() for line in lines if not KERNEL_ADDRESS.match(line[0])]
        if names:
            stacks.add_chain(1, names[::-1])
    return stacks


def of_bpftrace(text):
    """Lines of "name+offset" or an address, innermost first, between "@stacks[" and "]: count"."""
    stacks, names = Stacks(), []
    for line in text.splitlines():
        if line.startswith("@stacks["):
            names = []
        elif line.startswith("]: ") and names:
            stacks.add_chain(int(line[3:]), names[::-1])
        elif line.strip():
            names.append(line.strip().rsplit("+", 1)[0])
    return stacks


# ---- collapsed stacks and pprof ----------------------------------------------------------------

class Process:
    """Whose stacks count in a recording that may have others', too."""

    def __init__(self, pid, name):
        self.name, self.number = name, re.compile(rf"(?<!\d){pid}(?!\d)")
        self.pid = str(pid)

    @classmethod
    def running(cls, pid):
        return cls(pid, pathlib.Path(f"/proc/{pid}/comm").read_text().strip())

    def is_told_by(self, text):
        """Does the text before the frames name this process, by its name or its pid?"""
        return text == self.name or bool(self.number.search(text))


def function_name(frame):
    """Without the place in the source, and without a mark of its kind."""
    return re.sub(r"_\[[a-z]\]$", "", frame.split(" (")[0])


def without_labels(names):
    """What stands before a first function names the process or thread, if it is a word."""
    for at, name in enumerate(names[:LABELS_MAX + 1]):
        if FIRST_FUNCTIONS.match(name):
            return names[at:]
        if not is_name(name):
            break
    return names


def _of_this_process(chains, process):
    """Where chains begin with the process, those of this process, without it; else all."""
    if process and any(process.is_told_by(frames[0]) for frames, _ in chains):
        return [(frames[1:], weight) for frames, weight in chains
                if len(frames) > 1 and process.is_told_by(frames[0])]
    return chains


def _of_chains(chains, process):
    """@chains: (frames outermost first, weight)."""
    chains = [(user, weight) for frames, weight in _of_this_process(chains, process)
              if (user := [frame for frame in frames if not frame.endswith(KERNEL_MARK)])]
    is_python_alone = all(PYTHON_FRAME.match(frame) for frames, _ in chains for frame in frames)
    stacks = Stacks()
    for frames, weight in chains:
        names = [function_name(frame) for frame in frames]
        if is_python_alone:
            stacks.add_chain(weight, names, PYTHON_FIRST)
        else:
            stacks.add_chain(weight, without_labels(names))
    return stacks


def of_collapsed(text, process=None):
    """Of lines "outermost;...;innermost count"."""
    found = [COLLAPSED_LINE.match(line) for line in text.splitlines()]
    chains = [(line[1].split(";"), int(line[2])) for line in found if line]
    if not chains:
        raise Unreadable("it has no line like a;b;c 12")
    return _of_chains(chains, process)


def of_pprof(profile, process=None):
    """@profile: a Pprof. Samples weigh their number, or else their first value."""
    kinds = [kind for kind, _ in profile.sample_types]
    at = kinds.index("samples") if "samples" in kinds else 0
    samples = list(zip(profile.samples, profile.labels))
    pids = [[str(labels[key]) for key in PID_LABELS if key in labels] for labels in profile.labels]
    if process and any(pids):
        samples = [sample for sample, pid in zip(samples, pids) if process.pid in pid]
    return _of_chains([(names[::-1], values[at]) for (names, values), _ in samples if names],
                      process)


def of_file(path, process):
    """Of a file of either kind; Unreadable if it is none."""
    try:
        data = path.read_bytes()
        if not data.startswith(GZIP):
            return of_collapsed(data.decode(errors="replace"), process)
        return of_pprof(Pprof(path), process)
    except (OSError, EOFError, zlib.error, AssertionError, LookupError, ValueError, struct.error) as error:
        raise Unreadable(f"{path}: {error or type(error).__name__}") from error
