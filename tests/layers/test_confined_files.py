# SPDX-License-Identifier: Apache-2.0
"""Who reads the bytes of debug files: in the collector only tasks of confined processes do."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFINED = {"debug_elf.c", "elf_process.c", "file_tasks.c"}


def test_only_tasks_read_debug_files():
    parsers = re.compile(r"\b(debug_elf|dwarf_lines)_\w+\(|\belf_begin\(|\bdemangle\(")
    readers = {path.name for path in (ROOT / "collector").rglob("*.c") if parsers.search(path.read_text())}
    assert readers == CONFINED


def test_tasks_are_only_run_by_the_launcher():
    for name in CONFINED - {"debug_elf.c"}:
        text = (ROOT / "collector/symbols" / name).read_text()
        # Whoever may be called from elsewhere is declared in a header: nothing that reads bytes is.
        for function in re.findall(r"^(?!static)\w[\w *]*?\b(\w+)\([^;]*?\)\n\{(.*?)^\}", text, re.M | re.S):
            assert not re.search(r"\b(debug_elf|dwarf_lines)_\w+\(", function[1]), function[0]
