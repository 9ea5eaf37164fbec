# SPDX-License-Identifier: Apache-2.0
"""Threads that stand still in known places, and then what their stacks are: for each frame the address
of its code object and the instruction it is at, as CPython itself knows them. Runs on 3.6 and newer
with whatever modules a build has."""
import functools
import os
import sys
import threading
import time

FOREVER = 3600
ANYWHERE = 0xffffffff  # an unknown instruction
# Before 3.12 a thread that has released the GIL leads to its outer state only.
SUBINTERPRETERS = "_interpreters" if sys.version_info >= (3, 13) else \
    "_xxsubinterpreters" if sys.version_info >= (3, 12) else "no such module"
places = {}
inner = {}  # code that threads run in a subinterpreter


def native_id():
    return int(os.readlink("/proc/thread-self").rsplit("/", 1)[1])


def hold(*_):
    """Here threads stand, with the GIL released."""
    time.sleep(FOREVER)
    return 0


def asleep():
    hold()


def at_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def recurse(depth):
    if depth:
        recurse(depth - 1)
    else:
        hold()


def recursion():
    recurse(100)


def deep_recursion():
    recurse(1000)


def in_sort():
    sorted([3, 1, 2], key=hold)


def in_reduce():
    functools.reduce(lambda a, b: hold(), [1, 2, 3])


def in_map():
    list(map(lambda x: recurse(3), [1]))


def in_comprehension():
    return [hold() for _ in range(2)]


def in_generator_expression():
    return sum(hold() for _ in range(2))


def leaf_generator():
    yield 1
    hold()
    yield 2


def middle_generator():
    yield from leaf_generator()


def in_generators():
    for _ in middle_generator():
        pass


async def leaf_coroutine():
    hold()


async def middle_coroutine():
    await leaf_coroutine()


def in_coroutines():
    try:
        middle_coroutine().send(None)
    except StopIteration:
        pass


def in_asyncio():
    import asyncio
    asyncio.new_event_loop().run_until_complete(middle_coroutine())


class Holder:
    def __init__(self, held=False):
        if held:
            hold()

    @property
    def value(self):
        return hold()

    def __lt__(self, other):
        return hold() is None

    def __enter__(self):
        hold()

    def __exit__(self, *_):
        pass

    def __call__(self, *arguments, **options):
        return hold()


def in_init():
    Holder(True)


def in_property():
    return Holder().value


def in_comparison():
    return Holder() < Holder()


def in_with():
    with Holder():
        pass


def in_call():
    Holder()(*[1], **{"a": 2})


def in_exec():
    exec("def inner():\n  hold()\ninner()", {"hold": hold})


def in_digest():
    import hashlib
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 1 << 30)


def in_crc():
    import zlib
    zlib.crc32(b"x" * 1000)
    hold()


def in_ctypes_callback():
    import ctypes
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    array = (ctypes.c_int * 3)(3, 1, 2)
    ctypes.CDLL(None).qsort(array, ctypes.c_size_t(3), ctypes.c_size_t(4), kind(hold))


def in_decorator():
    @functools.lru_cache(maxsize=None)
    def cached(x):
        return hold()
    cached(1)


INNER = """
import os, sys, time
frame = sys._getframe()
os.write(%d, b"%%d" %% id(frame.f_code))
time.sleep(%d)
"""


def in_subinterpreter():
    """It reports its own frames; the frames out here are in another thread state."""
    read_end, write_end = os.pipe()
    threading.Thread(target=read_inner, args=(native_id(), read_end), daemon=True).start()
    source = INNER % (write_end, FOREVER)
    if sys.version_info >= (3, 13):
        import _interpreters
        _interpreters.exec(_interpreters.create("legacy"), source)
    else:
        import _xxsubinterpreters
        _xxsubinterpreters.run_string(_xxsubinterpreters.create(), source)


def read_inner(thread, read_end):
    inner[thread] = int(os.read(read_end, 100))


def with_many_locals():
    a = b = c = d = e = f = g = h = i = j = k = m = n = o = p = q = 1
    hold()
    return a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q


MODULES = {in_asyncio: "asyncio", in_digest: "_hashlib", in_crc: "zlib",
           in_ctypes_callback: "ctypes", in_subinterpreter: SUBINTERPRETERS}


def stand(place):
    places[threading.get_ident()] = (place.__name__, native_id())
    place()


def has(place):
    try:
        __import__(MODULES.get(place, "sys"))
        return True
    except ImportError:
        return False


def report():
    """Reports the main thread's stack too."""
    while any(name == "in_subinterpreter" and thread not in inner
              for name, thread in places.values()):
        time.sleep(0.01)
    time.sleep(0.3)
    for ident, frame in sys._current_frames().items():
        if ident not in places:
            continue
        print("thread %d %s" % (places[ident][1], places[ident][0]))
        if places[ident][1] in inner:
            print("frame %d %d <inner>" % (inner[places[ident][1]], ANYWHERE))
            while frame.f_code.co_name != "in_subinterpreter":
                frame = frame.f_back
        while frame is not None:
            code = frame.f_code
            print("frame %d %d %s" % (id(code), frame.f_lasti // 2, code.co_name))
            frame = frame.f_back
    print("ready", flush=True)
    time.sleep(FOREVER)


def main():
    everything = [place for place in list(globals().values())
                  if callable(place) and getattr(place, "__name__", "").startswith(
                      ("in_", "asleep", "at_", "recursion", "deep_", "with_"))]
    sys.setrecursionlimit(5000)
    threading.stack_size(16 << 20)
    started = [threading.Thread(target=stand, args=(place,), daemon=True)
               for place in everything if has(place)]
    for thread in started:
        thread.start()
    while len(places) < len(started):
        time.sleep(0.01)
    threading.Thread(target=report, daemon=True).start()
    places[threading.get_ident()] = ("main", native_id())
    recurse(5)


main()
