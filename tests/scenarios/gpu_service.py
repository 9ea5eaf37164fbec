# SPDX-License-Identifier: Apache-2.0
"""Test equipment: a training loop on the double of libcuda.so.1 (tests/gpu). On the word "SECONDS SIZE" on its standard input it has the
fault argv[1] for so long: "starved", its data loader is slow; "implicit_sync", it reads back a figure after each launch."""
import ctypes
import sys
import threading
import time

BLOCKS = 2000  # of the double: 10 us each
MIB = 1 << 20
BLOCKING = 4  # CU_CTX_SCHED_BLOCKING_SYNC

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        raise RuntimeError(f"{name}: {result}")


context, module, function, device = (ctypes.c_uint64() for _ in range(4))
host = ctypes.create_string_buffer(MIB)
fault = {"until": 0.0, "size": 0.0}


def in_fault(name):
    return sys.argv[1] == name and time.monotonic() < fault["until"]


def load_batch():
    """The data loader: nearly no work, unless it is slow."""
    time.sleep(0.15 + 0.5 * fault["size"] if in_fault("starved") else 0.002)


def read_loss():
    call("cuMemcpyDtoH_v2", host, device, ctypes.c_size_t(4))


def train_step():
    call("cuLaunchKernel", function, BLOCKS, 1, 1, 32, 1, 1, 0, None, None, None)
    call("cuStreamSynchronize", None)
    if sys.argv[1] == "implicit_sync":
        time.sleep(0.1)  # it does something else most of the time
    while in_fault("implicit_sync"):
        call("cuLaunchKernel", function, BLOCKS, 1, 1, 32, 1, 1, 0, None, None, None)
        read_loss()


def set_up():
    """The context is current in the thread that makes it."""
    call("cuInit", 0)
    call("cuCtxCreate_v2", ctypes.byref(context), BLOCKING, 0)
    call("cuModuleLoadData", ctypes.byref(module), b"image")
    call("cuModuleGetFunction", ctypes.byref(function), module, b"train")
    call("cuMemAlloc_v2", ctypes.byref(device), ctypes.c_size_t(MIB))


def train():
    set_up()
    while True:
        load_batch()
        train_step()


threading.Thread(target=train, daemon=True).start()
for line in sys.stdin:
    seconds, fault["size"] = map(float, line.split())
    fault["until"] = time.monotonic() + seconds
