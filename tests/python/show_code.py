# SPDX-License-Identifier: Apache-2.0
"""Say where the code objects of this process lie and what is in them, then wait to be read, until
nobody reads our output any more or a minute has passed. For tests/unit/agent/python/test_python_code.c. Runs
on CPython 3.6 and newer.

First a line `process PID MINOR RUNTIME CODE_TYPE`, then for each code object
`ADDRESS ARGCOUNT KWONLYARGCOUNT FLAGS FIRSTLINE CODE CONSTS NAMES <tab> name <tab> file
<tab> units:line,...`, then `end`. Addresses are in hex.
"""
import os
import signal
import sys
import types

from dump_lines import MADE_UP, code_objects, units_of

NAME_BYTES_MAX = 1024
FILE_BYTES_MAX = 4095

TEXT = """
def outer():
    def inner(a, *, b=1):
        return [a for a in range(b)], {x for x in a}, {x: y for x, y in a}, (x for x in a)
    return inner, lambda: (yield)
class Class:
    class Nested:
        @property
        def method(self): return super().method
    async def coroutine(self):
        async with self: await self
    async def agen(self): yield
@outer
@Class
def decorated(): pass
def caf\u00e9(): return lambda: \u00e9
def \u540d\u524d(): pass
class \U00020bb7:
    def \u03bb(self): pass
def """ + "long_" * 300 + "(): pass\ndef " + "\u540d" * 500 + "(): pass\n"

FILES = [
    "/srv/app/main.py",
    "<string>",
    "",
    "/srv/caf\u00e9.py",
    "/srv/\u540d\u524d.py",
    "/srv/\U0001f40d.py",
    "/srv/undecodable\udcff.py",
    "/" + "deep/" * 100 + "mod.py",
    "/" + "deeper/" * 800 + "mod.py",
    "/" + "\u540d/" * 2000 + "mod.py",
]


class Text(str):
    """Its characters are not behind its head."""


def made_up():
    yield from (compile(TEXT, file, "exec") for file in FILES)
    yield from (compile(text, "made-up", "exec") for text in MADE_UP)
    code = compile("def f(): pass", "f.py", "exec").co_consts[0]
    if hasattr(code, "replace"):
        yield code.replace(co_filename=Text("/srv/elsewhere.py"))


def loaded():
    """Functions and methods of what is imported anyway."""
    for module in list(sys.modules.values()):
        for thing in list(vars(module).values()):
            for function in [thing] + (list(vars(thing).values()) if isinstance(thing, type) else []):
                code = getattr(function, "__code__", None)
                if isinstance(code, types.CodeType):
                    yield code


def text_of(text, size_max):
    """UTF-8 without NUL and surrogates, cut between characters."""
    text = "".join("?" if "\ud800" <= c <= "\udfff" or c == "\0" else c for c in text)
    return text.encode()[:size_max].decode(errors="ignore")


def line_of(code):
    runs = []
    for line in units_of(code):
        if runs and runs[-1][1] == line:
            runs[-1][0] += 1
        else:
            runs.append([1, line])
    return "%x %d %d %d %d %x %x %x\t%s\t%s\t%s" % (
        id(code),
        code.co_argcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_firstlineno,
        id(code.co_code),
        id(code.co_consts),
        id(code.co_names),
        text_of(getattr(code, "co_qualname", code.co_name), NAME_BYTES_MAX),
        text_of(code.co_filename, FILE_BYTES_MAX),
        ",".join("%d:%d" % tuple(run) for run in runs),
    )


def runtime_address():
    """The address of _Py_DebugOffsets; 0 before 3.13. Extension modules may be missing."""
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
        for line in maps:
            fields = line.split()
            if fields[1].startswith("rw") and "python" in fields[-1]:
                start, limit = (int(address, 16) for address in fields[0].split("-"))
                memory.seek(start)
                at = memory.read(limit - start).find(b"xdebugpy")
                if at >= 0:
                    return start + at
    return 0


def wait_for_reader_to_go():
    try:
        import select
    except ImportError:
        signal.pause()
    poll = select.poll()
    poll.register(sys.stdout, 0)
    poll.poll()


def main():
    signal.alarm(60)
    kept = list(made_up())
    seen = {}
    for top in kept + list(loaded()):
        for code in code_objects(top):
            seen[id(code)] = code
    process = (os.getpid(), sys.version_info[1], runtime_address(), id(types.CodeType))
    head = "process %d %d %x %x" % process
    lines = [head] + [line_of(code) for code in seen.values()] + ["end"]
    sys.stdout.buffer.write("\n".join(lines).encode() + b"\n")
    sys.stdout.buffer.flush()
    wait_for_reader_to_go()


main()
