#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what real PyTorch deals out; samplers_test reads it as sampler_vectors.txt.

    python3 tests/reference/make_sampler_reference.py > tests/reference/sampler_vectors.txt

Lines, with hashes in hexadecimal and CASE = N WORLD_SIZE SEED EPOCH SHUFFLE DROP_LAST:
    randperm N SEED HASH
    lists CASE RANK_0 RANK_1 ...      each rank's indices, as 4,3,6, or - if it has none
    sampler CASE FIRST HASH           FIRST: up to four indices of rank 0, or - if it has none
A hash is 64-bit FNV-1a over whole integers: h = 1469598103934665603, then for each x in order
h = (h ^ x) * 1099511628211. For a permutation the x are its values; for a sampler, rank after
rank, the number of its indices and then these.
"""
import torch
from torch.utils.data import DistributedSampler

PERMUTED = (0, 1, 2, 10, 97, 624, 625, 1000, 60000, 1000000)
LISTED = range(0, 11)
HASHED = (13, 16, 31, 32, 33, 64, 97, 100, 240, 1000, 1009, 10000, 60000, 65537, 1000000)
SEEDS = (0, 1, 42, 2**32 - 1, 2**32 + 5, 2**63, 2**64 - 1000)
EPOCHS = (0, 1, 2, 999)


def fnv(values):
    h = 1469598103934665603
    for value in values:
        h = ((h ^ value) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def joined(values):
    return ",".join(map(str, values)) or "-"


def print_randperm(n, seed):
    generator = torch.Generator()
    generator.manual_seed(seed)
    print("randperm", n, seed, fnv(torch.randperm(n, generator=generator).tolist()))


def dealt(n, world_size, seed, epoch, shuffle, drop_last):
    ranks = []
    for rank in range(world_size):
        sampler = DistributedSampler(range(n), world_size, rank, shuffle, seed, drop_last)
        sampler.set_epoch(epoch)
        ranks.append(list(sampler))
        assert len(ranks[-1]) == len(sampler)
    return ranks


def cases(n):
    for world_size in range(1, 17):
        seed = SEEDS[(n + world_size) % len(SEEDS)]
        epoch = EPOCHS[(n + 3 * world_size) % len(EPOCHS)]
        for shuffle in (False, True):
            for drop_last in (False, True):
                yield n, world_size, seed, epoch, shuffle, drop_last


def main():
    print(f"# PyTorch {torch.__version__}; made by make_sampler_reference.py")
    for n in PERMUTED:
        for seed in SEEDS:
            print_randperm(n, seed)
    for n in LISTED:
        for case in cases(n):
            print("lists", *map(int, case), *map(joined, dealt(*case)))
    for n in HASHED:
        for case in cases(n):
            ranks = dealt(*case)
            values = (x for indices in ranks for x in (len(indices), *indices))
            print("sampler", *map(int, case), joined(ranks[0][:4]), fnv(values))


if __name__ == "__main__":
    main()
