#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A process that makes itself hard to profile, on the CPU until it is killed, for --seconds at most.

    hostile_process.py --seconds N elf|perf-map|jitdump|labels|threads

elf       runs code in mappings of files that begin as ELF and go on at random
perf-map  names its JIT code in a perf map of 64 MiB of lines, random bytes between them
jitdump   the same in a jitdump file with records of impossible sizes
labels    has 100 KiB of OTEL_RESOURCE_ATTRIBUTES, names of ours and random bytes among them
threads   renames its threads all the time
"""
import argparse
import ctypes
import mmap
import os
import pathlib
import random
import struct
import sys
import tempfile
import threading
import time

LOOP = bytes.fromhex("b800000020" "ffc8" "75fc" "c3")  # mov $0x20000000, %eax; 1: dec %eax; jne 1b; ret
MAPPINGS = 20
PERF_MAP_BYTES = 64 << 20
EXECUTABLE = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
R = random.Random()


def function_at(mapping, offset):
    return ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(mapping)) + offset)


def anonymous_code():
    mapping = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, EXECUTABLE)
    mapping[:len(LOOP)] = LOOP
    return function_at(mapping, 0), ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def elf(folder):
    """Code in files whose headers are those of our own interpreter, bits of them changed."""
    head = bytearray(pathlib.Path(sys.executable).resolve().read_bytes()[:1 << 16])
    functions = []
    for number in range(MAPPINGS):
        data = bytearray(head)
        for _ in range(50):
            data[R.randrange(16, 4096)] = R.randrange(256)
        data[0x8000:0x8000 + len(LOOP)] = LOOP
        path = pathlib.Path(folder) / f"lib{number}.so"
        path.write_bytes(data)
        with open(path, "r+b") as file:
            mapping = mmap.mmap(file.fileno(), len(data), mmap.MAP_PRIVATE, EXECUTABLE)
        functions.append(function_at(mapping, 0x8000))
    return functions


def perf_map(_folder):
    function, address = anonymous_code()
    with open(f"/tmp/perf-{os.getpid()}.map", "wb") as file:
        while file.tell() < PERF_MAP_BYTES:
            file.write(R.randbytes(5000))
            file.writelines(b"%x %x name_%d;%s\n" % (address + R.randrange(-4096, 4096), R.choice([16, 4096, 2**63]), i,
                                                      b"x" * R.randrange(3000)) for i in range(1000))
    return [function]


def jitdump(folder):
    function, address = anonymous_code()
    path = pathlib.Path(folder) / f"jit-{os.getpid()}.dump"
    records = struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, 62, 0, os.getpid(), 0, 0)
    for _ in range(1000):
        size = R.choice([0, 1, 16, 100, 2**31, 2**32 - 1])
        records += struct.pack("<IIQ", R.randrange(5), size, time.monotonic_ns()) + R.randbytes(100)
        records += struct.pack("<Q", address)
    path.write_bytes(records)
    with open(path, "r+b") as file:  # as perf asks for it: the profiler sees an executable mapping
        mapping = mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    jitdump.mapping = mapping
    return [function]


def threads(_folder):
    libc = ctypes.CDLL(None)
    done = time.monotonic() + 600

    def rename():
        while time.monotonic() < done:
            libc.prctl(15, R.choice([b"%d-%d", b"worker-%d", b"\xff\n;%d"]).replace(b"%d", b"%d" % R.randrange(10**6)), 0, 0, 0)
            sum(range(20000))
    for _ in range(20):
        threading.Thread(target=rename, daemon=True).start()
    return [anonymous_code()[0]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=["elf", "perf-map", "jitdump", "labels", "threads"])
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    if options.kind == "labels" and "OTEL_RESOURCE_ATTRIBUTES" not in os.environ:
        attributes = ",".join(f"{R.choice(['namespace', 'pod', 'tenant', 'service.name', 'service.x', 'a=b'])}={R.randrange(10**9)}%{i:x}"
                              for i in range(3000))
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "OTEL_RESOURCE_ATTRIBUTES": attributes})
    with tempfile.TemporaryDirectory() as folder:
        functions = {"elf": elf, "perf-map": perf_map, "jitdump": jitdump, "threads": threads,
                     "labels": lambda _: [anonymous_code()[0]]}[options.kind](folder)
        print("ready", flush=True)
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            R.choice(functions)()
    pathlib.Path(f"/tmp/perf-{os.getpid()}.map").unlink(missing_ok=True)


main()
