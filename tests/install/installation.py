# SPDX-License-Identifier: Apache-2.0
"""What the tests of an installation share."""
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
PROGRAMS = ("cairn", "cairn-agent", "cairn-collector")
PAGES = {"cairn": "cairn.1", "cairn-agent": "cairn-agent.8", "cairn-collector": "cairn-collector.8"}


def run(*command, **options):
    """What a command prints; it succeeds."""
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, **options).stdout


def make(target, folder, *variables):
    """`make install` or `make uninstall` of the build that is tested."""
    # BUILD in the same words: it is one of the flags whose change compiles all anew.
    run("make", "--jobs=1", target, f"BUILD={os.environ.get('BUILD', 'build')}", f"DESTDIR={folder}", *variables)


def flags_of(*words):
    """Flags that --help describes."""
    lines = run(BUILD / words[0], *words[1:], "--help").splitlines()
    return {word for line in lines if re.match(r" +(-\w, )?--\w", line) for word in re.findall(r"--[a-z][\w-]*", line)[:1]}
