# SPDX-License-Identifier: Apache-2.0
"""Test equipment: a client of the double of libcuda.so.1 with the bottleneck argv[1], for argv[2] seconds. It sleeps in its waits, so
that a busy machine changes little."""
import ctypes
import select
import sys
import time

BLOCKS = 4000  # of the double: 10 us each
MIB = 1 << 20
BLOCKING = 4  # CU_CTX_SCHED_BLOCKING_SYNC

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        raise RuntimeError(f"{name}: {result}")


context, module, function, device = (ctypes.c_uint64() for _ in range(4))
call("cuInit", 0)
call("cuCtxCreate_v2", ctypes.byref(context), BLOCKING, 0)
call("cuModuleLoadData", ctypes.byref(module), b"image")
call("cuModuleGetFunction", ctypes.byref(function), module, b"decode")
call("cuMemAlloc_v2", ctypes.byref(device), ctypes.c_size_t(64 * MIB))
host = ctypes.create_string_buffer(64 * MIB)


def launch():
    call("cuLaunchKernel", function, BLOCKS, 1, 1, 32, 1, 1, 0, None, None, None)


def busy():
    launch()
    call("cuStreamSynchronize", None)


def implicit_sync():
    launch()
    call("cuMemcpyDtoH_v2", host, device, ctypes.c_size_t(4))


def copy_bound():
    call("cuMemcpyHtoD_v2", device, host, ctypes.c_size_t(64 * MIB))


def allocator():
    memory = ctypes.c_uint64()
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(MIB))
    launch()
    call("cuMemFree_v2", memory)


def no_demand():
    call("cuLaunchKernel", function, 100, 1, 1, 32, 1, 1, 0, None, None, None)
    call("cuStreamSynchronize", None)
    select.select([sys.stdin], [], [], 0.5)


def healthy():
    busy()
    time.sleep(0.08)


call("cuStreamSynchronize", None)
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    globals()[sys.argv[1]]()
