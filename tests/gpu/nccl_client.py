# SPDX-License-Identifier: Apache-2.0
"""Test equipment: one rank of a client of the double of libnccl.so.2. argv: rank, ranks, file of the unique id (rank 0 writes it), 1
if this rank is late. Makes each kind of call in its own function, in steps that begin at the same times in all ranks. Prints its
steps as JSON, and serves until standard input ends."""
import ctypes
import json
import os
import select
import sys
import time

RANK, RANKS, ID_FILE, IS_LATE = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "1"
STEP_S, LATE_S = 0.1, 0.03
FLOAT, HALF, INT64 = 7, 6, 4
SUM = 0

driver = ctypes.CDLL("libcuda.so.1")  # as the real library does
nccl = ctypes.CDLL("libnccl.so.2")
buffer = ctypes.create_string_buffer(64)


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def call(name, *arguments):
    result = getattr(nccl, name)(*arguments)
    if result:
        raise RuntimeError(f"{name}: {result}")


def count(number):
    return ctypes.c_size_t(number)


def meet():
    """The communicator of all ranks."""
    unique = UniqueId()
    if RANK == 0:
        call("ncclGetUniqueId", ctypes.byref(unique))
        with open(ID_FILE + ".new", "wb") as file:
            file.write(bytes(unique))
        os.rename(ID_FILE + ".new", ID_FILE)
    while not os.path.exists(ID_FILE):
        time.sleep(0.01)
    with open(ID_FILE, "rb") as file:
        ctypes.memmove(ctypes.byref(unique), file.read(), 128)
    made = ctypes.c_void_p()
    call("ncclCommInitRank", ctypes.byref(made), RANKS, unique, RANK)
    return made


def prepare_late_batch():
    """Makes this rank late."""
    end = time.monotonic() + LATE_S
    while time.monotonic() < end:
        pass


def reduce_gradients(communicator):
    call("ncclAllReduce", buffer, buffer, count(1000), FLOAT, SUM, communicator, None)


def gather_weights(communicator):
    call("ncclAllGather", buffer, buffer, count(300), HALF, communicator, None)


def exchange(communicator):
    peer = (RANK + 1) % RANKS
    call("ncclGroupStart")
    call("ncclSend", buffer, count(50), INT64, peer, communicator, None)
    call("ncclRecv", buffer, count(50), INT64, peer, communicator, None)
    call("ncclGroupEnd")


def spread_and_collect(communicator):
    call("ncclBroadcast", buffer, buffer, count(7), FLOAT, 0, communicator, None)
    call("ncclReduce", buffer, buffer, count(11), FLOAT, SUM, 0, communicator, None)
    call("ncclReduceScatter", buffer, buffer, count(13), FLOAT, SUM, communicator, None)


def reduce_in_parts(communicator):
    """Before and after ncclCommUserRank; then one rank goes on alone."""
    part, alone, number = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
    call("ncclCommSplit", communicator, 0, RANK, ctypes.byref(part), None)
    call("ncclAllReduce", buffer, buffer, count(17), FLOAT, SUM, part, None)
    call("ncclCommUserRank", part, ctypes.byref(number))
    call("ncclCommCount", part, ctypes.byref(number))
    call("ncclAllReduce", buffer, buffer, count(19), FLOAT, SUM, part, None)
    call("ncclCommDestroy", part)
    if RANK == 0:
        gone = (ctypes.c_int * (RANKS - 1))(*range(1, RANKS))
        call("ncclCommShrink", communicator, gone, RANKS - 1, ctypes.byref(alone), None, 0)
        call("ncclAllReduce", buffer, buffer, count(23), FLOAT, SUM, alone, None)
        call("ncclCommDestroy", alone)


def step(communicator, number, begin):
    time.sleep(max(0, begin + number * STEP_S - time.time()))
    if IS_LATE:
        prepare_late_batch()
    reduce_gradients(communicator)
    gather_weights(communicator)
    exchange(communicator)


def has_input():
    return select.select([sys.stdin], [], [], 0)[0]


def spin(seconds):
    """CPU time for the sampler."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def main():
    while not has_input():  # until the library is probed
        spin(0.05)
        time.sleep(0.05)
        nccl.ncclGroupEnd()  # fails without a group
    begin = float(sys.stdin.readline()) + 2
    communicator = meet()
    spread_and_collect(communicator)
    reduce_in_parts(communicator)
    steps = 30
    for number in range(steps):
        step(communicator, number, begin)
    print(json.dumps({"steps": steps}), flush=True)
    sys.stdin.read()
    call("ncclCommDestroy", communicator)


main()
