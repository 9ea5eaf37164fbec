# SPDX-License-Identifier: Apache-2.0
"""What the fake collector has beside CPU time: waits, states, memory, throttling, and the agent's own doings.

All of it follows from a service's use of CPU: whoever computes twice as much also waits twice as much.
"""

import functools
import math
import random

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
BLOCKED = "off_cpu:blocked:nanoseconds:wall:nanoseconds"
WAITING = "sched_delay:wait:nanoseconds:wall:nanoseconds"
WALL = "wall:time:nanoseconds:wall:nanoseconds"
THROTTLED = "cpu_throttled:time:nanoseconds:wall:nanoseconds"
GROWTH = "memory:page_fault:bytes:page_fault:bytes"
RESIDENT = "memory:rss:bytes:gauge:second"
FAULTS = "memory:major_faults:count:event:count"
OOM_KILLS = "memory:oom_kills:count:event:count"
COST = "cairn:overhead:nanoseconds:wall:nanoseconds"
CHANGE = "cairn:shedding_changes:count:change:count"
IN_FORCE = "cairn:shedding:nanoseconds:wall:nanoseconds"
GPU_SPIN = "gpu_wait:spin:nanoseconds:cpu:nanoseconds"
GPU_WAIT = "gpu_wait:wait:nanoseconds:wall:nanoseconds"
GPU_LAUNCH = "gpu_launch:launches:count:launch:count"
GPU_KERNEL = "gpu_kernel:device_time:nanoseconds:gpu:nanoseconds"
GPU_COPY = "gpu_copy:bytes:bytes:copy:bytes"
GPU_MEMORY = "gpu_memory:inuse:bytes:gauge:second"
GPU_IDLE = "gpu_idle:idle:nanoseconds:wall:nanoseconds"
GPU_IDLE_TIME = "gpu_idle:time:nanoseconds:wall:nanoseconds"
NCCL_SKEW = "nccl:skew:nanoseconds:wall:nanoseconds"
GPU_BUSY = "gpu:busy:percent:gauge:second"
GPU_POWER = "gpu:power:milliwatts:gauge:second"
GPU_TEMPERATURE = "gpu:temperature:celsius:gauge:second"
GPU_CLOCK = "gpu:sm_clock:hertz:gauge:second"
OF_GPUS = [GPU_SPIN, GPU_WAIT, GPU_LAUNCH, GPU_KERNEL, GPU_COPY, GPU_MEMORY, GPU_IDLE, GPU_IDLE_TIME, NCCL_SKEW, GPU_BUSY, GPU_POWER, GPU_TEMPERATURE,
           GPU_CLOCK]
TYPES = [CPU, BLOCKED, WAITING, WALL, THROTTLED, GROWTH, RESIDENT, FAULTS, OOM_KILLS, COST, CHANGE, IN_FORCE, *OF_GPUS]

# Threads that wait, for each core in use. The spike is one of waiting for a lock.
WAITS = {"python": {"idle": 6.0, "gil": 0.7, "network": 0.42, "lock": 0.25, "poll": 0.16, "page_fault": 0.03, "gpu": 0.3, "other": 0.02},
         "native": {"idle": 4.0, "disk": 0.5, "lock": 0.3, "network": 0.3, "pipe": 0.12, "sleep": 0.2, "child": 0.05, "stopped": 0.01}}
SPIKE_LOCK = 3.0  # threads that wait for a lock, for each core that the spike uses
QUEUE = 0.11      # threads that wait for a CPU, for each core in use
THROTTLED_SERVICE, THROTTLED_AGE_S, THROTTLED_S, THROTTLED_SHARE = "embedding-worker", 560, 75, 0.62
RESIDENT_BYTES = 620 << 20  # for each core in use
AGENT = "cairn-agent"
# Seconds before the collector's start, and as the agents say it; each is in force from then on.
CHANGES = [(400, "gpu-a1", "stacks of waits at 1/4"), (210, "gpu-a1", "stacks of waits of llm-gateway (4211) off"),
           (150, "db-1", "sampling at 49 Hz")]
PROGRAMS = {"switches": 0.006, "sampler": 0.0022, "agent": 0.0041}

# A service that trains on two GPUs of a node, for collectors that have GPUs. For each core in use: threads, kernels, bytes ...
TRAINER = {"trainer": (3.1, ["gpu-b7"], ["python3.11"], "python", False)}
GPU_RATES = {GPU_SPIN: [({}, 0.21)], GPU_WAIT: [({}, 0.33)], GPU_LAUNCH: [({}, 4100e-9)], GPU_KERNEL: [({}, 0.4)],
             GPU_COPY: [({"direction": "host_to_device"}, 0.41), ({"direction": "device_to_host"}, 0.05), ({"direction": "device_to_device"}, 0.11)],
             GPU_IDLE: [({}, 0.09)], GPU_IDLE_TIME: [({}, 0.13)], NCCL_SKEW: [({"rank": "0"}, 0.004), ({"rank": "1"}, 0.021)]}
GPU_LEVELS = {GPU_BUSY: (81, 94), GPU_POWER: (512_300, 604_900), GPU_TEMPERATURE: (58, 67), GPU_CLOCK: (1.755e9, 1.98e9)}
GPU_BYTES = 61 << 30

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


def unit_of(lane):
    return lane.split(":")[2]


def label_splits(lane, style):
    """[(labels that a series of @lane has more, factor of the usual load, factor of the spike)]."""
    if lane == CPU:
        return [({}, 1, 1)]
    if lane == BLOCKED:
        return [({"wait": wait}, factor, SPIKE_LOCK if wait == "lock" else 0) for wait, factor in WAITS[style].items()]
    if lane == WAITING:
        return [({}, QUEUE, 4 * QUEUE)]
    if lane == WALL:
        blocked = sum(WAITS[style].values())
        return [({"state": "running"}, 1, 1), ({"state": "waiting"}, QUEUE, 4 * QUEUE), ({"state": "blocked"}, blocked, SPIKE_LOCK)]
    if lane == GROWTH:
        return [({}, (3 << 20) / 1e9, (40 << 20) / 1e9)]
    if lane == FAULTS:
        return [({}, 2e-9, 60e-9)]
    return [(labels, factor, 0) for labels, factor in GPU_RATES.get(lane, [])]


def gpu_level(lane, gpu, from_s, to_s):
    """A level of GPU number @gpu: a wave of some percent."""
    return round(GPU_LEVELS[lane][gpu] * (1 + 0.04 * math.sin(from_s / 23 + gpu)))


def throttled_ns(started_s, service, from_s, to_s):
    begin = started_s - THROTTLED_AGE_S
    inside_s = max(0, min(to_s, begin + THROTTLED_S) - max(from_s, begin))
    return int(inside_s * 1e9 * THROTTLED_SHARE) if service == THROTTLED_SERVICE else 0


def in_force_ns(since_s, until_s, from_s, to_s):
    return int(max(0, min(to_s, until_s) - max(from_s, since_s)) * 1e9)


def resident_bytes(mean_cores, started_s, at_s):
    return int(mean_cores * RESIDENT_BYTES * (1 + max(0, at_s - started_s + 1800) / 9000))


@functools.lru_cache(maxsize=1 << 15)
def remembered(data, name, from_s, to_s):
    """data.usage() of a range that is over: it does not change any more."""
    return data.usage(name, from_s, to_s)
