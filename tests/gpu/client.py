# SPDX-License-Identifier: Apache-2.0
"""Test equipment: a Python client of the CUDA driver, by ctypes. Warms up until standard input has a byte, then does known amounts
of all kinds of calls, each in its own function, prints them as JSON, and serves until standard input ends."""
import ctypes
import json
import select
import sys
import time

KIB, MIB = 1 << 10, 1 << 20
BLOCK_NS = 10_000  # of the double, for each block of a GPU kernel


class Driver:
    """Calls raise an error if they fail."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            result = function(*arguments)
            if result:
                raise RuntimeError(f"{name}: {result}")
        return call


cuda = Driver()


def pointer(value=0):
    return ctypes.c_uint64(value)


def get_function(module, name):
    function = pointer()
    cuda.cuModuleGetFunction(ctypes.byref(function), module, name)
    return function


def launch(function, stream, blocks=1):
    cuda.cuLaunchKernel(function, blocks, 1, 1, 32, 1, 1, 0, stream, None, None)


def warm_up(function, stream):
    launch(function, stream, 100)
    cuda.cuStreamSynchronize(stream)


def wait_for_decode(function, stream, truth):
    """Waits of 50 ms each."""
    for _ in range(10):
        launch(function, stream, 5000)
        begin = time.monotonic_ns()
        cuda.cuStreamSynchronize(stream)
        truth["wait_ns"] += time.monotonic_ns() - begin


def load_batch(device, truth):
    memory = ctypes.create_string_buffer(MIB)
    for size in (100, 4096, 65536 + 7, MIB):
        cuda.cuMemcpyHtoD_v2(device, memory, ctypes.c_size_t(size))
        truth["to_device"] += size


def fetch_pinned(device, function, stream, truth):
    host = pointer()
    cuda.cuMemHostAlloc(ctypes.byref(host), ctypes.c_size_t(MIB), 0)
    launch(function, stream, 1000)
    for _ in range(3):
        cuda.cuMemcpyDtoHAsync_v2(host, device, ctypes.c_size_t(3 * KIB), stream)
        truth["to_host"] += 3 * KIB
    cuda.cuMemFreeHost(host)


def fetch_pageable(device, function, stream, truth):
    """As PyTorch's .cpu(): Async by name, but it blocks. Waits of 50 ms each."""
    memory = ctypes.create_string_buffer(5 * KIB)
    for _ in range(4):
        launch(function, stream, 5000)
        begin = time.monotonic_ns()
        cuda.cuMemcpyDtoHAsync_v2(memory, device, ctypes.c_size_t(5 * KIB), stream)
        truth["fetch_ns"] += time.monotonic_ns() - begin
        truth["to_host_pageable"] += 5 * KIB


def keep_weights(truth):
    kept = []
    for megabytes in (3, 5, 7):
        address = pointer()
        cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(megabytes * MIB))
        kept.append(address)
        truth["kept"] += megabytes * MIB
    return kept


def churn_scratch(truth):
    for _ in range(5):
        address = pointer()
        cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(2 * MIB))
        cuda.cuMemFree_v2(address)
        truth["churned"] += 2 * MIB


def grow_cache(truth):
    """Frees half of it."""
    cache = []
    for _ in range(4):
        address = pointer()
        cuda.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(2 * MIB), pointer())
        cache.append(address)
    for address in cache[:2]:
        cuda.cuMemFreeAsync(address, pointer())
    truth["cached"] += 4 * MIB
    return cache[2:]


def map_segments(truth):
    """As caching allocators do: released memory lives as long as it is mapped."""
    segments, properties = [], ctypes.create_string_buffer(64)  # CUmemAllocationProp
    for megabytes in (2, 4, 8):
        handle, address = pointer(), pointer()
        cuda.cuMemAddressReserve(ctypes.byref(address), ctypes.c_size_t(megabytes * MIB), 0, pointer(), 0)
        cuda.cuMemCreate(ctypes.byref(handle), ctypes.c_size_t(megabytes * MIB), properties, 0)
        cuda.cuMemMap(address, ctypes.c_size_t(megabytes * MIB), 0, handle, 0)
        segments.append((address, handle, megabytes * MIB))
    for address, handle, size in segments[:2]:
        cuda.cuMemRelease(handle)
    cuda.cuMemUnmap(segments[0][0], ctypes.c_size_t(segments[0][2]))
    truth["mapped"] += (4 + 8) * MIB
    return segments[1:]


def run_attention(function, stream):
    for _ in range(3):
        launch(function, stream, 3)


def run_mlp(function, stream):
    launch(function, stream, 3)


def capture_step(function, stream):
    """The capture ends in another function than the launches, as in PyTorch."""
    graph, executable = pointer(), pointer()
    cuda.cuStreamBeginCapture_v2(stream, 0)
    run_attention(function, stream)
    run_mlp(function, stream)
    cuda.cuStreamEndCapture(stream, ctypes.byref(graph))
    cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, pointer())
    cuda.cuGraphDestroy(graph)
    return executable


def run_head(function, stream):
    launch(function, stream)


def run_layer(function, stream):
    launch(function, stream)
    launch(function, stream)


def capture(run, function, stream):
    graph = pointer()
    cuda.cuStreamBeginCapture_v2(stream, 0)
    run(function, stream)
    cuda.cuStreamEndCapture(stream, ctypes.byref(graph))
    return graph


def replay_layers(function, stream, truth):
    """A graph with three child graphs."""
    model, layer = capture(run_head, function, stream), capture(run_layer, function, stream)
    node, executable = pointer(), pointer()
    for _ in range(3):
        cuda.cuGraphAddChildGraphNode(ctypes.byref(node), model, None, ctypes.c_size_t(0), layer)
    cuda.cuGraphInstantiateWithFlags(ctypes.byref(executable), model, pointer())
    for _ in range(10):
        cuda.cuGraphLaunch(executable, stream)
        truth["layered"] += 1
    cuda.cuStreamSynchronize(stream)


def replay(executable, stream, truth):
    for _ in range(40):
        cuda.cuGraphLaunch(executable, stream)
        truth["replays"] += 1
    cuda.cuStreamSynchronize(stream)


def spin(seconds):
    """CPU time for the sampler."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def has_input():
    return select.select([sys.stdin], [], [], 0)[0]


def decode_tokens(function, stream):
    for _ in range(20):
        launch(function, stream)
    cuda.cuStreamSynchronize(stream)


def wait_for_long(function, stream):
    launch(function, stream, 60_000_000)
    cuda.cuStreamSynchronize(stream)


def serve(function, stream):
    """Until standard input ends; an "h" makes it hang, a "w" wait for decoding again."""
    while True:
        order = sys.stdin.buffer.raw.read(1) if has_input() else b"x"
        if not order:
            return
        if order == b"h":
            wait_for_long(function, stream)
        elif order == b"w":
            wait_for_decode(function, stream, {"wait_ns": 0})
        spin(0.005)
        decode_tokens(function, stream)


def main():
    truth = dict.fromkeys(("wait_ns", "to_device", "to_host", "kept", "churned", "cached", "mapped",
                           "replays", "layered", "fetch_ns", "to_host_pageable"), 0)
    context, module, stream, device = pointer(), pointer(), pointer(), pointer()
    cuda.cuInit(0)
    cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
    cuda.cuModuleLoadData(ctypes.byref(module), b"image")
    cuda.cuStreamCreate(ctypes.byref(stream), 0)
    cuda.cuMemAlloc_v2(ctypes.byref(device), ctypes.c_size_t(MIB))
    function = get_function(module, b"early")
    while not has_input():
        spin(0.05)
        warm_up(function, stream)
    function = get_function(module, b"_Z6decodePfi")
    wait_for_decode(function, stream, truth)
    load_batch(device, truth)
    fetch_pinned(device, function, stream, truth)
    fetch_pageable(device, function, stream, truth)
    weights = keep_weights(truth)
    churn_scratch(truth)
    cache, segments = grow_cache(truth), map_segments(truth)
    replay(capture_step(function, stream), stream, truth)
    replay_layers(function, stream, truth)
    print(json.dumps(truth), flush=True)
    serve(function, stream)
    for address in weights:
        cuda.cuMemFree_v2(address)
    for address in cache:
        cuda.cuMemFreeAsync(address, pointer())
    for address, _, size in segments:
        cuda.cuMemUnmap(address, ctypes.c_size_t(size))


main()
