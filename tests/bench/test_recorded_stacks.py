# SPDX-License-Identifier: Apache-2.0
"""How the benchmarks judge stacks, on small recordings of each kind: nothing is run."""
import gzip
import os
import pathlib
import sys
import time
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))
import recorded_stacks  # noqa: E402 pylint: disable=wrong-import-position
from profilers import Peer  # noqa: E402 pylint: disable=wrong-import-position
from recorded_stacks import Process, Unreadable  # noqa: E402 pylint: disable=wrong-import-position

WORKLOAD = Process(4711, "deep_calls")


def figures(stacks):
    return stacks.count, stacks.complete, stacks.named, stacks.frames


COLLAPSED = [
    # what, lines, (stacks, complete, named, frames)
    ("frames alone", "_start;main;f 3\n", (3, 3, 3, 9)),
    ("a thread's first functions", "clone3;start_thread;f 1\n__GI___clone3;f 1\nclone;f 1\n", (3, 3, 3, 7)),
    ("the end is missing", "main;f 2\n", (2, 0, 2, 4)),
    ("what calls _start is not known", "[unknown];_start;f 1\n", (1, 0, 0, 3)),
    ("an address", "_start;0x7f12;f 1\n_start;00007f1234567890;f 1\n", (2, 2, 0, 6)),
    ("a place in a file", "_start;libc.so.6+0x29d90;f 1\n", (1, 1, 0, 3)),
    ("a file, for what has no name", "_start;[libc.so.6];f 1\n", (1, 1, 0, 3)),
    ("words that look like addresses", "_start;decade;facade;f 1\n", (1, 1, 1, 4)),
    ("the kernel's frames do not count", "_start;f;do_syscall_64_[k];[unknown]_[k] 1\n", (1, 1, 1, 2)),
    ("nothing but the kernel", "do_exit_[k] 5\n_start;f 1\n", (1, 1, 1, 2)),
    ("the process comes first", "deep_calls;_start;f 1\nother;_start;0x1234 5\n", (1, 1, 1, 2)),
    ("the pid is in it", "deep_calls-4711;_start;f 1\ndeep_calls-47111;0x1234 5\n", (1, 1, 1, 2)),
    ("pid and thread", 'process 4711:"./deep";thread (0x7F00);clone3;f 1\n', (1, 1, 1, 2)),
    ("cut, below its process", "deep_calls;[truncated: no rule];f 4\n", (4, 0, 0, 8)),
    ("Python's frames alone", "<module> (job.py:9);f (lib/x.py:1) 1\n"
     "_bootstrap (threading.py:9);Model.forward (m.py:1) 1\nf (x.py:2) 1\n", (3, 2, 3, 5)),
    ("Python's between others", "<module> (job.py:9);f (x.py:1) 1\n_start;f (x.py:1) 1\n", (2, 1, 2, 4)),
    ("lines of other kinds", "# a remark\n\n_start;f 1\n", (1, 1, 1, 2)),
]


@pytest.mark.parametrize("lines, expected", [row[1:] for row in COLLAPSED],
                         ids=[row[0] for row in COLLAPSED])
def test_judges_collapsed_stacks(lines, expected):
    assert figures(recorded_stacks.of_collapsed(lines, WORKLOAD)) == expected


def test_refuses_text_without_stacks():
    with pytest.raises(Unreadable, match="a;b;c 12"):
        recorded_stacks.of_collapsed("usage: profiler [options]\n", WORKLOAD)


def test_judges_peers_by_the_same_rule():
    perf = recorded_stacks.of_perf_script(
        "\tffffffff81001234 do_read\n\t    55aa f\n\t    55bb main\n\t    55cc _start\n\n"
        "\t    7f00 [unknown]\n\t    55bb main\n\n\tffffffff81005678 do_exit\n")
    assert figures(perf) == (2, 1, 1, 5), "the kernel's frames do not count"
    bpftrace = recorded_stacks.of_bpftrace(
        "Attaching 2 probes...\n@stacks[\n    f+12\n    start_thread+724\n]: 5\n"
        "@stacks[\n    0x7f1234567890\n    main+3\n]: 2\n")
    assert figures(bpftrace) == (7, 5, 5, 14)
    graph = types.SimpleNamespace(
        names=["all", "deep_calls", "_start", "f", "[truncated: no rule]", "f", "main", "f"],
        kinds=["", "", "native", "native", "", "native", "native", "native"],
        parents=[0, 0, 1, 2, 1, 4, 1, 6], self_values=[0, 0, 0, 3, 0, 2, 0, 1])
    cairn = recorded_stacks.Stacks()
    recorded_stacks.add_flame_graph(cairn, graph)
    assert figures(cairn) == (6, 3, 6, 3 * 2 + 2 * 1 + 1 * 2), "main is not where a process begins"


def test_leaves_out_kernel_stacks():
    graph = types.SimpleNamespace(
        names=["all", "cc1", "do_exit", "[truncated: no rule]", "do_read", "_start", "do_read"],
        kinds=["", "", "kernel", "", "kernel", "native", "kernel"],
        parents=[0, 0, 1, 1, 3, 1, 5], self_values=[0, 1, 5, 0, 2, 0, 4])
    cairn = recorded_stacks.Stacks()
    recorded_stacks.add_flame_graph(cairn, graph)
    assert figures(cairn) == (7, 4, 7, 4), "a cut stack counts, and so does one without any frame"


# ---- pprof ------------------------------------------------------------------------------------

def varint(number):
    data = b""
    while number >= 0x80:
        data, number = data + bytes([number & 0x7f | 0x80]), number >> 7
    return data + bytes([number])


def field(number, value):
    """An integer, a text, or fields in a list."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else b"".join(value)
    return varint(number << 3 | 2) + varint(len(data)) + data


STRINGS = ["", "samples", "count", "cpu", "nanoseconds", "_start", "main", "f", "pid"]


def sample(locations, values, pid):
    return field(2, [*(field(1, at) for at in locations), *(field(2, value) for value in values),
                     field(3, [field(1, 8), field(3, pid)])])


def write_pprof(path, samples):
    """Locations: 1 f inlined into main, 2 _start, 3 without a name."""
    parts = [field(1, [field(1, 3), field(2, 4)]), field(1, [field(1, 1), field(2, 2)]), *samples,
             *(field(4, [field(1, at), field(3, 0x1000 * at),
                         *(field(4, [field(1, function)]) for function in functions)])
               for at, functions in ((1, (7, 6)), (2, (5,)), (3, ()))),
             *(field(5, [field(1, name), field(2, name)]) for name in (5, 6, 7)),
             *(field(6, text) for text in STRINGS)]
    path.write_bytes(gzip.compress(b"".join(parts)))


def test_judges_pprof_samples_of_one_process(tmp_path):
    path = tmp_path / "peer.pb.gz"
    write_pprof(path, [sample((1, 2), (900, 3), 4711), sample((3, 2), (10, 4), 4711),
                       sample((1,), (500, 5), 4711), sample((1, 2), (70, 70), 1)])
    assert figures(recorded_stacks.of_file(path, WORKLOAD)) == (12, 7, 8, 3 * 3 + 4 * 2 + 5 * 2)


@pytest.mark.parametrize("data", [b"\x1f\x8b", gzip.compress(b""), gzip.compress(b"\x0a\x7f"), b"",
                                  gzip.compress(b"text")])
def test_refuses_unknown_formats(tmp_path, data):
    path = tmp_path / "peer.pb.gz"
    path.write_bytes(data)
    with pytest.raises(Unreadable):
        recorded_stacks.of_file(path, WORKLOAD)


# ---- a peer ------------------------------------------------------------------------------------

def run_peer(folder, command, stacks_file):
    peer = Peer(folder, 99, command, stacks_file)
    peer.start(os.getpid())
    time.sleep(0.3)
    peer.stop()
    return peer.stacks(os.getpid())


def test_reads_peer_stacks_after_exit(tmp_path):
    command = "trap 'sleep 0.2; echo \"{pid};_start;f 7\" > out-{pid}; exit' INT; while :; do sleep 0.1; done"
    assert figures(run_peer(tmp_path, command, "out-{pid}")) == (7, 7, 7, 14)


def test_ignores_stale_peer_files(tmp_path):
    old = tmp_path / "out"
    old.write_text("_start;f 1\n")
    os.utime(old, (1, 1))
    with pytest.raises(Unreadable, match="has not written"):
        run_peer(tmp_path, "sleep 30", str(old))


def test_peer_without_file_has_no_stacks(tmp_path):
    with pytest.raises(Unreadable, match="PEER_STACKS"):
        run_peer(tmp_path, "sleep 30", None)
