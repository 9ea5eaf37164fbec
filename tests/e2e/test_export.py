# SPDX-License-Identifier: Apache-2.0
"""Exported files, read by programs that are not ours where they are installed: pprof (Go), callgrind_annotate (Valgrind),
Python's pstats. speedscope and Chrome traces are checked by their formats' rules."""
import collections
import json
import pstats
import re
import shutil
import subprocess
import time

import pytest

from fleet import program, workload_argv

CAIRN = program("cairn")
SUFFIXES = ("pb.gz", "speedscope.json", "callgrind", "pstats")
FUNCTIONS = ("burn_alpha", "burn_beta_callee", "burn_gamma")


def run(*arguments):
    return subprocess.run([*map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module", name="files")
def merged_files(fleet, runs, tmp_path_factory):
    """A service in all formats without time, and the functions' totals by the API, in nanoseconds."""
    folder = tmp_path_factory.mktemp("export")
    service = runs["c"].service
    for suffix in SUFFIXES:
        done = run(CAIRN, "query", "--collector-http", fleet.api.base, service, "--from", "now-1h",
                   "-o", folder / f"c.{suffix}")
        assert done.returncode == 0, done
    top = json.loads(fleet.api.fetch("/api/v1/top", query=service, **{"from": "now-1h", "limit": 1000}))
    totals = {row["name"]: row["total"] for row in top["rows"]}
    assert set(FUNCTIONS) <= set(totals)
    return folder, totals, top["total"]


@pytest.mark.skipif(not shutil.which("go"), reason="Go's pprof is not installed")
def test_go_pprof_reads_pprof(files):
    folder, totals, total = files
    done = run("go", "tool", "pprof", "-top", "-cum", "-unit=ns", "-nodecount=10000", "-nodefraction=0",
               folder / "c.pb.gz")
    assert done.returncode == 0, done
    cumulative = {}
    for line in done.stdout.splitlines():
        match = re.match(r"\s*\S+\s+\S+%\s+\S+%\s+(\d+)ns\s+\S+%\s+(.*)$", line)
        if match:
            cumulative[match[2]] = int(match[1])
    assert re.search(rf"of {total}ns total", done.stdout), done.stdout[:400]
    for name in FUNCTIONS:
        assert cumulative[name] == totals[name], name


@pytest.mark.skipif(not shutil.which("callgrind_annotate"), reason="Valgrind is not installed")
def test_callgrind_annotate_reads_callgrind(files):
    folder, totals, total = files
    done = run("callgrind_annotate", "--inclusive=yes", "--threshold=100", "--show-percs=no", folder / "c.callgrind")
    assert done.returncode == 0 and not done.stderr, done
    assert re.search(rf"^ *{total:,} .*PROGRAM TOTALS", done.stdout, re.MULTILINE), done.stdout[:800]
    for name in FUNCTIONS:
        match = re.search(rf"^ *([\d,]+)\s+\S+:{name}(?: |$)", done.stdout, re.MULTILINE)
        assert match and int(match[1].replace(",", "")) == totals[name], name


def test_python_reads_pstats(files):
    folder, totals, total = files
    stats = pstats.Stats(str(folder / "c.pstats"))
    assert stats.total_tt == pytest.approx(total / 1e9)
    by_name = {name: entry for (_, _, name), entry in stats.stats.items()}
    for name in FUNCTIONS:
        assert by_name[name][3] == pytest.approx(totals[name] / 1e9), name
    callers = {name for _, _, name in by_name["burn_beta_callee"][4]}
    assert callers == {"burn_beta"}


def test_speedscope_file_keeps_its_format(files):
    folder, totals, total = files
    root = json.loads((folder / "c.speedscope.json").read_text())
    assert root["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = [frame["name"] for frame in root["shared"]["frames"]]
    [profile] = root["profiles"]
    assert len(profile["samples"]) == len(profile["weights"])
    assert profile["endValue"] == sum(profile["weights"]) == total
    sums = collections.Counter()
    for sample, weight in zip(profile["samples"], profile["weights"]):
        assert frames[sample[0]] == "burn_c"
        for name in {frames[number] for number in sample}:
            sums[name] += weight
    for name in FUNCTIONS:
        assert sums[name] == totals[name], name


def read_slices(root):
    """{thread name: {function: nanoseconds}}; slices nest, and time does not go back."""
    threads, open_slices, last = {}, collections.defaultdict(list), collections.Counter()
    sums = collections.defaultdict(collections.Counter)
    for event in root["traceEvents"]:
        tid = event["tid"]
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                threads[tid] = event["args"]["name"]
            continue
        assert event["ts"] >= last[tid], event
        last[tid] = event["ts"]
        if event["ph"] == "B":
            open_slices[tid].append(event)
            continue
        begin = open_slices[tid].pop()
        if begin["name"] not in (outer["name"] for outer in open_slices[tid]):
            sums[threads[tid]][begin["name"]] += round((event["ts"] - begin["ts"]) * 1000)
    assert not any(open_slices.values())
    return sums


def test_collector_writes_a_timeline(fleet, runs):
    service = runs["c"].service
    arguments = {"query": service, "from": "now-1h"}
    sums = read_slices(json.loads(fleet.api.fetch("/api/v1/merge", format="chrome", **arguments)))
    top = json.loads(fleet.api.fetch("/api/v1/top", limit=1000, **arguments))
    totals = {row["name"]: row["total"] for row in top["rows"]}
    for name in FUNCTIONS:
        assert sum(thread[name] for thread in sums.values()) == totals[name], name


def test_record_keeps_time_order(tmp_path):
    path = tmp_path / "burn.trace.json"
    began = time.monotonic()
    done = run(CAIRN, "record", "-o", path, "--", *workload_argv("burn_c", "--seconds", "1"))
    took_s = time.monotonic() - began
    assert done.returncode == 0 and "wrote" in done.stderr, done
    truth = json.loads(done.stdout)
    root = json.loads(path.read_text())
    sums = read_slices(root)
    for name, ns in truth["functions"].items():
        measured = sum(thread[name] for thread in sums.values())
        assert measured / 1e9 == pytest.approx(ns / 1e9, abs=0.15), name
    ends = [event["ts"] for event in root["traceEvents"] if event["ph"] == "E"]
    assert 0.7e6 < max(ends) < took_s * 1e6, "as long as it ran"


@pytest.mark.parametrize("arguments,words", [
    (["-o", "x.json"], [".speedscope.json", ".pstats"]),
    (["-o", "x", "--format", "exe"], ["--format", "is not one of collapsed, svg"]),
])
def test_query_explains_formats(arguments, words):
    done = run(CAIRN, "query", *arguments)
    assert done.returncode == 2, done
    for word in words:
        assert word in done.stderr, done.stderr
