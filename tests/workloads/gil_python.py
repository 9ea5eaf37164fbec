# SPDX-License-Identifier: Apache-2.0
"""Two threads that use a CPU each until they are killed: holds_gil() is bytecode, releases_gil() checksums a MiB at a time in C, which
releases the GIL meanwhile. The first line of output says that both have begun."""
import threading
import zlib

MIB = bytes(1 << 20)


def holds_gil():
    while True:
        sum(range(1000))


def releases_gil():
    while True:
        zlib.crc32(MIB)


threading.Thread(target=releases_gil, daemon=True).start()
print("{}", flush=True)
holds_gil()
