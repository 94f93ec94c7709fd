#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what real PyTorch deals out; samplers_test reads it as sampler_vectors.txt.

    python3 tests/reference/make_sampler_reference.py > tests/reference/sampler_vectors.txt

Lines, with hashes in hexadecimal:
    randperm N SEED HASH
    sampler N WORLD_SIZE SEED EPOCH SHUFFLE DROP_LAST HASH_OF_RANK_0 HASH_OF_RANK_1 ...
A hash is 64-bit FNV-1a over whole integers: h = 1469598103934665603, then for each index x in order
h = (h ^ x) * 1099511628211.
"""
import torch
from torch.utils.data import DistributedSampler

SIZES = (0, 1, 10, 97, 1000, 60000, 1000000)
SEEDS = (0, 42, 2**32 + 5, 2**64 - 1)


def fnv(values):
    h = 1469598103934665603
    for value in values:
        h = ((h ^ value) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def print_randperm(n, seed):
    generator = torch.Generator()
    generator.manual_seed(seed)
    print("randperm", n, seed, fnv(torch.randperm(n, generator=generator).tolist()))


def print_sampler(n, world_size, seed, epoch, shuffle, drop_last):
    hashes = []
    for rank in range(world_size):
        sampler = DistributedSampler(range(n), world_size, rank, shuffle, seed, drop_last)
        sampler.set_epoch(epoch)
        hashes.append(fnv(sampler))
    print("sampler", n, world_size, seed, epoch, int(shuffle), int(drop_last), *hashes)


def main():
    print(f"# PyTorch {torch.__version__}; made by make_sampler_reference.py")
    for n in SIZES:
        for seed in SEEDS:
            print_randperm(n, seed)
    for n in SIZES:
        for world_size in range(1, 17):
            for drop_last in (False, True):
                print_sampler(n, world_size, n % 7, world_size, True, drop_last)
    for world_size in range(1, 17):
        print_sampler(97, world_size, 0, 0, False, world_size % 2 == 0)


if __name__ == "__main__":
    main()
