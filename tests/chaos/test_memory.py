# SPDX-License-Identifier: Apache-2.0
"""Heavy queries at a time stay within --memory: they are answered, or refused with the limit's name."""
import concurrent.futures
import pathlib
import re
import urllib.error
import urllib.parse
import urllib.request

import pytest

from chaos import Load, Victim
from fleet import CPU

AT_A_TIME = 6
MEMORY_MIB = 256
ANSWER_SECONDS = 90  # queries end after 30, and may wait for one before

QUERIES = {
    **{name: ("/api/v1/merge", {"format": name})
       for name in ("chrome", "speedscope", "pprof", "collapsed", "svg", "callgrind", "pstats")},
    "tree": ("/api/v1/merge", {"max_nodes": 100000}),
    "top": ("/api/v1/top", {"group_by": "node"}),
    "series": ("/api/v1/series", {"step": "1s", "group_by": "node"}),
    "heatmap": ("/api/v1/heatmap", {}),
    "timeline": ("/api/v1/timeline", {"type": None}),
    "diff": ("/api/v1/diff", {"against_from": "now-10m", "against_to": "now-3s"}),
    "diff folded": ("/api/v1/diff", {"against_from": "now-10m", "against_to": "now-3s", "format": "collapsed"}),
    "spikes": ("/api/v1/spikes", {}),
    "diagnose": ("/api/v1/diagnose", {"type": None}),
    "render": ("/pyroscope/render", None),
}


def reset_peak(victim):
    pathlib.Path(f"/proc/{victim.process.pid}/clear_refs").write_text("5", encoding="utf-8")


def peak_mib(victim):
    text = pathlib.Path(f"/proc/{victim.process.pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1024


def ask(victim, path, arguments):
    """Returns the status and the message of a refusal."""
    url = f"http://{victim.http}{path}?{urllib.parse.urlencode(arguments)}"
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
            answer.read()
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.alone
def test_heavy_queries_stay_within_memory(tmp_path, keep):
    victim = keep(Victim(tmp_path, flags=["--memory", f"{MEMORY_MIB}MiB", "--http-threads", str(AT_A_TIME)]))
    victim.start()
    load = keep(Load(victim.grpc, 6, "--agents", "10", "--samples", "10000", "--stacks", "4000", "--name-bytes", "60"))
    load.check(victim)
    common = {"query": load.selector(), "type": CPU, "from": "now-10m", "to": "now"}
    seen, unclear = {}, []
    for name, (path, more) in QUERIES.items():
        arguments = {key: value for key, value in {**common, **(more or {})}.items() if value is not None}
        if more is None:
            arguments = {"query": CPU + load.selector(), "from": "now-10m", "until": "now"}
        reset_peak(victim)
        with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
            answers = list(pool.map(lambda _: ask(victim, path, arguments), range(AT_A_TIME)))  # pylint: disable=cell-var-from-loop
        alone, message = ask(victim, path, arguments)
        assert alone in (200, 413, 429), f"{name} is refused without another beside it: {alone} {message}"
        seen[name] = (round(peak_mib(victim)), sorted(status for status, _ in answers))
        unclear += [(name, status, message) for status, message in answers
                    if status != 200 and (status not in (413, 429, 503) or "--memory" not in message)]
    print(seen)
    assert all(peak <= MEMORY_MIB for peak, _ in seen.values()), seen
    assert not unclear
    load.check(victim)
