# SPDX-License-Identifier: Apache-2.0
"""Two threads that use a CPU each until they are killed: holds_gil() is bytecode, releases_gil() checksums 64 MiB at a time in C, which
releases the GIL meanwhile: long enough that waiting for it for 5 ms, each time, is the smaller part. The first line of output says that both have begun."""
import threading
import zlib

DATA = bytes(64 << 20)


def holds_gil():
    while True:
        sum(range(1000))


def releases_gil():
    while True:
        zlib.crc32(DATA)


threading.Thread(target=releases_gil, daemon=True).start()
print("{}", flush=True)
holds_gil()
