#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small transformer on PyTorch's CPU threads, for ever: random batches, and Python work between
them as a tokenizer does. Counts its work in a file that others may read.

    torch_inference.py COUNTER_FILE [--seed N]
"""
import argparse
import mmap
import random
import struct
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mix = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def attend(self, x):
        y = self.norm(x)
        return self.attention(y, y, y, need_weights=False)[0]

    def forward(self, x):
        x = x + self.attend(x)
        return x + self.mix(self.norm(x))


class Model(nn.Module):
    def __init__(self, width=192, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width, 4) for _ in range(depth)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def tokenize(rounds):
    words = {}
    for i in range(rounds):
        word = "w%d" % (i * 7919 % 997)
        words[word] = words.get(word, 0) + len(word)
    return words


def serve(model, chance, count):
    with torch.no_grad():
        while True:
            batch, tokens = chance.randrange(1, 4), chance.randrange(16, 160)
            tokenize(50 * batch * tokens)  # work of all kinds grows with what is counted
            model(torch.randn(batch, tokens, 192))
            count(batch * tokens)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counter")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    with open(options.counter, "w+b") as file:
        file.write(bytes(mmap.PAGESIZE))
        file.flush()
        shared = mmap.mmap(file.fileno(), mmap.PAGESIZE)
    done = [0]

    def count(tokens):
        done[0] += tokens
        shared[:8] = struct.pack("<Q", done[0])

    serve(Model().eval(), random.Random(options.seed), count)


if __name__ == "__main__":
    main()
