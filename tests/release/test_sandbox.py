# SPDX-License-Identifier: Apache-2.0
"""The units' lists of system calls: they have each call that the programs made, their readers of debug files too."""
import re
import subprocess

import roots

SECONDS = 10


def groups():
    """Names of calls by systemd's group."""
    found, name = {}, None
    for line in subprocess.run(["systemd-analyze", "syscall-filter"], check=True, capture_output=True, text=True).stdout.splitlines():
        if line.startswith("@"):
            name = line.strip()
            found[name] = set()
        elif line.strip() and not line.strip().startswith("#"):
            found[name].add(line.strip())
    return found


def allowed_by(unit):
    """Calls that the lines SystemCallFilter= allow, one after the other."""
    known, allowed = groups(), set()

    def expand(word):
        return set().union(*map(expand, known[word])) if word.startswith("@") else {word}
    for removed, words in re.findall(r"^SystemCallFilter=(~?)(.*)$", (roots.ROOT / "deploy/systemd" / unit).read_text(), re.M):
        listed = set().union(*map(expand, words.split()))
        allowed = allowed - listed if removed else allowed | listed
    return allowed


def calls_in(trace):
    """Of all processes and threads in strace's output."""
    return set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)", trace.read_text(errors="replace"), re.M))


def test_units_allow_all_calls_made(tmp_path):
    address, program = f"127.0.0.1:{roots.free_port()}", roots.BUILD / "release"

    def traced(name, seconds, *arguments):
        # timeout's signal reaches its whole group: the program, too, which strace would leave running.
        return subprocess.Popen(["timeout", "--signal=TERM", str(seconds), "strace", "-f", "-qq", "-o", tmp_path / name,
                                 program / f"cairn-{name}", *arguments])
    collector = traced("collector", 2 * SECONDS, "--data", tmp_path / "data", "--grpc", address, "--http", f"127.0.0.1:{roots.free_port()}")
    agent = traced("agent", SECONDS, "--collector", address, "--lines", "--admin", f"127.0.0.1:{roots.free_port()}",
                   "--cache", tmp_path / "cache", "--spool-dir", tmp_path / "spool")
    agent.wait()
    collector.wait()
    for service in ("agent", "collector"):
        made = calls_in(tmp_path / service)
        assert len(made) > 50 and made <= allowed_by(f"cairn-{service}.service"), made - allowed_by(f"cairn-{service}.service")
