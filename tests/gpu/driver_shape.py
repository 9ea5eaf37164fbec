# SPDX-License-Identifier: Apache-2.0
"""The shape of a libcuda.so.1's exports, read from the file: how many begin with the compare, branch and jump through a slot that
probe sites and names of exports rely on, and whether the slots lead to functions. With --addresses also whether
cuGetProcAddress_v2 returns the exports: loads the library, but needs no device.

    python3 driver_shape.py /usr/lib/x86_64-linux-gnu/libcuda.so.1 [--addresses] [--bytes]"""
import ctypes
import re
import struct
import subprocess
import sys

CUDA_VERSION = 12000
R_X86_64_RELATIVE = 8


def readelf(*words):
    return subprocess.run(["readelf", "-W", *words], capture_output=True, text=True, check=True).stdout


def load_segments(path):
    rows = re.findall(r"^ +LOAD +0x(\w+) 0x(\w+) 0x\w+ 0x(\w+)", readelf("-l", path), re.M)
    return [(int(offset, 16), int(address, 16), int(size, 16)) for offset, address, size in rows]


def exports(path):
    rows = re.findall(r"^ +\d+: (\w+) +\w+ FUNC +GLOBAL +DEFAULT +\d+ (cu[A-Z]\w*)", readelf("--dyn-syms", path), re.M)
    return {name: int(address, 16) for address, name in rows if int(address, 16)}


def relative_relocations(path):
    rows = re.findall(r"^(\w{16})  \w+ R_X86_64_RELATIV\w* +(\w+)", readelf("-r", path), re.M)
    return {int(place, 16): int(target, 16) for place, target in rows}


def fde_starts(path):
    return {int(start, 16) for start in re.findall(r" FDE cie=\w+ pc=(\w+)\.\.", readelf("--debug-dump=frames", path))}


def shape_of(code):
    """(kind, address of the slot relative to the function, or None)."""
    if code[:2] == b"\x81\x3d" and code[10] in (0x74, 0x75):
        jump = code[12:18]
        if jump[:2] == b"\xff\x25":
            return "compare, branch, jump", 18 + struct.unpack("<i", jump[2:])[0]
        return "compare, branch, something else", None
    if code[:4] == b"\xf3\x0f\x1e\xfa":
        return "endbr64", None
    return ("push" if 0x50 <= code[0] <= 0x57 or code[:2] == b"\x41\x57" else "something else"), None


def addresses_differ(path, names):
    library = ctypes.CDLL(path)
    get = library.cuGetProcAddress_v2
    different = []
    for name in names:
        plain = re.sub(r"(_v\d+)?(_pt[sd][sz])?$", "", name)
        found = ctypes.c_void_p()
        for flags in (1, 2):  # legacy, per-thread default stream
            if get(plain.encode(), ctypes.byref(found), CUDA_VERSION, ctypes.c_uint64(flags), None) == 0 and found.value:
                candidates = {ctypes.cast(getattr(library, other), ctypes.c_void_p).value for other in names
                              if re.sub(r"(_v\d+)?(_pt[sd][sz])?$", "", other) == plain}
                if found.value not in candidates:
                    different.append((name, flags))
    return different


def main(path, words):
    segments, kinds = load_segments(path), {}
    names, slots, functions = exports(path), relative_relocations(path), fde_starts(path)
    with open(path, "rb") as file:
        image = file.read()
    good = 0
    for name, address in sorted(names.items()):
        offset = next((o + address - a for o, a, size in segments if a <= address < a + size), None)
        if offset is None:
            continue
        code = image[offset:offset + 24]
        kind, slot = shape_of(code)
        kinds[kind] = kinds.get(kind, 0) + 1
        good += slot is not None and slots.get(address + slot) in functions
        if "--bytes" in words:
            print(f"{code[:16].hex(' ')}  {name}")
    for kind, count in sorted(kinds.items(), key=lambda row: -row[1]):
        print(f"{count:5} of {len(names)} exports: {kind}")
    print(f"{good:5} slots lead to the start of a function")
    if "--addresses" in words:
        print(f"cuGetProcAddress_v2 gives something else than an export for: {addresses_differ(path, names) or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
