# SPDX-License-Identifier: Apache-2.0
"""Our unwind tables against what llvm-dwarfdump and readelf read in the same files.

Rules are compared as the text that print_table prints. What the readers say is put into that form
here, from their output alone; nothing is shared with our reader.
"""

import bisect
import collections
import random
import re
import struct
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EM_X86_64, EM_AARCH64 = 62, 183
PADDING_MAX = 16


class NotThisKind(Exception):
    """Not a 64-bit executable or library of a machine we know."""


class Elf:
    """Headers, read anew in a few lines so that our reader's mistakes are not repeated."""

    def __init__(self, path):
        self.path = path
        self.bytes = Path(path).read_bytes()
        ident = self.bytes[:16]
        if ident[:4] != b"\x7fELF" or ident[4] != 2 or ident[5] != 1:
            raise NotThisKind
        (self.kind, self.machine, _, self.entry, phoff, shoff, _, _, phentsize, phnum,
         shentsize, shnum, shstrndx) = struct.unpack_from("<HHIQQQIHHHHHH", self.bytes, 16)
        if self.machine not in (EM_X86_64, EM_AARCH64) or self.kind not in (2, 3):
            raise NotThisKind
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.bytes, phoff + i * phentsize)
                         for i in range(phnum)]
        self.sections = self._sections(shoff, shentsize, shnum, shstrndx)
        self.is_go = self.has(".gopclntab")

    def _sections(self, offset, size, count, names_index):
        if not offset or not count:
            return []
        raw = [struct.unpack_from("<IIQQQQIIQQ", self.bytes, offset + i * size) for i in range(count)]
        names = self.bytes[raw[names_index][4]:][:raw[names_index][5]]
        return [(names[s[0]:names.index(b"\0", s[0])].decode(), s) for s in raw]

    def loads(self):
        return [(s[3], s[5], s[2], s[1]) for s in self.segments if s[0] == 1]

    def read(self, address, size):
        for start, length, offset, _ in self.loads():
            if start <= address and address + size <= start + length:
                return self.bytes[offset + address - start:][:size]
        return b""

    def is_code(self, address):
        return any(flags & 1 and start <= address < start + length
                   for start, length, _, flags in self.loads())

    def section_at(self, address):
        for name, section in self.sections:
            if section[2] & 2 and section[3] <= address < section[3] + section[5]:
                return name
        return ""

    def has(self, name):
        return any(n == name and s[1] != 8 for n, s in self.sections)

    def starts_there(self):
        """Is the header's entry where the kernel begins, not just the first code of a library?"""
        is_program = self.kind == 2 or any(s[0] == 3 for s in self.segments)
        return is_program or "/ld-" in str(self.path)


NAME = re.compile(r" \(\w+\)")  # readelf writes registers as "r2 (rcx)"


class Function:
    """One entry: its code, and readelf's lines of its rows."""

    __slots__ = ("start", "limit", "is_signal", "common", "return_register", "columns", "rows")

    def __init__(self, start, limit, is_signal):
        self.start, self.limit, self.is_signal = start, limit, is_signal
        self.common, self.return_register, self.columns, self.rows = None, None, [], []

    def row_at(self, address):
        """{column: word} at an address."""
        if not self.rows and self.common:  # readelf is silent where its common row holds throughout
            return self.common.row_at(0)
        at = bisect.bisect_right(self.rows, address, key=lambda row: row[0])
        return dict(zip(self.columns, NAME.sub("", self.rows[at - 1][1]).split())) if at else {}


class Unsupported(Exception):
    """A form that our tables do not know."""


class Unread(Exception):
    """The readers do not say what is there."""


FP = {EM_X86_64: 6, EM_AARCH64: 29}

# ---- readelf: everything but expressions -----------------------------------------------------------

ENTRY = re.compile(r"^([0-9a-f]+) [0-9a-f]+ [0-9a-f]+ (CIE|FDE)(?: cie=([0-9a-f]+) "
                   r"pc=([0-9a-f]+)\.\.([0-9a-f]+))?")
NAMES = {EM_X86_64: "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15".split(),
         EM_AARCH64: [f"x{number}" for number in range(31)] + ["sp"]}
TRACKED = {EM_X86_64: ("rbp", "rsp"), EM_AARCH64: ("x29", "sp")}


def read_readelf(path):
    """The functions of a file in the order of its sections."""
    process = subprocess.Popen(["readelf", "--wide", "--debug-dump=frames-interp", str(path)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               errors="replace")
    signal_commons, functions, function = set(), [], None
    commons = {}
    for line in process.stdout:
        if line[0] in "0123456789abcdef":
            if match := ENTRY.match(line):
                function = None
                if match[2] == "CIE":
                    function = commons[match[1]] = Function(0, 0, False)
                    function.return_register = int(line.rsplit("ra=", 1)[1])
                    if line.split('"')[1].startswith("z") and "S" in line.split('"')[1]:
                        signal_commons.add(match[1])
                else:
                    function = Function(int(match[4], 16), int(match[5], 16),
                                        match[3] in signal_commons)
                    function.common = commons.get(match[3])
                    if function.common:
                        function.return_register = function.common.return_register
                    functions.append(function)
            elif function and line[8] != " " == line[16]:
                function.rows.append((int(line[:16], 16), line))
        elif function and line.startswith("   LOC"):
            function.columns = line.split()
        elif line.startswith("Contents of"):
            signal_commons, commons = set(), {}
    process.stdout.close()
    process.wait()
    return functions


# ---- llvm-dwarfdump: only the expressions, as it loses CFAs in DW_CFA_restore_state ---------------

DWARFDUMP_NAMES = {EM_X86_64: {"CFA": "CFA", "rbp": "RBP", "rsp": "RSP", "ra": "RIP"},
                   EM_AARCH64: {"CFA": "CFA", "x29": "W29", "sp": "WSP", "ra": "W30"}}


def read_dwarfdump(path):
    """[(address, text of the row)], sorted."""
    process = subprocess.Popen(["llvm-dwarfdump", "--eh-frame", str(path)],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               errors="replace")
    rows = []
    for line in process.stdout:
        if line.startswith("  0x"):
            place, rule = line.strip().split(": ", 1)
            rows.append((int(place, 16), rule))
    process.stdout.close()
    process.wait()
    return sorted(rows)


class Expressions:
    """Read when the first is asked for."""

    def __init__(self, path, machine):
        self.path, self.machine, self.rows = path, machine, None

    def at(self, address, column):
        """'undefined', '[DW_OP_...]' and the like; None without a rule for the register."""
        if self.rows is None:
            self.rows = read_dwarfdump(self.path)
        at = bisect.bisect_right(self.rows, address, key=lambda row: row[0])
        if not at:
            raise Unread
        cfa, _, rest = self.rows[at - 1][1].partition(": ")
        parts = {"CFA": cfa[4:], **dict(re.findall(r"(\w+)=(\[[^]]*\]|[^,]*)", rest))}
        return parts.get(DWARFDUMP_NAMES[self.machine][column])


# ---- what they say, as print_table writes it --------------------------------------------------------

BREG = re.compile(r"^DW_OP_breg(\d+) \w+([+-]\d+)$")
PLT = re.compile(r"^DW_OP_breg7 RSP\+8, DW_OP_breg16 RIP\+0, DW_OP_lit15, DW_OP_and, "
                 r"DW_OP_lit(\d+), DW_OP_ge, DW_OP_lit3, DW_OP_shl, DW_OP_plus$")


def expressed_cfa(text):
    """(text, (register, offset) or None)."""
    if not (text or "").startswith("DW_OP"):
        raise Unread
    if match := PLT.match(text):
        return f"cfa=plt:{match[1]}", None
    operations = text.split(", ")
    base = BREG.match(operations[0])
    if not base or (operations[1:] and operations[1] != "DW_OP_deref"):
        raise Unsupported(text)
    register, offset = int(base[1]), int(base[2])
    if not operations[1:]:
        return f"cfa={register}{offset:+d}", (register, offset)
    added = 0
    for operation in operations[2:]:
        match = re.match(r"^DW_OP_plus_uconst (0x[0-9a-f]+)$", operation)
        if not match:
            raise Unsupported(text)
        added += int(match[1], 16)
    return f"cfa=*{register}{offset:+d}{added:+d}", None


def expressed_register(machine, text, cfa_place):
    if not (text or "").startswith("[DW_OP"):
        raise Unread
    base = BREG.match(text[1:-1])
    if not base:
        raise Unsupported(text)
    register, offset = int(base[1]), int(base[2])
    if register == FP[machine]:
        return f"fp{offset:+d}"
    if cfa_place and cfa_place[0] == register:
        return f"cfa{offset - cfa_place[1]:+d}"
    raise Unsupported(text)


def saved_of(machine, expressions, address, column, word, cfa_place):
    if word == "exp":
        return expressed_register(machine, expressions.at(address, column), cfa_place)
    if match := re.match(r"^c([+-]\d+)$", word):
        return f"cfa{int(match[1]):+d}"
    if word == "s":
        return "same"
    if re.match(r"^r\d+$", word):
        return word
    raise Unsupported(f"{column}={word}")


def is_undefined(expressions, address, column):
    """readelf writes "u" for what is undefined, and for what was never mentioned."""
    return expressions.at(address, column) == "undefined"


def fp_of(machine, expressions, address, row, cfa_place):
    column = TRACKED[machine][0]
    word = row.get(column, "s")
    if word == "u":
        return "lost" if is_undefined(expressions, address, column) else "same"
    try:
        return saved_of(machine, expressions, address, column, word, cfa_place)
    except Unsupported:
        return "lost"


def return_of(machine, expressions, address, function, row, cfa_place):
    word = row.get("ra", "u")
    if word == "u":
        if is_undefined(expressions, address, "ra"):
            return "end"
        if machine == EM_X86_64:
            raise Unsupported("no return address")
        return "same" if function.return_register == 30 else f"r{function.return_register}"
    saved = saved_of(machine, expressions, address, "ra", word, cfa_place)
    if saved == "same" and machine == EM_X86_64:
        raise Unsupported("return address in itself")
    if saved.startswith("cfa") and not -0x8000 <= int(saved[3:]) < 0x8000:
        names = {FP[machine]: "fp", **({31: "sp"} if machine == EM_AARCH64 else {})}
        if not cfa_place or cfa_place[0] not in names:
            raise Unsupported("return address too far from the CFA")
        saved = f"{names[cfa_place[0]]}{int(saved[3:]) + cfa_place[1]:+d}"
    return saved


def is_signal(machine, expressions, address, function, row):
    if not function.is_signal:
        return False
    return machine == EM_AARCH64 or (
        row.get("ra") == "exp" and
        (expressions.at(address, "ra") or "").startswith("[DW_OP_breg7 RSP+168"))


def rule_of(machine, expressions, function, address):
    """The rule's text as print_table writes it."""
    row = function.row_at(address)
    if not row:
        raise Unread
    if is_signal(machine, expressions, address, function, row):
        return "signal"
    if row.get("ra") == "u" and is_undefined(expressions, address, "ra"):
        return "end"
    sp = row.get(TRACKED[machine][1], "u")
    if sp not in ("u", "s", "v+0"):
        raise Unsupported(f"sp={sp}")
    if row["CFA"] == "exp":
        cfa, place = expressed_cfa(expressions.at(address, "CFA"))
    else:
        match = re.match(r"^(\w+)([+-]\d+)$", row["CFA"])
        if not match or match[1] not in NAMES[machine]:
            raise Unsupported(f"CFA={row['CFA']}")
        place = NAMES[machine].index(match[1]), int(match[2])
        cfa = f"cfa={place[0]}{place[1]:+d}"
    ra = return_of(machine, expressions, address, function, row, place)
    return f"{cfa} fp={fp_of(machine, expressions, address, row, place)} ra={ra}"


# ---- comparing ------------------------------------------------------------------------------------

def print_table(program, path, addresses):
    """(the line of sizes, the rule at each address); None if our reader refuses the file."""
    text = "\n".join(f"{address:x}" for address in addresses)
    result = subprocess.run([program, str(path)], input=text, capture_output=True, text=True)
    if result.returncode:
        return result.stderr.strip(), None
    lines = result.stdout.splitlines()
    return lines[0], lines[1:]


class Code:
    """A file's functions, with overlaps settled as our tables settle them: who begins first."""

    def __init__(self, elf, functions):
        self.functions = []
        limit = 0
        for function in sorted(functions, key=lambda f: f.start):
            if function.start and elf.is_code(function.start) and function.limit > limit:
                function.start = max(function.start, limit)
                limit = function.limit
                self.functions.append(function)
        self.starts = [function.start for function in self.functions]

    def at(self, address):
        at = bisect.bisect_right(self.starts, address) - 1
        if at >= 0 and address < self.functions[at].limit:
            return self.functions[at]
        return None

    def gap_at(self, address):
        """(start, limit) of the code between functions."""
        at = bisect.bisect_right(self.starts, address)
        return (self.functions[at - 1].limit if at else 0,
                self.starts[at] if at < len(self.starts) else None)


def choose_addresses(code, count, chance):
    """Ends of rows and functions, and places anywhere between."""
    addresses = []
    for _ in range(count):
        function = chance.choice(code.functions)
        kind = chance.randrange(4)
        if kind == 0:
            addresses.append(chance.randrange(function.start, function.limit))
        elif kind == 1 and function.rows:
            addresses.append(chance.choice(function.rows)[0])
        elif kind == 2 and function.rows:
            addresses.append(chance.choice(function.rows)[0] - 1)
        else:
            addresses.append(function.limit + chance.choice([-1, 0, 0, 1, 3, 15]))
    first, last = code.starts[0], code.functions[-1].limit
    addresses += [chance.randrange(first, last) for _ in range(count // 4)]
    return [address for address in addresses if address > 0]


def gap_at(elf, code, address):
    """The same, with the code in it that has a shape of its own."""
    start, limit = code.gap_at(address)
    known = [(s[3], s[3] + s[5]) for name, s in elf.sections if name.startswith((".plt", ".iplt"))]
    known.append((elf.entry, elf.entry))
    for known_start, known_limit in known:
        if start < known_limit <= address:
            start = known_limit
        if address < known_start < (limit or known_start + 1):
            limit = known_start
    return start, limit


def is_padding(elf, code, address):
    """Between functions, nothing there but what aligns the next?"""
    start, _ = gap_at(elf, code, address)
    limit = (address | PADDING_MAX - 1) + 1
    # Go's own table counts all that lies before the next function.
    return (limit - start < PADDING_MAX or elf.is_go) and is_filler(elf.machine, elf.read(start, limit - start))


NOPS = [bytes.fromhex(text) for text in (
    "0f1f8000000000 0f1f440000 0f1f4000 0f1f00 0f1f840000000000 660f1f440000 660f1f840000000000 "
    "662e0f1f840000000000 2e0f1f840000000000 6690 90 cc 00 8d7600 8db600000000 8db42600000000 "
    "8db426000000 8d742600 6666662e0f1f840000000000 66662e0f1f840000000000 66 f4 0f0b "
    "8d7426008dbc2700000000 8dbc2700000000 8d7f00 8dbf00000000 c3").split()]


def is_filler(machine, padding):
    """Only instructions that compilers and linkers fill with."""
    if machine == EM_AARCH64:
        return all(word in (b"\x1f\x20\x03\xd5", b"\0\0\0\0")
                   for word in (padding[i:i + 4] for i in range(0, len(padding), 4)))
    while padding:
        nop = max((nop for nop in NOPS if padding.startswith(nop)), key=len, default=None)
        if not nop:
            return False
        padding = padding[len(nop):]
    return True


class Result:
    """What came of one file."""

    def __init__(self):
        self.sizes = ""
        self.compared = 0
        self.disagreements = []
        self.unsupported = collections.Counter()
        self.unread = 0
        self.synthesised = collections.Counter()
        self.padding = 0


def compare_outside(elf, code, address, ours, result):
    """No entry covers the address: the code is known by its shape, or its instructions were analyzed."""
    if ours == "none":
        return
    if is_padding(elf, code, address):
        result.padding += 1
        return
    section = elf.section_at(address)
    if section.startswith((".plt", ".iplt")):
        result.synthesised[section] += 1
    elif ours in ("end", "signal"):
        result.synthesised[ours] += 1
    else:  # its instructions were analyzed: step_stack sees to these, on arm64 the emulated kernels' tests
        result.synthesised["analyzed"] += 1


def compare_inside(elf, code, expressions, address, ours, result):
    function = code.at(address)
    if ours == "end" and code.at(elf.entry) is function and elf.starts_there():
        result.synthesised["entry"] += 1
        return
    if ours == "end" and elf.read(function.start, 3) == b"\x48\x89\xdc":
        result.synthesised["coroutine"] += 1
        return
    try:
        expected = rule_of(elf.machine, expressions, function, address)
    except Unread:
        result.unread += 1
        return
    except Unsupported as why:
        expected = "unsupported"
        result.unsupported[str(why)] += 1
    if elf.is_go and (ours in ("end", "signal", "none") or ours.startswith("cfa=6+16 fp=cfa-16")):
        result.synthesised["go"] += 1  # where Go's runtime changes stacks, and .debug_frame is silent
        return
    if elf.is_go:  # Go's .debug_frame never mentions the frame pointer
        ours, expected = (re.sub(r" fp=\S+", "", text) for text in (ours, expected))
    # At a call's last byte, where rbx holds the frame, it is where the callee has saved it.
    ours = re.sub(r"^cfa=\*7-\d+(\+\d+) ", r"cfa=3\1 ", ours) if expected.startswith("cfa=3+") else ours
    result.compared += expected != "unsupported"
    if ours != expected:
        result.disagreements.append(f"{address:#x}: ours {ours}, readers say {expected}")


def compare(program, path, count, seed=1):
    """Compare one file at about @count addresses. Raises NotThisKind."""
    elf = Elf(path)
    result = Result()
    code = Code(elf, read_readelf(path))
    expressions = Expressions(path, elf.machine)
    addresses = []
    if code.functions:
        addresses = choose_addresses(code, count, random.Random(f"{seed} {path}"))
    result.sizes, rules = print_table(program, path, addresses)
    if rules is None:
        if code.functions:
            result.disagreements.append(f"our reader refuses it: {result.sizes}")
        return result
    for address, ours in zip(addresses, rules):
        if code.at(address):
            compare_inside(elf, code, expressions, address, ours, result)
        else:
            compare_outside(elf, code, address, ours, result)
    return result
