#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Python programs that say which frames they are in. Runs on CPython 3.6 and newer.

    chains.py SCENARIO [--seconds S] [--warm-up S] [--seed N]

A round calls through frames of the scenario's kind, drawn at random, and burns CPU at the end of
them. Just before, it notes all frames as the interpreter reports them (sys._getframe). At the end
each distinct chain is printed as a line of JSON: frames from the outside in, each [qualified name,
name, file, line, lines that the leaf burns in, how it was entered]. How: "python" (called by
Python code), "any" (it depends on the version), or a regular expression of a C function.

Until the warm-up is over threads are called "warm-up", then "truth". Seconds are of time that the
program ran.
"""
import argparse
import asyncio
import contextlib
import functools
import hashlib
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
import zlib

ROUNDS = random.Random()
CHAINS = set()
HERE = os.path.dirname(__file__)
ENTERED = {}  # by code object: how it is entered
LEAVES = {}  # by code object: first and last line of what burns
END = [0.0]
STRETCH_MAX = 8  # seconds last no longer than so many
BEGIN = [time.time(), 0.0]  # of this process, and how far its parent had come


def clock():
    """How far the program has come, in time that it ran: on a loaded machine it is sampled as often,
    and the agent, which is as slow there, gets as far in the warm-up."""
    return BEGIN[1] + max(sum(os.times()[:4]), (time.time() - BEGIN[0]) / STRETCH_MAX)


def name_thread(name):
    with open("/proc/thread-self/comm", "w") as file:
        file.write(name)


def entered(how):
    """Decorator without a frame of its own: says how the function is entered."""
    def mark(function):
        ENTERED[function.__code__] = how
        return function
    return mark


def announce():
    """Note the frames of the caller's chain."""
    frames = []
    frame = sys._getframe(1)
    leaf = frame.f_code
    while frame is not None:
        code = frame.f_code
        qualified = getattr(code, "co_qualname", code.co_name)
        lines = LEAVES.get(code) if code is leaf else None
        ours = os.path.dirname(code.co_filename) in (HERE, "")
        frames.append([qualified, code.co_name, code.co_filename, frame.f_lineno, lines,
                       ENTERED.get(code, "python" if ours else "any")])
        frame = frame.f_back
    CHAINS.add(json.dumps(frames[::-1]))


# ---- leaves ---------------------------------------------------------------------------------

def leaf(function):
    """Its loop is all lines below the call of announce()."""
    code = function.__code__
    with open(code.co_filename) as file:
        lines = file.read().splitlines()
    at = code.co_firstlineno - 1
    while "announce()" not in lines[at]:
        at += 1
    first = at + 2
    while at < len(lines) and (not lines[at] or lines[at][0] in " @" or at < first):
        at += 1
    LEAVES[code] = [first, at]
    return function


@leaf
def burn_loop():
    announce()
    total = 0
    for i in range(ROUNDS.randrange(60000, 300000)):
        total += i * i % 7
        if i % 3:
            total -= 1
    return total


@leaf
def burn_calls():
    announce()
    total = 0
    for i in range(ROUNDS.randrange(30000, 150000)):
        total += len(str(i)) + abs(-i)
        "a b c".split(" ")
    return total


@leaf
def burn_hash():
    announce()
    return hashlib.pbkdf2_hmac("sha256", b"password", b"salt", ROUNDS.randrange(5000, 25000))


DATA = os.urandom(1 << 20)


@leaf
def burn_digest():
    announce()
    for _ in range(ROUNDS.randrange(3, 12)):
        hashlib.sha1(DATA).digest()
        hashlib.sha512(DATA).digest()


@leaf
def burn_zlib():
    announce()
    return zlib.compress(DATA[:ROUNDS.randrange(200000, len(DATA))], 6)


numpy = values = None  # set by those who ask for it


@leaf
def burn_product():
    announce()
    square = values[:250000].reshape(500, 500)
    for _ in range(ROUNDS.randrange(1, 3)):
        square.dot(square)


@leaf
def burn_sort():
    announce()
    for _ in range(ROUNDS.randrange(2, 6)):
        numpy.sort(values)


@leaf
def burn_elements():
    announce()
    for _ in range(ROUNDS.randrange(1, 4)):
        numpy.sqrt(numpy.exp(numpy.sin(values)) + values).sum()


BURNS = [burn_loop, burn_calls, burn_hash, burn_digest, burn_zlib]
NUMPY = [burn_product, burn_sort, burn_elements]
INTERPRETED = [burn_loop, burn_calls]


def burn():
    ROUNDS.choice(BURNS)()
    return 0


# ---- frames: each takes the steps that are left ---------------------------------------------

def go_on(steps):
    if steps:
        return steps[0](steps[1:])
    return burn()


def plain(steps):
    value = 1
    value += 1 if go_on(steps) else 0
    return value


def several_lines(steps):
    return len((
        steps,
        2 * len(steps),
        go_on(
            steps
        ),
        3,
    ))


def in_try(steps):
    try:
        raise ValueError("x")
    except ValueError:
        go_on(steps)
    finally:
        steps = None


def in_finally(steps):
    try:
        pass
    finally:
        go_on(steps)


def in_with(steps):
    with open("/dev/null"):
        go_on(steps)


def nested(steps):
    unused = 0

    def inner(argument):
        nonlocal unused
        unused += argument
        return go_on(steps)
    return inner(1)


def by_lambda(steps):
    return (lambda: go_on(steps))()


@entered("any")
def keywords(steps, *others, a=1, **more):
    if others:
        return go_on(steps)
    return keywords(steps, 1, 2, a=a, b=3, **more)


class Box:
    def method(self, steps):
        return go_on(steps)

    @staticmethod
    def static(steps):
        return go_on(steps)

    @classmethod
    def of_class(cls, steps):
        return go_on(steps)

    class Inner:
        def deep_method(self, steps):
            return go_on(steps)


def method(steps):
    return Box().method(steps)


def static_method(steps):
    return Box.static(steps)


def class_method(steps):
    return Box.of_class(steps)


def inner_method(steps):
    return Box.Inner().deep_method(steps)


def wrapped_by(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


# Calls with *args are calls from C before 3.12.
@wrapped_by
@entered("any")
def decorated(steps):
    return go_on(steps)


def recursion(steps, depth=None):
    if depth is None:
        depth = ROUNDS.randrange(1, 20)
    if depth:
        return recursion(steps, depth - 1)
    return go_on(steps)


PLAIN = [plain, several_lines, in_try, in_finally, in_with, nested, by_lambda, keywords, method,
         static_method, class_method, inner_method, decorated, recursion]


# ---- out of C and back into Python ----------------------------------------------------------

def through_sorted(steps):
    @entered("list_sort|sorted|sort")
    def key_of(item):
        if item == 1:
            go_on(steps)
        return item
    sorted([1, 2], key=key_of)


def through_reduce(steps):
    @entered("reduce")
    def reducer(a, b):
        go_on(steps)
        return b
    functools.reduce(reducer, [1, 2])


def through_re(steps):
    @entered("pattern_sub|sub")
    def replacement(match):
        go_on(steps)
        return "y"
    re.sub("x", replacement, "axb")


def through_map(steps):
    @entered("map_next")
    def mapped(item):
        go_on(steps)
        return item
    list(map(mapped, [1]))


def through_partial(steps):
    @entered("partial")
    def target(a, b):
        go_on(steps)
        return a + b
    functools.partial(target, 1)(2)


class Rich:
    def __init__(self, steps, where):
        self.steps = steps
        if where == "init":
            go_on(steps)

    def __add__(self, other):
        return go_on(self.steps)

    def __getattr__(self, name):
        return go_on(self.steps)

    @property
    def value(self):
        return go_on(self.steps)

    def __len__(self):
        go_on(self.steps)
        return 1

    def __iter__(self):
        go_on(self.steps)
        return iter([1])

    def __hash__(self):
        go_on(self.steps)
        return 1


ENTERED.update({Rich.__init__.__code__: "any", Rich.__add__.__code__: "slot_nb_add|binary|slot",
                Rich.__getattr__.__code__: "any", Rich.value.fget.__code__: "any",
                Rich.__len__.__code__: "slot_sq_length|len|slot",
                Rich.__iter__.__code__: "slot_tp_iter|GetIter|slot",
                Rich.__hash__.__code__: "slot_tp_hash|hash|slot"})


def through_init(steps):
    Rich(steps, "init")


def through_add(steps):
    return Rich(steps, "") + 1


def through_getattr(steps):
    return Rich(steps, "").no_such_thing


def through_property(steps):
    return Rich(steps, "").value


def through_len(steps):
    return len(Rich(steps, ""))


def through_iter(steps):
    for item in Rich(steps, ""):
        steps = item


def through_hash(steps):
    return {Rich(steps, ""): 1}


CODE = compile("go_on(steps)\n", "<made up>", "exec")
ENTERED[CODE] = "exec"
EXPRESSION = compile("\n\ngo_on(steps)", "made_up.py", "eval")
ENTERED[EXPRESSION] = "eval"


def through_exec(steps):
    exec(CODE, {"steps": steps, "go_on": go_on})


def through_eval(steps):
    return eval(EXPRESSION, {"steps": steps, "go_on": go_on})


def through_cache(steps):
    @functools.lru_cache()
    @entered("lru|cache")
    def cached(_):
        return go_on(steps)
    cached(1)


CALLBACKS = [through_sorted, through_reduce, through_re, through_map, through_partial, through_init,
             through_add, through_getattr, through_property, through_len, through_iter,
             through_hash, through_exec, through_eval, through_cache]

try:
    import ctypes

    def through_ctypes(steps):
        @entered("closure|callback|ffi")
        def compare(a, b):
            go_on(steps)
            return 0
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        numbers = (ctypes.c_int * 2)(2, 1)
        ctypes.CDLL(None).qsort(numbers, 2, 4, prototype(compare))

    CALLBACKS.append(through_ctypes)
except ImportError:
    print("# SKIP ctypes: this interpreter was built without it", file=sys.stderr)


try:
    import calls_back  # calls_back.c beside this, if it is compiled

    def through_extension(steps):
        @entered("=call_back_deeper")
        def back():
            go_on(steps)
        calls_back.call(back)

    def through_extension_without_gil(steps):
        @entered("=call_without_gil")
        def back():
            go_on(steps)
        calls_back.call_without_gil(back)

    def through_thread_of_extension(steps):
        @entered("any")
        def back():
            go_on(steps)
        announce()  # what follows is another thread's
        calls_back.call_in_thread(back)

    EXTENSION = [through_extension, through_extension_without_gil, through_thread_of_extension]
except ImportError:
    EXTENSION = []


try:
    from greenlet import greenlet  # of PyPI: parts of the C stack are copied away and back

    def through_greenlet(steps):
        @entered("greenlet")
        def inside():
            go_on(steps)
        announce()  # what follows has frames of its own
        greenlet(inside).switch()

    def through_switches(steps):
        """Two switch to each other out of their calls."""
        @entered("greenlet")
        def first():
            announce()
            second.switch()
            go_on(steps)

        @entered("greenlet")
        def other():
            go_on(steps[:1])
            one.switch()
        one, second = greenlet(first), greenlet(other)
        announce()
        one.switch()

    GREENLETS = [through_greenlet, through_switches]
except ImportError:
    GREENLETS = []


# ---- generators and coroutines --------------------------------------------------------------

def through_generator(steps):
    def generate(count):
        yield 0
        for i in range(count):
            yield go_on(steps)
    ENTERED[generate.__code__] = "any"
    for _ in generate(1):
        pass


def through_yield_from(steps):
    def inner():
        yield go_on(steps)

    def outer():
        yield from inner()
    ENTERED[inner.__code__] = ENTERED[outer.__code__] = "any"
    for _ in outer():
        pass


def through_send(steps):
    def receive():
        while (yield) is None:
            pass
        go_on(steps)
        yield
    ENTERED[receive.__code__] = "any"
    generator = receive()
    next(generator)
    generator.send(1)


def through_comprehension(steps):
    return [go_on(steps) for _ in range(1)]


def through_sum(steps):
    return sum(1 if go_on(steps) else 0 for _ in range(1))


def through_context(steps):
    @contextlib.contextmanager
    def manage():
        go_on(steps)
        yield
    ENTERED[manage.__wrapped__.__code__] = "any"
    with manage():
        pass


ENTERED.update({code: "any" for function in (through_comprehension, through_sum)
                for code in function.__code__.co_consts if hasattr(code, "co_name")})
ENTERED[contextlib._GeneratorContextManager.__enter__.__code__] = "any"
ENTERED[contextlib.contextmanager.__code__] = "any"
ENTERED[contextlib._GeneratorContextManager.__init__.__code__] = "any"
GENERATORS = [through_generator, through_yield_from, through_send, through_comprehension,
              through_sum, through_context]


async def awaited(steps):
    await asyncio.sleep(0)
    if steps and ROUNDS.random() < 0.7:
        return await awaited(steps[1:])
    return go_on([step for step in steps if step in PLAIN])


async def worker(end):
    while clock() < end:
        steps = draw(PLAIN)
        await awaited(steps)
        await asyncio.gather(awaited(steps[:1]), awaited(draw(PLAIN)))


async def collect(end):
    await asyncio.gather(*[worker(end) for _ in range(3)])


ENTERED.update({function.__code__: "any" for function in (awaited, worker, collect)})


# ---- scenarios ------------------------------------------------------------------------------

def draw(kinds):
    return [ROUNDS.choice(kinds) for _ in range(ROUNDS.randrange(0, 12))]


def run_rounds(kinds, end):
    while clock() < end:
        go_on(draw(kinds))


def run_plain(end):
    run_rounds(PLAIN, end)


def run_callbacks(end):
    run_rounds(CALLBACKS + PLAIN[:5], end)


def run_extension(end):
    run_rounds(3 * EXTENSION[:2] + EXTENSION[2:] + PLAIN[:4], end)


def run_greenlets(end):
    run_rounds(2 * GREENLETS + PLAIN[:5] + CALLBACKS[:4], end)


def run_generators(end):
    run_rounds(GENERATORS + PLAIN[:5], end)


def run_asyncio(end):
    loop = asyncio.new_event_loop()
    loop.run_until_complete(collect(end))


def run_uvloop(end):
    """A loop that is written in Cython, over a library in C."""
    import uvloop
    uvloop.new_event_loop().run_until_complete(collect(end))


def run_deep(end):
    sys.setrecursionlimit(5000)
    BURNS[:] = INTERPRETED
    while clock() < end:
        recursion([], 1000)


@entered("any")
def in_thread(kinds, begin, end):
    name_thread("warm-up")
    run_rounds(kinds, begin)
    name_thread("truth")
    run_rounds(kinds, end)


def run_in_threads(kinds_of_each):
    begin = clock() + WARM_UP[0]
    threads = [threading.Thread(target=in_thread, args=(kinds, begin, END[0]))
               for kinds in kinds_of_each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def run_numpy(end):
    """Three that calculate side by side, without the GIL."""
    global numpy, values
    import numpy
    values = numpy.frombuffer(DATA, dtype=numpy.uint8)[:300000] * 1.5
    BURNS[:] = NUMPY
    run_in_threads((PLAIN, CALLBACKS, PLAIN))


def run_threads(end):
    """Two that release the GIL in native code while two others fight for it."""
    run_in_threads((PLAIN, CALLBACKS, PLAIN, GENERATORS))


def shared_file():
    """A descriptor of a file that children append to."""
    with tempfile.NamedTemporaryFile() as file:
        return os.open(file.name, os.O_RDWR | os.O_APPEND)


def take_chains(said):
    """Those that children have written."""
    with open(said, "rb") as file:
        file.seek(0)
        CHAINS.update(file.read().decode().splitlines())


def track_child(number, said, run):
    now = clock()
    child = os.fork()
    if child == 0:
        BEGIN[:] = [time.time(), now]
        ROUNDS.seed(number + 1000)
        run()
        name_thread("done")
        os.write(said, chain_lines())
        os._exit(0)
    return child


def run_processes(end):
    said = shared_file()
    children = [track_child(number, said, lambda: run_rounds(PLAIN + CALLBACKS, end))
                for number in range(2)]
    for child in children:
        os.waitpid(child, 0)
    take_chains(said)


def run_forks(end):
    """Children that live for one chain each: gone before anybody can look at them."""
    said = shared_file()
    number = 0
    while clock() < end:
        number += 1
        os.waitpid(track_child(number, said, lambda: go_on(draw(PLAIN))), 0)
    take_chains(said)


WARM_UP = [1.0]
SCENARIOS = {"plain": run_plain, "callbacks": run_callbacks, "generators": run_generators,
             "asyncio": run_asyncio, "deep": run_deep, "threads": run_threads,
             "processes": run_processes, "forks": run_forks, "extension": run_extension,
             "greenlets": run_greenlets, "numpy": run_numpy, "uvloop": run_uvloop}
ENTERED.update({threading.Thread.run.__code__: "any"})


def chain_lines():
    return "".join("%s\n" % chain for chain in sorted(CHAINS)).encode()


def print_chains():
    text = chain_lines()
    while text:
        text = text[os.write(1, text):]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=sorted(SCENARIOS))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warm-up", type=float, default=1)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    ROUNDS.seed(options.seed)
    print("seed", options.seed, flush=True)
    run = SCENARIOS[options.scenario]
    name_thread("warm-up")
    begin = clock()
    WARM_UP[0] = options.warm_up
    END[0] = begin + options.warm_up + options.seconds
    if options.scenario in ("threads", "numpy", "processes", "forks"):
        if options.scenario in ("processes", "forks"):
            run_plain(begin + options.warm_up)
            name_thread("truth")
        run(END[0])
    else:
        run(begin + options.warm_up)
        name_thread("truth")
        run(END[0])
    name_thread("done")
    print_chains()


if __name__ == "__main__":
    main()
