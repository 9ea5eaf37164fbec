#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch on its CPU threads, under Python frames that are known: as chains.py, with operators of
PyTorch as leaves, and modules and autograd between.

    torch_chains.py [--seconds S] [--warm-up S] [--seed N]

PyTorch's own threads are called "pool".
"""
import argparse
import time

import torch
from torch import nn

import chains
from chains import LEAVES, ROUNDS, announce, entered, leaf, name_thread, print_chains


@leaf
def burn_matmul():
    announce()
    torch.mm(torch.ones(ROUNDS.randrange(150, 500), 400), torch.ones(400, ROUNDS.randrange(150, 500)))


@leaf
def burn_convolution():
    announce()
    # PyTorch makes code for each shape; a service has some.
    nn.functional.conv2d(torch.ones(2, 16, 64, ROUNDS.randrange(150, 500, 25)), torch.ones(16, 16, 3, 3))


@leaf
def burn_elements():
    announce()
    torch.exp(torch.ones(ROUNDS.randrange(150, 500), 2000)).sum()


@leaf
def burn_sort():
    announce()
    torch.sort(torch.rand(ROUNDS.randrange(150, 500) * 300))


class Layer(nn.Module):
    """Burns in forward(), which torch.nn.Module.__call__ calls."""

    steps = ()

    @entered("any")
    def forward(self, x):
        chains.go_on(self.steps)
        return x


class Function(torch.autograd.Function):
    """Burns in forward(), or in backward() on the autograd engine's way back into Python. What they
    multiply at their end takes time of its own."""

    @staticmethod
    @entered("any")
    def forward(ctx, x, steps, at_once):
        ctx.steps = steps
        if at_once:
            chains.go_on(steps)
        return announce() or x * 2

    @staticmethod
    @entered("any")
    def backward(ctx, grad):
        chains.go_on(ctx.steps)
        return announce() or grad * 2, None, None


def through_module(steps):
    layer = Layer()
    layer.steps = steps
    return layer(torch.ones(1))


def through_function(steps):
    with torch.enable_grad():
        return Function.apply(torch.ones(1, requires_grad=True), steps, True)


def through_backward(steps):
    with torch.enable_grad():  # off within backward()
        x = torch.ones(1, requires_grad=True)
        Function.apply(x, steps, False).backward()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warm-up", type=float, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    ROUNDS.seed(options.seed)
    print("seed", options.seed, flush=True)
    name_thread("pool")  # threads that PyTorch starts now keep this name
    burn_matmul()
    chains.CHAINS.clear()
    name_thread("warm-up")
    chains.BURNS[:] = [burn_matmul, burn_convolution, burn_elements, burn_sort]
    kinds = [through_module, through_function, through_backward] + chains.PLAIN[:8]
    begin = chains.clock() + options.warm_up
    chains.run_rounds(kinds, begin)
    name_thread("truth")
    chains.run_rounds(kinds, begin + options.seconds)
    name_thread("done")
    print_chains()


if __name__ == "__main__":
    main()
