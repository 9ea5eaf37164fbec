# SPDX-License-Identifier: Apache-2.0
"""Test equipment: an application with the CUPTI helper and the double of libcupti (in the folder argv[1]) that launches for argv[2]
seconds. Prints "ready" when the helper is loaded; with argv[3] "profiler" it subscribes first."""
import ctypes
import sys
import time

LAUNCH_KERNEL, GRAPH_LAUNCH = 307, 514

folder, seconds = sys.argv[1], float(sys.argv[2])
cupti = ctypes.CDLL(f"{folder}/libcupti.so.12")
launch = cupti.cupti_double_launch
launch.argtypes = [ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64]
if sys.argv[3:] == ["profiler"]:
    subscriber = ctypes.c_void_p()
    assert cupti.cuptiSubscribe(ctypes.byref(subscriber), None, None) == 0
assert ctypes.CDLL(f"{folder}/libcairn_cupti.so").InitializeInjection() == 1


def multiply():
    launch(LAUNCH_KERNEL, b"_Z4gemmPf", 1, 30000)


def normalize():
    launch(LAUNCH_KERNEL, b"softmax", 1, 10000)


def replay():
    launch(GRAPH_LAUNCH, None, 2, 5000)


print("ready", flush=True)
end = time.monotonic() + seconds
while time.monotonic() < end:
    multiply()
    normalize()
    replay()
    time.sleep(0.001)
