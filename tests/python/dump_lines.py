# SPDX-License-Identifier: Apache-2.0
"""Write the line table of every code object of this interpreter's standard library, and which line
this interpreter says each instruction is on. For tests/unit/agent/python/test_python_line_table.c, which reads
the tables itself and compares. Runs on CPython 3.6 and newer.

usage: dump_lines.py quick|full > tables

A record: int32 first line, uint32 bytes of table, uint32 runs, the table, then per run uint32 code
units (of 2 bytes), int32 line (0: none). Little-endian.
"""
import importlib.util
import marshal
import os
import struct
import sys
import types
import warnings

QUICK_FILES = 12  # of the standard library, evenly spread
CHECKS_MAX = 2000  # of one code object: each takes time in proportion to its table
PYC_HEADER_BYTES = 12 if sys.version_info < (3, 7) else 16  # PEP 552

# What the standard library does not have: long distances, going back, one line per token, no end.
MADE_UP = [
    "def f():\n" + "\n" * 40000 + "    return g()\nx = 1\n",
    "def f(a):\n    return [\n" + "".join("        a + %d,\n" % i for i in range(5000)) + "    ]\n",
    "def f(a):\n" + "".join("    a = a.b%d(a)\n" % i for i in range(6000)),
    "x = (" + "a +\n\n" * 300 + "a)\n",
    "def f(a, b):\n    return (\n        a\n        .b(\n            c=a if b else\n            b)\n        [a:\n         b])\n",
    "@d(1,\n   2)\n@e\nclass C:\n    'doc'\n    @p\n    def f(self): return lambda: (yield)\n",
    "async def f():\n    async with a as b, \\\n            c as d:\n        async for i in b:\n            await i\n",
    "def f():\n    try:\n        g()\n    except E as e:\n        h(\n          e)\n    finally:\n        i()\n    while 1:\n        if j(): continue\n        break\n",
    "for i in range(3): [j for j in i if\n\n j]; {k: v\n for k in i}\n",
    "",
]


def code_objects(code):
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from code_objects(const)


def units_by_starts(code):
    """Up to 3.9: dis has the start of each line; the last one goes on to the end."""
    import dis

    units = [0] * (len(code.co_code) // 2)
    starts = list(dis.findlinestarts(code)) + [(len(code.co_code), 0)]
    for (start, line), (limit, _) in zip(starts, starts[1:]):
        for i in range(start // 2, limit // 2):
            units[i] = line
    # Before the first start it is the function's first line (dis leaves that out if it is empty).
    for i in range(0, starts[0][0] // 2):
        units[i] = code.co_firstlineno
    return units


def units_by_lines(code):
    """Since 3.10: ranges in bytes."""
    units = [0] * (len(code.co_code) // 2)
    for start, limit, line in code.co_lines():
        for i in range(start // 2, limit // 2):
            units[i] = line or 0
    return units


def units_of(code):
    if not hasattr(code, "co_lines"):
        return units_by_starts(code)
    units = units_by_lines(code)
    if hasattr(code, "co_positions"):
        positions = [position[0] or 0 for position in code.co_positions()]
        # Since 3.13 there is a position for what follows too.
        assert positions[: len(units)] == units, (code, "co_positions and co_lines differ")
    return units


def check_with_tracebacks(code, units):
    """The computation of f_lineno must agree with dis."""
    try:
        import ctypes
    except ImportError:
        return
    function = ctypes.pythonapi.PyCode_Addr2Line
    function.argtypes = [ctypes.py_object, ctypes.c_int]
    step = 1 + len(units) // CHECKS_MAX
    for i in range(0, len(units), step):
        said = function(code, 2 * i)
        assert max(said, 0) == units[i], (code, i, said, units[i])


def record(code):
    units = units_of(code)
    table = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
    runs = []
    for line in units:
        if runs and runs[-1][1] == line:
            runs[-1][0] += 1
        else:
            runs.append([1, line])
    head = struct.pack("<iII", code.co_firstlineno, len(table), len(runs))
    return head + bytes(table) + b"".join(struct.pack("<Ii", *run) for run in runs)


def library_files():
    """The standard library's sources."""
    for folder, folders, files in os.walk(os.path.dirname(os.__file__)):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                yield os.path.join(folder, name)


def load(path):
    """The module's code as it was compiled at installation, or as it is compiled now."""
    try:
        with open(importlib.util.cache_from_source(path), "rb") as file:
            return marshal.loads(file.read()[PYC_HEADER_BYTES:])
    except OSError:
        pass
    try:
        with open(path, "rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(file.read(), path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):  # files that tests of parsers want to be wrong
        return None


def main():
    quick = sys.argv[1] == "quick"
    paths = list(library_files())
    if quick:
        paths = paths[:: max(1, len(paths) // QUICK_FILES)]
    for text in MADE_UP:
        for code in code_objects(compile(text, "made-up", "exec")):
            check_with_tracebacks(code, units_of(code))
            sys.stdout.buffer.write(record(code))
    for path in paths:
        module = load(path)
        for code in code_objects(module) if module else ():
            if quick:
                check_with_tracebacks(code, units_of(code))
            sys.stdout.buffer.write(record(code))


if __name__ == "__main__":
    main()
