# SPDX-License-Identifier: Apache-2.0
"""Workloads with known bottlenecks that tests/gpu/h200.sh runs on a real GPU, with PyTorch.

    python3 h200_workloads.py NAME SECONDS

prints one line of JSON at its end: its own counts, to compare with cairn's."""
import json
import sys
import threading
import time

try:
    import torch
except ImportError:  # --list needs none
    torch = None

SIZE = 8192


def until(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def gemm(seconds):
    """Large products with waits: the tensor cores are the bottleneck."""
    a = torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
    launches = 0
    for _ in until(seconds):
        for _ in range(20):
            torch.matmul(a, a)
            launches += 1
        torch.cuda.synchronize()
    return {"launches": launches}


def stream_memory(seconds):
    """Reads the weights for each token, as decoding does: memory bandwidth is the bottleneck."""
    weights = torch.randn(SIZE * 4, SIZE, device="cuda", dtype=torch.bfloat16)
    token = torch.randn(SIZE, device="cuda", dtype=torch.bfloat16)
    launches = 0
    for _ in until(seconds):
        for _ in range(50):
            torch.mv(weights, token)
            launches += 1
        torch.cuda.synchronize()
    return {"launches": launches}


def tiny_kernels(seconds):
    """GPU kernels of microseconds, launched one by one, with few waits."""
    x = torch.ones(64, device="cuda")
    launches = 0
    for _ in until(seconds):
        for _ in range(10000):
            x.add_(1)
            launches += 1
        torch.cuda.synchronize()
    return {"launches": launches}


def copies(seconds, pinned):
    host = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=pinned)
    bytes_copied = 0
    for _ in until(seconds):
        host.to("cuda")
        bytes_copied += host.numel()
    torch.cuda.synchronize()
    return {"bytes_to_device": bytes_copied, "pinned": pinned}


def item_each_step(seconds):
    """Reads a scalar in each step, and runs Python while the GPU is idle."""
    a = torch.randn(2048, 2048, device="cuda")
    waits, spent = 0, 0
    for _ in until(seconds):
        spent += (a @ a).sum().item()
        waits += 1
        sum(range(20000))
    return {"waits": waits}


def python_between(seconds):
    a = torch.randn(1024, 1024, device="cuda")
    steps = 0
    for _ in until(seconds):
        a @ a
        torch.cuda.synchronize()
        sum(range(500000))
        steps += 1
    return {"steps": steps}


def idle_truth(seconds):
    """As python_between, with the GPU's own clock: its work is between two events, and a wait ends each step."""
    a = torch.randn(4096, 4096, device="cuda")
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    steps, busy_s, started = 0, 0.0, time.monotonic()
    for _ in until(seconds):
        begin.record()
        a @ a
        end.record()
        torch.cuda.synchronize()
        busy_s += begin.elapsed_time(end) / 1000
        sum(range(2000000))
        steps += 1
    wall_s = time.monotonic() - started
    return {"steps": steps, "busy_s": round(busy_s, 3), "idle_share_at_most": round(1 - busy_s / wall_s, 4)}


def triton_kernels(seconds):
    """Triton kernels by Inductor: launched by the driver API, without the runtime."""
    run = torch.compile(lambda x: torch.relu(x * 2 + 1))
    x = torch.randn(1 << 20, device="cuda")
    run(x)
    return counted(seconds, lambda: run(x))


def cublas(seconds):
    a = torch.randn(512, 512, device="cuda")
    return counted(seconds, lambda: torch.mm(a, a))


def nccl_one(seconds):
    """A communicator of one rank: its calls count as well."""
    import os
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29555")
    torch.distributed.init_process_group("nccl", rank=0, world_size=1)
    x = torch.ones(1 << 20, device="cuda")
    calls = 0
    for _ in until(seconds):
        torch.distributed.all_reduce(x)
        torch.cuda.synchronize()
        calls += 1
        time.sleep(0.001)
    torch.distributed.destroy_process_group()
    return {"nccl_calls": calls}


def counted(seconds, step):
    """Launches of @step as torch.profiler counts them in some steps, times all steps."""
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA,
                                            torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(100):
            step()
        torch.cuda.synchronize()
    launches = sum(event.name.startswith(("cudaLaunchKernel", "cuLaunchKernel")) for event in profile.events())
    steps = 100
    for _ in until(seconds):
        step()
        steps += 1
        if steps % 100 == 0:
            torch.cuda.synchronize()
            time.sleep(0.01)
    return {"launches": round(steps * launches / 100), "steps": steps, "launches_each": launches / 100}


class Images(torch.utils.data.Dataset if torch else object):
    def __len__(self):
        return 1 << 30

    def __getitem__(self, at):
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass
        return torch.zeros(1024)


def starved(seconds):
    """Two workers prepare input that the GPU could consume a thousand times faster."""
    model = torch.nn.Linear(1024, 1024).cuda()
    batches = 0
    end = time.monotonic() + seconds
    for batch in torch.utils.data.DataLoader(Images(), batch_size=8, num_workers=2):
        model(batch.cuda()).sum()
        batches += 1
        if time.monotonic() > end:
            break
    return {"batches": batches}


def allocate(seconds):
    calls = 0
    for _ in until(seconds):
        torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        torch.cuda.empty_cache()
        calls += 1
    return {"allocations": calls}


def graphs(seconds):
    x = torch.randn(512, 512, device="cuda")
    warm = torch.cuda.Stream()
    with torch.cuda.stream(warm):
        for _ in range(3):
            y = x
            for _ in range(20):
                y = torch.relu(y @ x)
    torch.cuda.synchronize()
    time.sleep(10)  # the agent has measured few launches, so it sees the first capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x
        for _ in range(20):
            y = torch.relu(y @ x)
    replays = 0
    for _ in until(seconds):
        graph.replay()
        replays += 1
        if replays % 100 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return {"replays": replays, "nodes_at_least": 40 * replays}


class DriverGraphs:
    """CUDA graph calls of the driver API: PyTorch has none for child graphs and updates."""

    def __init__(self):
        import ctypes
        self.ctypes, self.cuda = ctypes, ctypes.CDLL("libcuda.so.1")
        self.stream = torch.cuda.Stream()

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result:
            raise RuntimeError(f"{name}: {result}")

    def handle(self):
        return self.ctypes.c_void_p()

    def capture(self, work):
        graph = self.handle()
        with torch.cuda.stream(self.stream):
            self.call("cuStreamBeginCapture_v2", self.ctypes.c_void_p(self.stream.cuda_stream), 2)  # relaxed
            work()
            self.call("cuStreamEndCapture", self.ctypes.c_void_p(self.stream.cuda_stream), self.ctypes.byref(graph))
        return graph

    def instantiate(self, graph):
        exec_ = self.handle()
        self.call("cuGraphInstantiateWithFlags", self.ctypes.byref(exec_), graph, self.ctypes.c_ulonglong(0))
        return exec_

    def add_child(self, graph, child):
        node = self.handle()
        self.call("cuGraphAddChildGraphNode", self.ctypes.byref(node), graph, None, self.ctypes.c_size_t(0), child)

    def launch(self, exec_):
        self.call("cuGraphLaunch", exec_, self.ctypes.c_void_p(self.stream.cuda_stream))


def child_graphs(seconds):
    """A graph of two GPU kernels with two child graphs of three each; a clone; an updated executable graph."""
    x = torch.zeros(512, device="cuda")
    driver = DriverGraphs()

    def step(kernels):
        for _ in range(kernels):
            x.add_(1)
    with torch.cuda.stream(driver.stream):
        step(1)
    torch.cuda.synchronize()
    time.sleep(10)  # as in graphs
    parent, child, other = (driver.capture(lambda n=n: step(n)) for n in (2, 3, 3))
    driver.add_child(parent, child)
    driver.add_child(parent, child)
    clone, info = driver.handle(), (driver.ctypes.c_uint64 * 4)()
    driver.call("cuGraphClone", driver.ctypes.byref(clone), child)
    with_children, updated = driver.instantiate(parent), driver.instantiate(clone)
    driver.call("cuGraphExecUpdate_v2", updated, other, info)
    replays = 0
    for _ in until(seconds):
        driver.launch(with_children)
        driver.launch(updated)
        replays += 2
        if replays % 100 == 0:
            torch.cuda.synchronize()
            time.sleep(0.001)
    torch.cuda.synchronize()
    return {"replays": replays, "nodes": replays // 2 * (2 + 3 + 3 + 3)}


def overlapped(seconds):
    """Healthy: copies on their own stream beside the previous step, results read now and then."""
    host = torch.empty(4 << 20, dtype=torch.uint8, pin_memory=True)
    a = torch.randn(2048, 2048, device="cuda")
    side = torch.cuda.Stream()
    steps = 0
    for _ in until(seconds):
        with torch.cuda.stream(side):
            host.to("cuda", non_blocking=True)
        a @ a
        sum(range(3000))
        steps += 1
        if steps % 50 == 0:
            torch.cuda.synchronize()
    return {"steps": steps}


def idle(seconds):
    torch.ones(1, device="cuda")
    torch.cuda.synchronize()
    threading.Event().wait(seconds)
    return {}


def profiled(seconds):
    """torch.profiler's counts of launches, and whether it gets any beside CUPTI sessions."""
    x = torch.ones(64, device="cuda")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA,
                                            torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in until(seconds):
            x.add_(1)
            time.sleep(0.001)
        torch.cuda.synchronize()
    names = [event.name for event in profile.events()]
    return {"launches": sum(name.startswith(("cudaLaunchKernel", "cuLaunchKernel")) for name in names),
            "events": len(names)}


WORKLOADS = {
    "gemm": (gemm, "gpu_compute_bound"),
    "stream_memory": (stream_memory, "gpu_memory_bound"),
    "tiny_kernels": (tiny_kernels, "gpu_launch_bound"),
    "copies_pageable": (lambda seconds: copies(seconds, False), "gpu_copy_bound"),
    "copies_pinned": (lambda seconds: copies(seconds, True), "gpu_copy_bound"),
    "item_each_step": (item_each_step, "gpu_implicit_sync"),
    "python_between": (python_between, "gpu_cpu_bound"),
    "starved": (starved, "gpu_starved"),
    "allocate": (allocate, "gpu_allocator"),
    "overlapped": (overlapped, "none of the GPU's"),
    "idle": (idle, "no_demand"),
    "idle_truth": (idle_truth, ""),
    "triton_kernels": (triton_kernels, ""),
    "cublas": (cublas, ""),
    "nccl_one": (nccl_one, ""),
    "graphs": (graphs, ""),
    "child_graphs": (child_graphs, ""),
    "profiled": (profiled, ""),
}

if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print("\n".join(f"{name}\t{verdict}" for name, (_, verdict) in WORKLOADS.items()))
        sys.exit()
    print(json.dumps(WORKLOADS[sys.argv[1]][0](float(sys.argv[2]))), flush=True)
