# SPDX-License-Identifier: Apache-2.0
"""Export requests made by hand, and clients of the gRPC port that stall and lie. Test equipment."""
import ctypes
import gzip
import os
import socket
import subprocess
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
EXPORT = "/cairn.v1.Collector/Export"
HEALTH = "/grpc.health.v1.Health/Check"
SLOT_NS = 20_000_000


class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def hash128(content):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_128bits.restype = Hash
    library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    found = library.XXH3_128bits(content, len(content))
    return found.high.to_bytes(8, "big") + found.low.to_bytes(8, "big")


def varint(number):
    encoded = b""
    while number >= 0x80:
        encoded += bytes([number & 0x7f | 0x80])
        number >>= 7
    return encoded + bytes([number])


def text(field, content):
    return bytes([field << 3 | 2]) + varint(len(content)) + content


def number(field, value):
    return bytes([field << 3]) + varint(value)


def batch(series_count, samples=240):
    """A batch whose series are many and small: what takes most memory for its size."""
    now = time.time_ns()
    first = now - samples * SLOT_NS
    strings = [b"", b"service", b"process_cpu:cpu:nanoseconds:cpu:nanoseconds", b"main", b"/bin/x",
               *(b"s%d" % i for i in range(series_count))]
    location, deltas = b"l" * 16, b"\0" + b"\1" * (samples - 1)
    parts = [number(13, 1), text(1, os.urandom(16)), text(2, os.urandom(16)), number(3, 1), number(4, SLOT_NS),
             number(5, first), number(6, now), *(text(8, string) for string in strings),
             text(9, hash128(b"\x03\x01" + location)),
             text(10, text(1, location) + number(2, 1) + number(3, 4) + number(5, 4096)),
             text(11, number(1, 0) + text(2, varint(0)) + number(3, 1))]
    parts += (text(12, text(1, varint(1)) + text(2, varint(5 + i)) + number(3, 2)
                   + number(4, first // SLOT_NS) + text(5, deltas) + text(6, bytes(samples))
                   + text(8, bytes([2]) * samples)) for i in range(series_count))
    return b"".join(parts)


def start_call(address, message, method=EXPORT, compressed=False):
    """One call by curl, started."""
    headers = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
    if compressed:
        headers += ["-H", "grpc-encoding: gzip"]
    process = subprocess.Popen(
        ["curl", "--silent", "--verbose", "--max-time", "60", "--http2-prior-knowledge", *headers,
         "--data-binary", "@-", f"http://{address}{method}"],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        process.stdin.write(bytes([compressed]) + len(message).to_bytes(4, "big") + message)
        process.stdin.close()
    except BrokenPipeError:  # it was refused early
        pass
    return process


def status_of(process):
    """The grpc-status of a started call; None if there is none."""
    lines = process.stderr.read().decode("utf-8", "replace").lower().splitlines()
    process.wait()
    found = [line.split(":", 1)[1] for line in lines if line.startswith("< grpc-status:")]
    return int(found[0]) if found else None


def call(address, message, method=EXPORT, compressed=False):
    return status_of(start_call(address, message, method, compressed))


def bomb(size):
    """A gzip of so many zeros."""
    return gzip.compress(bytes(size), 9)


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def header(name, value):
    """A literal header without indexing."""
    return b"\0" + varint(len(name)) + name + varint(len(value)) + value


def stall(port, streams=32):
    """A connection with calls whose messages begin and never end."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    headers = b"".join(header(name, value) for name, value in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", EXPORT.encode()), (b":authority", b"test"),
        (b"content-type", b"application/grpc"), (b"te", b"trailers")))
    connection.sendall(PREFACE + frame(4, 0, 0))
    for i in range(streams):
        connection.sendall(frame(1, 4, 2 * i + 1, headers) + frame(0, 0, 2 * i + 1, b"\0\0\0\0\xc8half"))
    return connection
