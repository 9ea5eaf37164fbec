# SPDX-License-Identifier: Apache-2.0
"""Test equipment: launches argv[1] GPU kernels per second on the test driver for argv[2] seconds, at an even pace. Prints the Unix
time and the launches so far each second."""
import ctypes
import sys
import time

rate, seconds = float(sys.argv[1]), float(sys.argv[2])
cuda = ctypes.CDLL("libcuda.so.1")
context, module, stream, function = (ctypes.c_uint64() for _ in range(4))
assert cuda.cuInit(0) == 0
assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
assert cuda.cuModuleLoadData(ctypes.byref(module), b"image") == 0
assert cuda.cuStreamCreate(ctypes.byref(stream), 0) == 0
assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"step") == 0


def launch_steadily():
    begin = printed = time.monotonic()
    count = 0
    while time.monotonic() < begin + seconds:
        while count < (time.monotonic() - begin) * rate:
            assert cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, None, None) == 0
            count += 1
        if time.monotonic() > printed + 1:
            printed += 1
            print(time.time(), count, flush=True)
        time.sleep(0.002)


launch_steadily()
