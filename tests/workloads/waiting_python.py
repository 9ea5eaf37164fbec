# SPDX-License-Identifier: Apache-2.0
"""Threads that wait at known lines, for tests of `cairn dump`. Prints one line of JSON: each
thread's own stack as sys._current_frames() has it, leaf first. Runs with Python 3.6 and newer."""
import json
import os
import sys
import threading
import time

LOCK = threading.Lock()
READ_END, WRITE_END = os.pipe()


def wait_for_lock():
    with LOCK:
        pass


def wait_for_pipe():
    os.read(READ_END, 1)


def wait_for_time():
    time.sleep(1000)


def through_c(then):
    """C between Python frames: sorted() calls back."""
    return sorted([2], key=lambda _: then())


def wait_through_c():
    through_c(wait_for_pipe)


class Waiter:
    def method(self):
        return list(self.generator())

    def generator(self):
        yield wait_for_time()


def wait_in_generator():
    Waiter().method()


def recurse(depth):
    if depth:
        return recurse(depth - 1)
    return wait_for_pipe()


def wait_deep():
    recurse(300)


def spin():
    while True:
        sum(range(50))


BODIES = [wait_for_lock, wait_for_pipe, wait_for_time, wait_through_c, wait_in_generator, wait_deep,
          spin, spin]


def stack_of(frame):
    frames = []
    while frame:
        code = frame.f_code
        frames.append([getattr(code, "co_qualname", code.co_name), os.path.basename(code.co_filename),
                       frame.f_lineno])
        frame = frame.f_back
    return frames


def main():
    sys.setrecursionlimit(5000)
    LOCK.acquire()
    threads = [threading.Thread(target=body, daemon=True) for body in BODIES]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    frames = sys._current_frames()
    stacks = [{"body": body.__name__, "stack": stack_of(frames[thread.ident])}
            for body, thread in zip(BODIES, threads)]
    print(json.dumps({"pid": os.getpid(), "version": list(sys.version_info[:2]), "threads": stacks}),
          flush=True)
    time.sleep(1000)


if __name__ == "__main__":
    main()
