# SPDX-License-Identifier: Apache-2.0
"""Test equipment: a client of the double of libcuda.so.1 whose GPU is idle between its steps (argv[1]: gaps, events), or always has
work queued (full, other, contexts, reused), until standard input ends. Prints its launches and its GPU's idle time."""
import ctypes
import json
import select
import sys
import threading
import time

BLOCKS = 1000  # of the double: 10 us each
BLOCKING = 4  # CU_CTX_SCHED_BLOCKING_SYNC: waits leave the CPU to others

cuda = ctypes.CDLL("libcuda.so.1")
truth = {"launches": 0, "idle_ns": 0}


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        raise RuntimeError(f"{name}: {result}")


context, module, function, first, second = (ctypes.c_uint64() for _ in range(5))
call("cuInit", 0)
call("cuCtxCreate_v2", ctypes.byref(context), BLOCKING, 0)
call("cuModuleLoadData", ctypes.byref(module), b"image")
call("cuModuleGetFunction", ctypes.byref(function), module, b"decode")
call("cuStreamCreate", ctypes.byref(first), 0)
call("cuStreamCreate", ctypes.byref(second), 0)


def launch(stream, blocks=BLOCKS):
    call("cuLaunchKernel", function, blocks, 1, 1, 32, 1, 1, 0, stream, None, None)
    truth["launches"] += 1


def has_input():
    return select.select([sys.stdin], [], [], 0)[0]


def prepare_on_cpu():
    end = time.monotonic() + 0.03
    while time.monotonic() < end:
        pass


def wait_for_input():
    time.sleep(0.02)


def gaps():
    """A wait for the only stream, then 50 ms without work."""
    idle_from = None
    while not has_input():
        if idle_from:
            truth["idle_ns"] += time.monotonic_ns() - idle_from
        launch(first)
        call("cuStreamSynchronize", first)
        idle_from = time.monotonic_ns()
        prepare_on_cpu()
        wait_for_input()


def events():
    """Likewise, with a wait for an event."""
    idle_from, event = None, ctypes.c_uint64()
    call("cuEventCreate", ctypes.byref(event), 0)
    while not has_input():
        if idle_from:
            truth["idle_ns"] += time.monotonic_ns() - idle_from
        launch(first)
        call("cuEventRecord", event, first)
        call("cuEventSynchronize", event)
        idle_from = time.monotonic_ns()
        wait_for_input()
        wait_for_input()


def full():
    """Two streams in turn: during a wait for one the other has work."""
    launch(first, 5000)
    launch(second, 10000)
    while not has_input():
        for stream in (first, second):
            call("cuStreamSynchronize", stream)
            prepare_on_cpu()
            launch(stream, 10000)


def other():
    """One thread waits for all streams, another enqueues more meanwhile."""
    stop = threading.Event()

    def feed():
        call("cuCtxSetCurrent", context)
        while not stop.is_set():
            launch(second, 3000)
            time.sleep(0.01)
    feeder = threading.Thread(target=feed)
    feeder.start()
    while not has_input():
        call("cuStreamSynchronize", first)
        prepare_on_cpu()
    stop.set()
    feeder.join()


def contexts():
    """A thread with its own context always has work there. A wait for all covers the streams of one context only."""
    stop, made = threading.Event(), threading.Event()

    def feed():
        other_context, stream = ctypes.c_uint64(), ctypes.c_uint64()
        call("cuCtxCreate_v2", ctypes.byref(other_context), BLOCKING, 0)
        call("cuStreamCreate", ctypes.byref(stream), 0)
        made.set()
        launch(stream, 40000)
        while not stop.is_set():
            launch(stream, 20000)
            time.sleep(0.2)
    feeder = threading.Thread(target=feed)
    feeder.start()
    made.wait()
    while not has_input():
        launch(first, 10)
        call("cuCtxSynchronize")
        wait_for_input()
        wait_for_input()
    stop.set()
    feeder.join()


def reused():
    """An event that was never recorded, with the handle of one that was: a wait for it covers nothing."""
    event = ctypes.c_uint64()
    call("cuEventCreate", ctypes.byref(event), 0)
    while not has_input():
        launch(first, 10000)
        call("cuEventRecord", event, first)
        before = event.value
        call("cuEventDestroy_v2", event)
        call("cuEventCreate", ctypes.byref(event), 0)
        assert event.value == before
        call("cuEventSynchronize", event)
        wait_for_input()


globals()[sys.argv[1]]()
print(json.dumps(truth), flush=True)
