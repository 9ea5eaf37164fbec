# SPDX-License-Identifier: Apache-2.0
"""The fake collector's other profile types: off-CPU time, states, memory, throttling, load shedding.

All follow a service's CPU usage: twice the CPU time, twice the off-CPU time.
"""

import functools
import math
import random

from contract import TYPE

CPU, BLOCKED, WAITING, WALL, THROTTLED = TYPE.CPU, TYPE.OFF_CPU, TYPE.SCHED_DELAY, TYPE.WALL, TYPE.THROTTLED
GROWTH, RESIDENT, FAULTS, OOM_KILLS = TYPE.PAGE_FAULT, TYPE.RSS, TYPE.MAJOR_FAULTS, TYPE.OOM_KILLS
EVENTS, OVERHEAD, SHEDDING_CHANGES, SHEDDING = TYPE.EVENTS, TYPE.OVERHEAD, TYPE.SHEDDING_CHANGES, TYPE.SHEDDING
GPU_SPIN, GPU_WAIT, GPU_LAUNCH, GPU_KERNEL, GPU_COPY = TYPE.GPU_SPIN, TYPE.GPU_WAIT, TYPE.GPU_LAUNCH, TYPE.GPU_KERNEL, TYPE.GPU_COPY
GPU_MEMORY, GPU_IDLE, GPU_IDLE_TIME, NCCL_SKEW = TYPE.GPU_MEMORY, TYPE.GPU_IDLE, TYPE.GPU_IDLE_TIME, TYPE.NCCL_SKEW
GPU_BUSY, GPU_POWER, GPU_TEMPERATURE, GPU_CLOCK = TYPE.GPU_BUSY, TYPE.GPU_POWER, TYPE.GPU_TEMPERATURE, TYPE.GPU_SM_CLOCK
OF_GPUS = [GPU_SPIN, GPU_WAIT, GPU_LAUNCH, GPU_KERNEL, GPU_COPY, GPU_MEMORY, GPU_IDLE, GPU_IDLE_TIME, NCCL_SKEW, GPU_BUSY, GPU_POWER, GPU_TEMPERATURE,
           GPU_CLOCK]
TYPES = [CPU, BLOCKED, WAITING, WALL, THROTTLED, GROWTH, RESIDENT, FAULTS, OOM_KILLS, EVENTS, OVERHEAD, SHEDDING_CHANGES, SHEDDING, *OF_GPUS]

# Blocked threads per core in use. The spike is lock contention.
WAITS = {"python": {"idle": 6.0, "gil": 0.7, "network": 0.42, "lock": 0.25, "poll": 0.16, "page_fault": 0.03, "gpu": 0.3, "other": 0.02},
         "native": {"idle": 4.0, "disk": 0.5, "lock": 0.3, "network": 0.3, "pipe": 0.12, "sleep": 0.2, "child": 0.05, "stopped": 0.01}}
SPIKE_LOCK = 3.0  # threads blocked on a lock per core of the spike
QUEUE = 0.11      # runnable threads per core in use
THROTTLED_SERVICE, THROTTLED_AGE_S, THROTTLED_S, THROTTLED_SHARE = "embedding-worker", 560, 75, 0.62
RESIDENT_BYTES = 620 << 20  # for each core in use
AGENT = "cairn-agent"
# Seconds before the collector's start; each step is active from then on.
CHANGES = [(400, "gpu-a1", {"knob": "off_cpu_unwind", "step": "1/4"}),
           (210, "gpu-a1", {"knob": "process_off_cpu", "step": "off", "pid": "4211", "comm": "llm-gateway"}),
           (150, "db-1", {"knob": "cpu_frequency", "step": "49Hz"})]
DROPS = [("samples", "gpu-a1", 900), ("ring_full", "gpu-a1", 4), ("counts_full", "gpu-a1", 0.5), ("ring_full", "gpu-a2", 1),
         # No loss: of the switches fewer than a twentieth. A loss without the word.
         ("switches", "gpu-a2", 9000), ("off_cpu_busy", "gpu-a2", 100), ("targets_full", "gpu-a2", 2)]  # counter, node, per s
PROGRAMS = {"switches": 0.006, "sampler": 0.0022, "agent": 0.0041}

# A service that trains on two GPUs of a node, for collectors that have GPUs. For each core in use: threads, kernels, bytes ...
TRAINER = {"trainer": (3.1, ["gpu-b7"], ["python3.11"], "python", False)}
GPU_RATES = {GPU_SPIN: [({}, 0.21)], GPU_WAIT: [({}, 0.33)], GPU_LAUNCH: [({}, 4100e-9)], GPU_KERNEL: [({}, 0.4)],
             GPU_COPY: [({"direction": "host_to_device"}, 0.41), ({"direction": "device_to_host"}, 0.05), ({"direction": "device_to_device"}, 0.11)],
             GPU_IDLE: [({}, 0.09)], GPU_IDLE_TIME: [({}, 0.13)], NCCL_SKEW: [({"rank": "0"}, 0.004), ({"rank": "1"}, 0.021)]}
GPU_LEVELS = {GPU_BUSY: (81, 94), GPU_POWER: (512_300, 604_900), GPU_TEMPERATURE: (58, 67), GPU_CLOCK: (1.755e9, 1.98e9)}
GPU_BYTES = 61 << 30

# What a thread does in each second of a timeline: shares of a slot, by the part of the second.
TIMELINE = [((CPU, ""), lambda part: 0.95 if part < 0.3 else 0.25 if 0.9 <= part else 0), ((WAITING, ""), lambda part: 0.8 if 0.3 <= part < 0.4 else 0),
            ((BLOCKED, "lock"), lambda part: 1 if 0.4 <= part < 0.7 else 0), ((BLOCKED, "gil"), lambda part: 1 if 0.7 <= part < 0.9 else 0)]

KERNEL_ENDS = {
    "idle": ["do_epoll_wait", "ep_poll"], "gil": ["do_futex", "futex_wait", "futex_wait_queue"],
    "lock": ["do_futex", "futex_wait", "futex_wait_queue"], "network": ["sock_recvmsg", "tcp_recvmsg", "sk_wait_data"],
    "poll": ["do_sys_poll", "poll_schedule_timeout"], "page_fault": ["handle_mm_fault", "filemap_fault", "folio_wait_bit_common"],
    "gpu": ["nvidia_ioctl", "os_acquire_semaphore"], "disk": ["ext4_file_read_iter", "filemap_read", "folio_wait_bit_common"],
    "pipe": ["vfs_read", "pipe_read"], "sleep": ["hrtimer_nanosleep", "do_nanosleep"], "child": ["kernel_wait4", "do_wait"],
    "stopped": ["get_signal", "do_signal_stop"], "other": ["do_something_else"],
}
LIBRARY_CALLS = {"idle": "epoll_wait", "gil": "take_gil", "lock": "pthread_mutex_lock", "network": "recv", "poll": "poll", "page_fault": "memcpy",
                 "gpu": "cuStreamSynchronize", "disk": "pread64", "pipe": "read", "sleep": "nanosleep", "child": "waitpid", "stopped": "raise",
                 "other": "syscall"}
CALLERS = {"python": ["Router.dispatch (router.py:88)", "Engine.generate (engine.py:231)", "TokenizerPool.encode (tokenizer.py:54)",
                      "BatchQueue.schedule (scheduler.py:140)", "Middleware.handle_request (app.py:73)"],
           "native": ["PostgresMain", "ExecProcNode", "exec_simple_query", "LWLockAcquire", "XLogInsertRecord"]}


def add_waits(tree, style, name, wait, kinds):
    """Stacks that wait for @wait, in the Tree @tree; weights sum to one."""
    native, kernel, python = kinds
    rng = random.Random(f"{name}/{wait}")
    program = "/usr/bin/python3.11" if style == "python" else f"/usr/bin/{name}"
    parts = [rng.random() + 0.05 for _ in range(3)]
    for part, caller in zip(parts, rng.sample(CALLERS[style], 3)):
        node = tree.add(0, ("_start", program, native))
        node = tree.add(node, ("main", program, native))
        node = tree.add(node, (caller, program, python if style == "python" else native))
        node = tree.add(node, (LIBRARY_CALLS[wait], "/usr/lib/libc.so.6", native))
        entry = "asm_exc_page_fault" if wait == "page_fault" else "entry_SYSCALL_64_after_hwframe"
        for function in [entry, "do_syscall_64", *KERNEL_ENDS[wait]]:
            node = tree.add(node, (function + "_[k]", "[kernel]", kernel))
        tree.self_weight[node] += part / sum(parts)


def unit_of(profile_type):
    return profile_type.split(":")[2]


def label_splits(profile_type, style):
    """[(labels that a series of @profile_type has more, factor of the usual load, factor of the spike)]."""
    if profile_type == CPU:
        return [({}, 1, 1)]
    if profile_type == BLOCKED:
        return [({"wait": wait}, factor, SPIKE_LOCK if wait == "lock" else 0) for wait, factor in WAITS[style].items()]
    if profile_type == WAITING:
        return [({}, QUEUE, 4 * QUEUE)]
    if profile_type == WALL:
        blocked = sum(WAITS[style].values())
        return [({"state": "running"}, 1, 1), ({"state": "run_queue"}, QUEUE, 4 * QUEUE), ({"state": "blocked"}, blocked, SPIKE_LOCK)]
    if profile_type == GROWTH:
        return [({}, (3 << 20) / 1e9, (40 << 20) / 1e9)]
    if profile_type == FAULTS:
        return [({}, 2e-9, 60e-9)]
    return [(labels, factor, 0) for labels, factor in GPU_RATES.get(profile_type, [])]


def gpu_level(profile_type, gpu, from_s, to_s):
    """A level of GPU number @gpu: a wave of some percent."""
    return round(GPU_LEVELS[profile_type][gpu] * (1 + 0.04 * math.sin(from_s / 23 + gpu)))


def throttled_ns(started_s, service, from_s, to_s):
    begin = started_s - THROTTLED_AGE_S
    inside_s = max(0, min(to_s, begin + THROTTLED_S) - max(from_s, begin))
    return int(inside_s * 1e9 * THROTTLED_SHARE) if service == THROTTLED_SERVICE else 0


def shedding_ns(since_s, until_s, from_s, to_s):
    return int(max(0, min(to_s, until_s) - max(from_s, since_s)) * 1e9)


def resident_bytes(mean_cores, started_s, at_s):
    return int(mean_cores * RESIDENT_BYTES * (1 + max(0, at_s - started_s + 1800) / 9000))


@functools.lru_cache(maxsize=1 << 15)
def cached_usage(data, name, from_s, to_s):
    """data.usage() of a range that is over: it no longer changes."""
    return data.usage(name, from_s, to_s)
