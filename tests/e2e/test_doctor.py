# SPDX-License-Identifier: Apache-2.0
"""`cairn doctor`: what it says of this machine, and of one where something is missing."""
import re
import subprocess

import pytest

from fleet import free_port, program, with_capabilities
from secure_collector import SecureCollector

SIX = ("bpf", "perfmon", "sys_ptrace", "syslog", "checkpoint_restore", "dac_read_search")
# Without one of these nothing can be profiled; without another something has no name.
NEEDED = ("bpf", "perfmon", "sys_ptrace")


def examine(*settings, prefix=()):
    """(exit status, {subject: (finding, text)}, last line)"""
    done = subprocess.run([*prefix, program("cairn"), "doctor", "--cache", "none", *settings],
                          capture_output=True, text=True, timeout=120, check=False)
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    found = [re.match(r"(ok|note|warning|FAILED) +(.+?)  +(.*)|(ok|note|warning|FAILED) +(.{14}) (.*)", line).groups()
             for line in lines[:-1]]
    rows = [(a or d, (b or e).strip(), c or f) for a, b, c, d, e, f in found]
    return done.returncode, rows, lines[-1]


def test_finds_nothing_wrong_here(collector, tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("- {source_labels: [namespace], regex: test-.*, action: drop}\n")
    status, rows, last = examine("--collector", collector.grpc, "--relabel", str(rules))
    assert ("ok", "relabel", f"{rules}, 1 rule") in rows
    assert [row for row in rows if row[0] == "FAILED"] == []
    assert {"kernel", "BTF", "capabilities", "sampling", "collector"} <= {subject for word, subject, _ in rows if word == "ok"}
    assert last.startswith("This node can be profiled; 0 failed")
    assert status == 0


def test_names_a_collector_that_is_away():
    address = f"127.0.0.1:{free_port()}"
    status, rows, last = examine("--collector", address)
    (line,) = [text for word, subject, text in rows if word == "FAILED"]
    assert line.startswith(f"{address} does not answer: Connection refused; ")
    assert "reach no collector" in last
    assert status == 1


def test_names_a_wrong_relabel_rule(tmp_path):
    rules = tmp_path / "rules.yaml"
    rules.write_text("- source_labels: [pod]\n  target_label: node\n")
    status, rows, last = examine("--collector", f"127.0.0.1:{free_port()}", "--relabel", str(rules))
    assert ("FAILED", "relabel", f'{rules}:2: target_label: "node" is cairn\'s own label; set another, or remove it by labeldrop') in rows
    assert last.startswith("This node cannot be profiled; 2 failed")
    assert status == 1


def test_names_a_token_that_is_refused(tmp_path):
    wrong = tmp_path / "token"
    wrong.write_text("cairn.nobody.0123456789abcdef0123456789abcdef\n")
    with SecureCollector(tmp_path) as collector:
        status, rows, _ = examine("--collector", collector.grpc, "--token-file", str(wrong))
        good, rows_of_good, _ = examine("--collector", collector.grpc, "--token-file",
                                        str(collector.new_token("agents", "ingest")))
    (line,) = [text for word, subject, text in rows if word == "FAILED"]
    assert line.startswith(f"{collector.grpc} refuses profiles of this agent: ")
    assert status == 1
    assert ("ok", "collector", f"{collector.grpc} accepts this agent's profiles") in rows_of_good
    assert good == 0


@pytest.mark.parametrize("missing", SIX)
def test_names_a_missing_capability(collector, missing):
    """By name, with what is lost; where it is a name only, the node is profiled."""
    has = [f"+{name}" for name in SIX if name != missing]
    status, rows, _ = examine("--collector", collector.grpc, prefix=with_capabilities(*has))
    said = [(word, text) for word, subject, text in rows if subject == "capabilities"]
    name = f"CAP_{missing.upper()} is missing: "
    (word,) = [word for word, text in said if text.startswith(name)]
    assert word == ("FAILED" if missing in NEEDED else "warning")
    assert [text for word, text in said if word != "note" and not text.startswith(name)] == []
    assert status == (1 if missing in NEEDED else 0)
    if missing not in NEEDED:
        assert "ok" in [word for word, subject, _ in rows if subject == "sampling"]
