# SPDX-License-Identifier: Apache-2.0
"""Two threads that both want the GIL, in functions of two names: each function's waker is
the other one. Prints its pid, then runs until it is killed."""

import ctypes
import os
import signal
import threading


# Each call holds the GIL for some 20 ms: who waits for it has long been asleep when it is released, and has a waker. If the owner let go
# at once, as between bytecodes, the other thread might not have slept yet.
NUMBERS = range(1_000_000)


def first_counts():
    while True:
        sum(NUMBERS)


def second_counts():
    while True:
        sum(NUMBERS)


ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
for body in (first_counts, second_counts):
    threading.Thread(target=body, name=body.__name__, daemon=True).start()
print(os.getpid(), flush=True)
signal.pause()
