# SPDX-License-Identifier: Apache-2.0
"""What the fake collector stores: six services with Python, native and kernel frames, a tree of tens of thousands of nodes, and a
latency spike. The same seed gives the same data.
"""

import functools
import math
import random
import re
import time

import fake_profiles as profiles

UNKNOWN, NATIVE, KERNEL, PYTHON, JIT = range(5)

# Service: (cores on average, nodes, processes, share of Python, whether the spike hits it).
SERVICES = {
    "llm-gateway": (5.2, ["gpu-a1", "gpu-a2"], ["python3.11"], "python", True),
    "embedding-worker": (2.6, ["gpu-a1", "gpu-b7"], ["python3.11"], "python", False),
    "postgres.service": (1.7, ["db-1"], ["postgres"], "native", True),
    "envoy": (0.9, ["gpu-a1", "gpu-a2", "db-1"], ["envoy"], "native", False),
    "node-exporter": (0.12, ["gpu-a1", "gpu-a2", "gpu-b7", "db-1"], ["node_exporter"], "native", False),
    "kubelet.service": (0.31, ["gpu-a1", "gpu-b7"], ["kubelet"], "native", False),
}
SPIKE_AGE_S = 330  # the spike's start before the collector's start
SPIKE_S = 24

PY_STEMS = ["serve", "handle_request", "generate", "forward", "decode_step", "sample_token", "tokenize", "batch",
            "schedule", "attend", "rotary", "softmax", "dispatch", "validate", "encode", "stream_chunk", "poll", "run"]
PY_OWNERS = ["Engine", "Scheduler", "LlamaAttention", "Router", "TokenizerPool", "BatchQueue", "KVCache", "Middleware"]
PY_FILES = ["engine.py", "scheduler.py", "attention.py", "router.py", "tokenizer.py", "cache.py", "app.py", "module.py"]
CC_STEMS = ["run", "parse", "dispatch", "lookup", "insert", "flush", "encode", "copy", "compare", "reserve", "emplace"]
CC_SPACES = ["at::native", "c10", "at::cpu", "envoy::Http", "std::__detail", "tokenizers", "std"]
C_NAMES = ["_PyEval_EvalFrameDefault", "PyObject_Vectorcall", "cblas_sgemm", "sgemm_kernel_HASWELL", "malloc", "_int_free",
           "memcpy_avx_unaligned_erms", "ExecProcNode", "heapgettup_pagemode", "hash_search", "LWLockAcquire", "btgettuple",
           "XLogInsertRecord", "pthread_mutex_lock", "epoll_wait", "SSL_read", "inflate", "crc32c_sse42"]
KERNEL_CHAINS = [
    ["entry_SYSCALL_64_after_hwframe_[k]", "do_syscall_64_[k]", "ksys_read_[k]", "vfs_read_[k]", "copy_page_to_iter_[k]"],
    ["entry_SYSCALL_64_after_hwframe_[k]", "do_syscall_64_[k]", "__x64_sys_futex_[k]", "futex_wait_[k]", "schedule_[k]"],
    ["entry_SYSCALL_64_after_hwframe_[k]", "do_syscall_64_[k]", "tcp_sendmsg_[k]", "tcp_push_[k]", "__netif_receive_skb_[k]"],
    ["asm_exc_page_fault_[k]", "handle_mm_fault_[k]", "do_anonymous_page_[k]", "clear_page_erms_[k]"],
]


class Tree:
    """Nodes as (parent, name, module, kind, weight of self); weights of a service sum to one."""

    def __init__(self):
        self.parent, self.frame, self.self_weight = [0], [("total", "", UNKNOWN)], [0.0]
        self.children = {}

    def add(self, parent, frame, weight=0.0):
        key = (parent, frame)
        if key not in self.children:
            self.children[key] = len(self.parent)
            self.parent.append(parent)
            self.frame.append(frame)
            self.self_weight.append(0.0)
        node = self.children[key]
        self.self_weight[node] += weight
        return node


def python_frame(rng):
    name = f"{rng.choice(PY_OWNERS)}.{rng.choice(PY_STEMS)} ({rng.choice(PY_FILES)}:{rng.randrange(12, 900)})"
    return (name, "/usr/bin/python3.11", PYTHON)


def native_frame(rng):
    if rng.random() < 0.5:
        return (rng.choice(C_NAMES), rng.choice(["/usr/lib/libc.so.6", "/usr/bin/python3.11", "/usr/lib/libblas.so.3"]), NATIVE)
    stem = f"{rng.choice(CC_SPACES)}::{rng.choice(CC_STEMS)}_{rng.randrange(400)}"
    tail = rng.choice(["()", "(c10::TensorImpl*)", "<float, 4ul>(float const*, long)", "(std::string const&)"])
    return (stem + tail, "/usr/lib/libtorch_cpu.so", NATIVE)


def grow(tree, rng, node, style, depth, budget, weight):
    """Hang about @budget nodes of @weight together below @node."""
    if budget <= 1 or depth > 46:
        tree.self_weight[node] += weight
        return
    own = weight * rng.choice([0, 0, 0.02, 0.1])
    tree.self_weight[node] += own
    parts = [rng.random() ** 2.4 + 0.01 for _ in range(rng.choice([1, 1, 2, 2, 3, 4, 7]))]
    for part in parts:
        share = part / sum(parts)
        if depth > 5 and rng.random() < 0.09 and share * weight < 0.05:
            at = node
            for name in rng.choice(KERNEL_CHAINS):
                at = tree.add(at, (name, "[kernel]", KERNEL))
            tree.self_weight[at] += (weight - own) * share
            continue
        python = style == "python" and rng.random() < (0.75 if depth < 14 else 0.2)
        child = tree.add(node, python_frame(rng) if python else native_frame(rng))
        grow(tree, rng, child, style, depth + 1, (budget - 1) * share, (weight - own) * share)


def make_tree(name, style, size, seed):
    rng = random.Random(f"{name}/{seed}")
    tree = Tree()
    thread = tree.add(0, ("_start", "/usr/bin/" + ("python3.11" if style == "python" else name), NATIVE))
    main = tree.add(thread, ("main", "/usr/bin/" + ("python3.11" if style == "python" else name), NATIVE))
    if style == "python":
        main = tree.add(main, ("<module> (serve.py:1)", "/usr/bin/python3.11", PYTHON))
    grow(tree, rng, main, style, 3, size, 0.955)
    hot = main
    for frame in [("spin_hot", "/usr/lib/libhot.so", NATIVE), ("spin_inner", "/usr/lib/libhot.so", NATIVE),
                  ("spin_hot", "/usr/lib/libhot.so", NATIVE)]:
        hot = tree.add(hot, frame)
        tree.self_weight[hot] += 0.01  # recursion: counts once in total
    cut = tree.add(0, ("[truncated: no frame pointer]", "", UNKNOWN))
    tree.add(cut, ("libssl.so.3+0x1a2b3", "/usr/lib/libssl.so.3", UNKNOWN), 0.015)
    return tree


@functools.lru_cache(1 << 16)
def noise(name, second):
    return random.Random(f"{name}{second}").random() * 0.22


def without_line(frame):
    """The frame of a function, whatever its line."""
    return (re.sub(r":\d+\)$", ")", frame[0]), *frame[1:])


class MergedShape:
    """One tree of several: its nodes, and where the nodes of each are in it."""

    def __init__(self, trees, named=lambda frame: frame):
        """@trees: [(name of the node that they are below or None, tree)]. @named: of a frame, the one that is shown."""
        merged = Tree()
        self.places = []
        for group, tree in trees:
            place = [0 if group is None else merged.add(0, (group, "", UNKNOWN))]
            for node in range(1, len(tree.parent)):
                place.append(merged.add(place[tree.parent[node]], named(tree.frame[node])))
            self.places.append([(at, weight) for at, weight in zip(place[1:], tree.self_weight[1:]) if weight])
        self.parent, self.frame = merged.parent, merged.frame

    def fill(self, values):
        """(self, total) of each node when the trees have these values."""
        own = [0] * len(self.parent)
        for place, value in zip(self.places, values):
            for at, weight in place:
                own[at] += int(weight * value)
        total = list(own)
        for node in range(len(total) - 1, 0, -1):
            total[self.parent[node]] += total[node]
        return own, total

    @functools.cached_property
    def outermost(self):
        """Of each node: is no caller the same function?"""
        above, is_outermost = [frozenset()], [True]
        for parent, frame in zip(self.parent[1:], self.frame[1:]):
            is_outermost.append(frame not in above[parent])
            above.append(above[parent] | {frame} if is_outermost[-1] else above[parent])
        return is_outermost


class Data:
    """What the fake collector stores: for each service a tree of weights and a load over time."""

    def __init__(self, node_count=30000, seed=1, empty=False, services=None, age_s=7200):
        self.empty = empty
        self.age_s = age_s  # of the oldest sample when the collector started
        self.services = services or SERVICES
        cores = sum(s[0] for s in self.services.values()) or 1
        self.trees = {} if empty else {
            name: make_tree(name, s[3], max(40, node_count * s[0] / cores * 1.6), seed) for name, s in self.services.items()}
        self.hit = {name: make_tree(name + "-spike", s[3], 400, seed) for name, s in self.services.items() if s[4]}
        self.has_budget = True  # else agents report the overhead of GPU probes alone, when there are calls
        self.silent = None  # (from_s, to_s): no agent sent data
        self.excess = False  # a process has reached its quota of series
        self.has_gpus = bool(profiles.TRAINER.keys() & self.services.keys())
        self.begin_now()
        self.shedding = None  # [(node, setting, since, until)]; else each change is active from when it was made
        self.waits = {}

    def begin_now(self):
        """What is of a certain age has that age from now on: the spike, the quota, changes of load shedding."""
        self.started_s = time.time()
        self.changes = [] if self.empty else [(self.started_s - age, node, setting) for age, node, setting in profiles.CHANGES]
        profiles.cached_usage.cache_clear()

    def trees_of(self, service, wait):
        """The trees of a service's usual load and of its spike; of its waits of class @wait."""
        if not wait:
            return self.trees[service], self.hit.get(service)
        if (service, wait) not in self.waits:
            self.waits[service, wait] = Tree()
            profiles.add_waits(self.waits[service, wait], self.services[service][3], service, wait, (NATIVE, KERNEL, PYTHON))
        return self.waits[service, wait], self.waits[service, wait]

    def cores(self, name, at_s):
        """Cores in use at @at_s, without the spike."""
        mean = self.services[name][0]
        wave = 1 + 0.22 * math.sin(at_s / 47 + len(name)) + 0.1 * math.sin(at_s / 9.1 + 2 * len(name))
        return mean * (wave + noise(name, int(at_s)))

    def spike(self, name, at_s):
        begin = self.started_s - SPIKE_AGE_S
        return self.services[name][0] * 1.7 if self.services[name][4] and begin <= at_s < begin + SPIKE_S else 0.0

    def usage(self, name, from_s, to_s, what=None):
        """CPU nanoseconds of @name in a range: usual load, and the spike's."""
        if self.empty:
            return 0, 0
        from_s, to_s = max(from_s, self.started_s - self.age_s), min(to_s, time.time() - 2)
        steps = max(1, min(600, int((to_s - from_s) * 4)))
        width = (to_s - from_s) / steps
        if width <= 0:
            return 0, 0
        begin, end = self.silent or (0, 0)
        mids = [at for at in (from_s + (i + 0.5) * width for i in range(steps)) if not begin <= at < end]
        usual = sum(self.cores(name, t) for t in mids) * width
        extra = sum(self.spike(name, t) for t in mids) * width
        return int(usual * 1e9), int(extra * 1e9)
