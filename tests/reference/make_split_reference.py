#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints what real PyTorch's random_split gives; data_loader_test reads it as split_vectors.txt.

    python3 tests/reference/make_split_reference.py > tests/reference/split_vectors.txt

Lines: N SEED FRACTION,FRACTION,... : SUBSET SUBSET ...
A subset is its indices, as 4,3,6, or - if it has none; above 100 samples, its size and its first
four indices, as 54000:7,1,3,9.
"""
import warnings

import torch
from torch.utils.data import random_split

SIZES = (1, 2, 3, 5, 10, 11, 97, 1000, 60000)
SEEDS = (0, 42, 2**32 + 5)
FRACTIONS = ((1.0,), (0.5, 0.5), (0.9, 0.1), (0.3, 0.3, 0.4), (0.7, 0.2, 0.1), (0.0, 0.5, 0.5),
             (0.1,) * 10, (0.05, 0.15, 0.8), (0.6, 0.2, 0.2))


def joined(values):
    return ",".join(map(str, values)) or "-"


def shown(indices, n):
    return joined(indices) if n <= 100 else f"{len(indices)}:{joined(indices[:4])}"


def main():
    warnings.simplefilter("ignore")  # PyTorch warns of empty subsets
    print(f"# PyTorch {torch.__version__}; made by make_split_reference.py")
    for n in SIZES:
        for seed in SEEDS:
            for fractions in FRACTIONS:
                generator = torch.Generator().manual_seed(seed)
                try:
                    subsets = random_split(range(n), fractions, generator)
                except ValueError:
                    continue  # rounding makes their sum exceed 1, which PyTorch refuses
                print(n, seed, joined(fractions), ":", *(shown(s.indices, n) for s in subsets))


if __name__ == "__main__":
    main()
