# SPDX-License-Identifier: Apache-2.0
"""Unwind tables of a dozen files against what readelf and llvm-dwarfdump read there.

`make differential` does it for every executable and library of the machine.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import compare
import tables

PROGRAMS = Path(os.environ.get("DIFFERENTIAL", tables.ROOT / "build/tests/differential"))
PROGRAM = PROGRAMS / "print_table"
COUNT = 1500
SOURCE = """
#include <pthread.h>
#include <stdio.h>
#include <string.h>
void fill(char *to, unsigned long size);
void fill(char *to, unsigned long size) { char copy[size]; memset(copy, 1, size); memcpy(to, copy, size); }
static void *run(void *x) { char a[70000]; fill(a, sizeof(a)); puts(a); return x; }
int main(void) { pthread_t t; pthread_create(&t, 0, run, 0); pthread_join(t, 0); return 0; }
"""

PATTERNS = {
    "libc": "/lib/*-linux-gnu/libc.so.6",
    "loader": "/lib/*-linux-gnu/ld-linux-*.so.*",
    "libcrypto": "/usr/lib/*-linux-gnu/libcrypto.so.3",
    "libstdc++": "/usr/lib/*-linux-gnu/libstdc++.so.6",
    "libm": "/lib/*-linux-gnu/libm.so.6",
    "bash": "/bin/bash",
    "compiler": "/usr/lib/gcc/*-linux-gnu/*/cc1",
    "debugger's reader": "/usr/bin/readelf",
    "libpython": "/usr/lib/*-linux-gnu/libpython3.*.so.1.0",
    "python": os.path.realpath(sys.executable),
    "rust": os.path.expanduser("~/.cargo/bin/rustup"),
    "go": "/usr/local/go/bin/gofmt",
    "aarch64 libc": "/usr/aarch64-linux-gnu/lib/libc.so.6",
    "aarch64 loader": "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1",
    "musl": "/lib/ld-musl-*.so.1",
}


def check(path, least=100):
    result = tables.compare(PROGRAM, path, COUNT)
    for what, times in result.unsupported.items():
        print(f"not supported: {times} times {what}")
    assert not result.disagreements
    assert result.compared >= least
    return result


@pytest.mark.parametrize("name", PATTERNS)
def test_table_matches_readers(name):
    paths = sorted(glob.glob(PATTERNS[name]))
    if not paths:
        pytest.skip(f"no {PATTERNS[name]} here")
    # Go's and musl's are stripped of nearly all.
    check(paths[-1], least=0 if name in ("go", "musl") else 100)


def test_table_matches_readers_for_vdso(tmp_path):
    maps = Path("/proc/self/maps").read_text()
    start, limit = (int(text, 16) for text in
                    re.search(r"([0-9a-f]+)-([0-9a-f]+) .*\[vdso\]", maps).groups())
    with open("/proc/self/mem", "rb") as memory:
        memory.seek(start)
        (tmp_path / "vdso").write_bytes(memory.read(limit - start))
    check(tmp_path / "vdso")


def compile_to(path, compiler, *options):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler} here")
    (path.parent / "source.c").write_text(SOURCE)
    subprocess.run([compiler, *options, str(path.parent / "source.c"), "-o", str(path)], check=True)


@pytest.mark.parametrize("compiler", ["gcc", "clang", "musl-gcc", "aarch64-linux-gnu-gcc"])
@pytest.mark.parametrize("options", [
    ("-O0",), ("-O3", "-fomit-frame-pointer"), ("-O2", "-static"),
    ("-O2", "-g", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
    ("-O2", "-g", "-gz", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-static")],
    ids=" ".join)
def test_table_matches_readers_for_compilers(tmp_path, compiler, options):
    compile_to(tmp_path / "program", compiler, *options, "-pthread")
    check(tmp_path / "program")


def test_table_matches_readers_for_go(tmp_path):
    if not shutil.which("go"):
        pytest.skip("no go here")
    (tmp_path / "main.go").write_text('package main\nimport "fmt"\nfunc main() { fmt.Println(1) }\n')
    subprocess.run(["go", "build", "-o", str(tmp_path / "main"), str(tmp_path / "main.go")],
                   check=True, env={**os.environ, "GOCACHE": str(tmp_path / "cache"),
                                    "GOFLAGS": "-mod=mod"})
    check(tmp_path / "main", least=1000)


@pytest.mark.parametrize("name", ["libcrypto", "libstdc++"])
def test_section_headers_make_no_difference(tmp_path, name):
    """The readers need them; rules of described code must not change when they are gone. In libc one would: where
    coroutines begin is found by the symbol makecontext. Other code is followed from where symbols say."""
    path = sorted(glob.glob(PATTERNS[name]))[-1]
    image = bytearray(Path(path).read_bytes())
    image[40:48] = bytes(8)  # e_shoff
    image[58:64] = bytes(6)  # e_shentsize, e_shnum, e_shstrndx
    (tmp_path / "stripped").write_bytes(image)
    code = tables.Code(tables.Elf(path), tables.read_readelf(path))
    addresses = [function.start + offset for function in code.functions for offset in (0, 5)]
    _, rules = tables.print_table(PROGRAM, path, addresses)
    assert rules == tables.print_table(PROGRAM, tmp_path / "stripped", addresses)[1]
    assert len(rules) > 1000


STEPPED = [("gcc", "-O2"), ("clang", "-O3", "-fomit-frame-pointer"), ("musl-gcc", "-O2"),
           ("musl-gcc", "-O0", "-g", "-fno-asynchronous-unwind-tables")]


def step(path):
    """What step_stack counted: {"steps": 590000, "disagreements": 0, ...}, and what it printed."""
    result = subprocess.run([PROGRAMS / "step_stack", path], capture_output=True, text=True)
    words = result.stdout.splitlines()[-1].split()
    return dict(zip(words[::2], map(int, words[1::2]))), result.stdout


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="step_stack knows x86-64 only")
@pytest.mark.parametrize("options", STEPPED, ids=" ".join)
def test_rules_unwind_at_each_instruction(tmp_path, options):
    if not shutil.which(options[0]):
        pytest.skip(f"no {options[0]} here")
    source = Path(__file__).parent / "many_calls.c"
    subprocess.run([*options, "-static", str(source), "-o", str(tmp_path / "program"), "-lm",
                    "-pthread"], check=True)
    counts, text = step(tmp_path / "program")
    assert counts["steps"] > 100000
    # How long threads spin at each other differs from run to run.
    assert counts["without_rule"] < counts["steps"] / 50, text
    # glibc's __mpn_addmul_1 and gcc's epilogues of aligned frames are described wrongly.
    assert counts["disagreements"] < counts["checked"] / 10000, text


def test_notices_wrong_rule(monkeypatch):
    right = tables.print_table

    def wrong(program, path, addresses):
        sizes, rules = right(program, path, addresses)
        return sizes, [rule.replace("cfa=7+8 ", "cfa=7+16 ") for rule in rules]

    monkeypatch.setattr(tables, "print_table", wrong)
    assert len(tables.compare(PROGRAM, "/bin/bash", COUNT).disagreements) > COUNT / 10


def test_finds_each_file_once(tmp_path):
    shutil.copy("/bin/true", tmp_path / "one")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "text").write_text("not ELF")
    assert list(compare.find_files([str(tmp_path)])) == [str(tmp_path / "one")]
