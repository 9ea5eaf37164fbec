# SPDX-License-Identifier: Apache-2.0
"""Two threads that both want the GIL, in functions of two names: each function's waker is
the other one. Prints its pid, then runs until it is killed."""

import ctypes
import os
import signal
import threading


def add_up(rounds):
    total = 0
    for number in range(rounds):
        total += number
    return total


def first_counts():
    while True:
        add_up(20000)


def second_counts():
    while True:
        add_up(20000)


ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
for body in (first_counts, second_counts):
    threading.Thread(target=body, name=body.__name__, daemon=True).start()
print(os.getpid(), flush=True)
signal.pause()
