#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Python process whose memory is hostile to whoever reads it: its thread state is its own successor in the list of
thread states, and has no thread. Uses the CPU until it is killed, for two minutes at most.

    hostile_python.py
"""
import ctypes
import json
import threading
import time

NEXT = 8  # offset of PyThreadState.next, in every version
STATE_BYTES = 512  # the thread's id lies within


def main():
    ctypes.pythonapi.PyThreadState_Get.restype = ctypes.c_void_p
    state = ctypes.pythonapi.PyThreadState_Get()
    words = (ctypes.c_uint64 * (STATE_BYTES // 8)).from_address(state)
    thread = threading.get_ident()
    ids = [i for i, word in enumerate(words) if word == thread]
    assert ids, "the thread state names its thread"
    for i in ids:
        words[i] = 0
    words[NEXT // 8] = state
    print(json.dumps({"thread_ids": len(ids)}), flush=True)
    end = time.monotonic() + 120
    while time.monotonic() < end:
        sum(range(10000))


main()
