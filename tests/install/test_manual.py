# SPDX-License-Identifier: Apache-2.0
"""Man pages are sound and name every flag; bash completes them."""
import os
import re
import subprocess

import pytest
from installation import BUILD, PAGES, PROGRAMS, flags_of, run


def page_text(program):
    page = BUILD / "man" / PAGES[program]
    text = run("man", "--warnings", "-l", page, env={**os.environ, "MANWIDTH": "1000", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": ""})
    return re.sub(".\b", "", text)


@pytest.mark.parametrize("page", PAGES.values())
def test_man_pages_are_sound(page):
    path = BUILD / "man" / page
    shown = subprocess.run(["man", "--warnings", "-l", path], capture_output=True, text=True, check=True,
                           env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert shown.stderr == ""
    run("mandoc", "-T", "lint", "-W", "warning", path)


@pytest.mark.parametrize("program", PROGRAMS)
def test_man_pages_name_every_flag(program):
    text = page_text(program)
    shown = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", text, re.M))
    commands = re.findall(r"^  ([a-z][a-z-]*) ", run(BUILD / program, "--help"), re.M) if program == "cairn" else []
    expected = flags_of(program).union(*(flags_of(program, command) for command in commands))
    assert len(expected) > 20 and expected <= shown, expected - shown
    for command in commands:
        assert re.search(rf"^   {command}$", text, re.M), command


def complete(*words):
    script = f"source {BUILD}/man/cairn.bash; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _cairn; echo ${{COMPREPLY[@]}}"
    return set(run("bash", "-c", script).split())


def test_bash_completes_commands_and_flags():
    assert complete("cairn", "d") == {"dump", "diagnose", "diff", "delete", "doctor"}
    assert {"--tls-ca", "--tls-cert", "--tls-key"} == complete("/usr/bin/cairn-agent", "--tls")
    assert complete("cairn", "doctor", "--tok") == complete("cairn", "query", "--tok") == {"--token-file"}
