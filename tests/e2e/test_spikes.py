# SPDX-License-Identifier: Apache-2.0
"""`cairn spikes` on a quarter of an hour of stored CPU time with one burst, sent in one batch; and on one real fault after it. Ten
real faults after real quiet: tests/scenarios."""
import json
import os
import subprocess
import sys
import time

from export_client import SLOT_NS, call, hash128, number, text, varint
from fleet import ROOT, program, unique, wait_until

sys.path.append(str(ROOT / "tests/scenarios"))
from fleet_of_faults import Pod  # noqa: E402 pylint: disable=wrong-import-position

SECONDS = 900
BURST_AGO_S, BURST_S = 120, 5
USUAL_NS, BURST_NS = 100_000_000, 40_000_000  # in a slot of each second; in each slot of the burst: 2 cores


FAULT_S, ARRIVES_S = 3, 30


def quarter_of_an_hour(service, has_burst=True):
    """A batch: a tenth of a core, and for some seconds two more, if it @has_burst."""
    now = time.time_ns()
    last = now // SLOT_NS - 50
    values = {last - 50 * second: USUAL_NS for second in range(SECONDS)}
    burst = last - 50 * BURST_AGO_S
    values.update({burst + slot: BURST_NS for slot in range(50 * BURST_S) if has_burst})
    slots = sorted(values)
    deltas = [0, *(after - before for before, after in zip(slots, slots[1:]))]
    strings = [b"", b"service", b"process_cpu:cpu:nanoseconds:cpu:nanoseconds", b"/bin/x", service.encode()]
    location = b"l" * 16
    message = b"".join([
        number(13, 1), text(1, os.urandom(16)), text(2, os.urandom(16)), number(3, 1), number(4, SLOT_NS),
        number(5, slots[0] * SLOT_NS), number(6, now), *(text(8, string) for string in strings),
        text(9, hash128(b"\x03\x01" + location)),
        text(10, text(1, location) + number(2, 1) + number(3, 3) + number(5, 4096)),
        text(11, number(1, 0) + text(2, varint(0)) + number(3, 1)),
        text(12, text(1, varint(1)) + text(2, varint(4)) + number(3, 2) + number(4, slots[0])
             + text(5, b"".join(map(varint, deltas))) + text(6, bytes(len(slots)))
             + text(8, b"".join(varint(2 * values[slot]) for slot in slots)))])
    return message, burst * SLOT_NS


def spikes(collector, *words):
    return subprocess.run([program("cairn"), "spikes", "--collector-http", collector.api.base, *words], capture_output=True, text=True,
                          check=False)


def test_spikes_prints_when_and_why(collector):
    message, burst_ns = quarter_of_an_hour("shop")
    assert call(collector.grpc, message) == 0
    shown = spikes(collector, "shop", "--from", "now-5m")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[3].startswith("    cairn query '{service=\"shop\"}' --type cpu --from ") and len(lines) == 5, shown.stdout
    assert lines[4].startswith(f"    {collector.api.base}/?at="), shown.stdout
    assert lines[0].endswith("Z  shop") and lines[0][:10].count("-") == 2
    assert lines[1].startswith("  CPU time: 2.") and "instead of 0.1" in lines[1]
    assert lines[2].endswith(" % of the extra CPU time is `x+0x1000`."), shown.stdout
    asked = subprocess.run(lines[3].replace("cairn ", f"{program('cairn')} ", 1), shell=True, capture_output=True, text=True, check=False)
    assert asked.returncode == 0 and "x+0x1000" in asked.stdout, asked
    found = json.loads(spikes(collector, "shop", "--from", "now-5m", "--json").stdout)["spikes"]
    assert len(found) == 1 and abs(found[0]["from_ns"] - burst_ns) < 10**9 and found[0]["cause"]["leaf"] == "x+0x1000"


def test_spikes_says_that_there_are_none(collector):
    message, _ = quarter_of_an_hour("shop")
    assert call(collector.grpc, message) == 0
    quiet = spikes(collector, "shop", "--from", "now-1m")
    assert quiet.returncode == 0 and quiet.stdout.startswith("No spikes: ")
    unknown = spikes(collector, "shpo")
    assert unknown.returncode == 1 and "shop" in unknown.stderr and unknown.stdout == ""
    wrong = spikes(collector, "shop", "--type", "rss")
    assert wrong.returncode != 0 and "not judged" in wrong.stderr


def test_spikes_names_the_cause_of_a_real_fault(collector, start_agent):
    service = unique("convoy")
    pods = [Pod(service, pod, [program("workloads/lock_convoy")]) for pod in range(2)]
    try:
        start_agent(collector)
        wait_until("samples of both pods", ARRIVES_S,
                   lambda: all(collector.api.total(f'{{instance="{service}-{pod}"}}') for pod in range(2)))
        message, _ = quarter_of_an_hour(service, has_burst=False)
        assert call(collector.grpc, message) == 0
        pods[1].tell(FAULT_S, 0)
        time.sleep(FAULT_S)
        spike = wait_until("the spike", ARRIVES_S, lambda: lock_spike(collector, service))
    finally:
        for pod in pods:
            pod.stop()
    assert "`futex` under `cache_get`" in spike["sentence"] and f"on 1 of 2 instances ({service}-1)" in spike["sentence"], spike


def lock_spike(collector, service):
    """Once it is as long as the fault. That the workers sleep at all is new, too: the quarter of an hour has CPU time only."""
    found = json.loads(spikes(collector, service, "--type", "off-cpu", "--json").stdout)["spikes"]
    return next((spike for spike in found if spike["wait"] == "lock" and spike["extra"] > FAULT_S * 1e9), None)
