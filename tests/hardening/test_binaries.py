# SPDX-License-Identifier: Apache-2.0
"""How the programs were compiled and linked, as the binaries say."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
PROGRAMS = ["cairn", "cairn-agent", "cairn-collector"]
# The start of a function that indirect calls may reach: endbr64, or bti c (or paciasp, which is one, too).
LANDINGS = {"Advanced Micro Devices X86-64": [bytes.fromhex("f30f1efa")],
            "AArch64": [bytes.fromhex("5f2403d5"), bytes.fromhex("3f2303d5")]}


def readelf(program, *flags):
    return subprocess.run(["readelf", "-W", *flags, BUILD / program], check=True, capture_output=True,
                          text=True).stdout


@pytest.fixture(params=PROGRAMS)
def program(request):
    if "__asan_init" in readelf(request.param, "--dyn-syms"):
        pytest.skip("sanitizers have checks of their own")
    return request.param


def imports(program):
    return re.findall(r" UND (\w+)", readelf(program, "--dyn-syms"))


def test_is_loaded_anywhere(program):
    assert re.search(r"Type:\s+DYN", readelf(program, "-h"))
    assert re.search(r"FLAGS_1.*\bPIE\b", readelf(program, "-d"))


def test_tables_of_the_linker_are_read_only(program):
    segments = readelf(program, "-l")
    assert "GNU_RELRO" in segments
    assert re.search(r"FLAGS_1.*\bNOW\b", readelf(program, "-d"))


def test_neither_stack_nor_code_is_writable_code(program):
    segments = readelf(program, "-l")
    assert re.search(r"GNU_STACK.* RW  ", segments)
    assert "RWE" not in segments


def test_own_code_was_compiled_so(program):
    units = re.findall(r"DW_AT_producer.*: (GNU C11 .*)", readelf(program, "--debug-dump=info", "--dwarf-depth=1"))
    own = [unit for unit in units if "-std=gnu11" in unit]
    assert len(own) > 10
    for unit in own:
        assert "-fstack-protector-strong" in unit and re.search("-fcf-protection|-mbranch-protection", unit), unit


def test_copies_are_checked(program):
    checked = [name for name in imports(program) if re.fullmatch(r"__\w+_chk", name)]
    # memcpy() and snprintf() are everywhere; level 3 knows the sizes of more objects than level 2.
    assert {"__memcpy_chk", "__snprintf_chk"} <= set(checked), checked


def read_code(program, address, size):
    for line in readelf(program, "-l").splitlines():
        found = re.match(r"\s+LOAD\s+(\w+) (\w+) \w+ (\w+)", line)
        if not found:
            continue
        offset, start, length = (int(number, 16) for number in found.groups())
        if start <= address < start + length:
            with open(BUILD / program, "rb") as file:
                file.seek(offset + address - start)
                return file.read(size)
    raise AssertionError(f"{address:#x} is nowhere")


def test_functions_begin_where_calls_may_land(program):
    machine = re.search(r"Machine:\s+(.*)", readelf(program, "-h")).group(1)
    address = int(re.search(r"([0-9a-f]+) +\d+ FUNC +GLOBAL +DEFAULT +\d+ main\b",
                            readelf(program, "-s")).group(1), 16)
    assert read_code(program, address, 4) in LANDINGS[machine]
