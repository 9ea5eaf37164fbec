# SPDX-License-Identifier: Apache-2.0
"""How much stack the functions of a BPF object take, chains of calls together: read from its instructions.

The verifier adds up a chain's frames, callbacks of bpf_loop() and its like among them, each rounded up to 32 bytes
(kernel/bpf/verifier.c, check_max_stack_depth() of 6.1; newer kernels allow more). It counts what it saw
used while it walked; this counts what any instruction uses, which is as much or more."""
import dataclasses
import struct

INSTRUCTION_BYTES = 8
FRAME_UNIT_BYTES = 32
R_BPF_64_64, R_BPF_64_32 = 1, 10
FRAME_POINTER = 10
CLASS_MASK, LOAD, STORE_NUMBER, STORE, ALU64 = 0x07, 0x01, 0x02, 0x03, 0x07
LOAD_ADDRESS, CALL, MOVE, ADD_NUMBER = 0x18, 0x85, 0xbf, 0x07  # opcodes
SYMBOLS, RELOCATIONS, EXECUTABLE, FUNCTION = 2, 9, 4, 2  # SHT_SYMTAB, SHT_REL, SHF_EXECINSTR, STT_FUNC
OF_PROGRAM = 1  # source register of a call: a function of this object


@dataclasses.dataclass
class Function:
    """@calls: (section, offset in it) of functions that it calls, or has called back."""
    name: str
    stack_bytes: int = 0
    calls: set = dataclasses.field(default_factory=set)


class Pointers:
    """Which registers point into the stack, and how far below its top."""

    def __init__(self):
        self.offsets = {FRAME_POINTER: 0}

    def step(self, code, destination, source, number):
        if code == MOVE and source in self.offsets:
            self.offsets[destination] = self.offsets[source]
        elif code == ADD_NUMBER and destination in self.offsets:
            self.offsets[destination] += number
        elif code & CLASS_MASK not in (STORE, STORE_NUMBER) and destination != FRAME_POINTER:
            self.offsets.pop(destination, None)

    def lowest(self):
        return min(self.offsets.values())


def bytes_below(code, destination, source, offset, pointers):
    """How far below the stack's top this instruction reaches, or points."""
    reached = -pointers.lowest()
    base = source if code & CLASS_MASK == LOAD else destination
    if code & CLASS_MASK in (LOAD, STORE, STORE_NUMBER) and base in pointers.offsets:
        reached = max(reached, -pointers.offsets[base] - offset)
    return reached


@dataclasses.dataclass
class Section:
    kind: int
    is_code: bool
    data: bytes
    link: int
    info: int


@dataclasses.dataclass
class Symbol:
    """@place: (section, offset in it)."""
    name: str
    is_function: bool
    place: tuple
    size: int


class Object:
    """As much of an ELF file (elf(5)) as this is about."""

    def __init__(self, data):
        table, = struct.unpack_from("<Q", data, 40)
        count, = struct.unpack_from("<H", data, 60)
        self.sections = [self.read_section(data, table + number * 64) for number in range(count)]
        self.symbols = next((self.read_symbols(section) for section in self.sections if section.kind == SYMBOLS), [])

    @staticmethod
    def read_section(data, at):
        _, kind, flags, _, offset, size, link, info, _, _ = struct.unpack_from("<IIQQQQIIQQ", data, at)
        return Section(kind, flags & EXECUTABLE != 0, data[offset:offset + size], link, info)

    def read_symbols(self, section):
        names = self.sections[section.link].data
        return [Symbol(names[name:names.index(b"\0", name)].decode(), info & 15 == FUNCTION, (number, value), size)
                for name, info, _, number, value, size in struct.iter_unpack("<IBBHQQ", section.data)]

    def relocations_of(self, number):
        """{offset: (type, symbol)} of a section."""
        return {offset: (info & 0xffffffff, self.symbols[info >> 32])
                for section in self.sections if section.kind == RELOCATIONS and section.info == number
                for offset, info in struct.iter_unpack("<QQ", section.data)}

    def is_code(self, symbol):
        number = symbol.place[0]
        return number < len(self.sections) and self.sections[number].is_code


def target_of(elf, place, code, source, number, relocation):
    """The place of the function that an instruction names, or None."""
    kind, symbol = relocation or (None, None)
    if code == CALL and source == OF_PROGRAM and symbol is None:
        return place[0], place[1] + (number + 1) * INSTRUCTION_BYTES
    if symbol is None or not elf.is_code(symbol):
        return None
    section, start = symbol.place
    if code == CALL and kind == R_BPF_64_32:
        return section, start + (number + 1) * INSTRUCTION_BYTES
    if code == LOAD_ADDRESS and kind == R_BPF_64_64:
        return section, start + number
    return None


def read_function(elf, symbol, relocations):
    function, pointers = Function(symbol.name), Pointers()
    section, at = symbol.place
    limit = at + symbol.size
    while at < limit:
        code, registers, offset, number = struct.unpack_from("<BBhi", elf.sections[section].data, at)
        destination, source = registers & 15, registers >> 4
        pointers.step(code, destination, source, number)
        function.stack_bytes = max(function.stack_bytes, bytes_below(code, destination, source, offset, pointers))
        target = target_of(elf, (section, at), code, source, number, relocations.get(at))
        if target:
            function.calls.add(target)
        at += INSTRUCTION_BYTES * (2 if code == LOAD_ADDRESS else 1)
    return function


def read_functions(path):
    """{(section, offset): Function}"""
    elf = Object(path.read_bytes())
    functions = [symbol for symbol in elf.symbols if symbol.is_function]
    relocations = {number: elf.relocations_of(number) for number in {symbol.place[0] for symbol in functions}}
    return {symbol.place: read_function(elf, symbol, relocations[symbol.place[0]]) for symbol in functions}


def deepest_chain(functions, key):
    """(bytes, [functions]) of the chain of calls from @key that takes most."""
    function = functions[key]
    own = max(1, -(-function.stack_bytes // FRAME_UNIT_BYTES)) * FRAME_UNIT_BYTES
    below, chain = max((deepest_chain(functions, call) for call in function.calls),
                       key=lambda found: found[0], default=(0, []))
    return own + below, [function, *chain]
