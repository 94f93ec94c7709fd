#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares two outputs of make_ddp_reference.py: compare_ddp_references.py FILE FILE

Prints a line for each dtype: "ok ..." or "FAILED ...", with the largest difference of an element to
the largest of its line."""
import sys

TOLERANCES = {"float64": 1e-13, "float32": 1e-6}
KEY_WORDS = 5


def read(path):
    lines = {}
    with open(path) as file:
        for line in file:
            words = line.split()
            if len(words) > KEY_WORDS and words[1] in TOLERANCES:
                lines[tuple(words[:KEY_WORDS])] = [float(word) for word in words[KEY_WORDS:]]
    return lines


def elements(key, numbers):
    """Drops the fields that describe a line, and its sum and norm."""
    return numbers[:1] if key[3] == "step" else numbers[1:-2]


def difference(key, ours, theirs):
    pairs = list(zip(elements(key, ours), elements(key, theirs)))
    return max(abs(a - b) for a, b in pairs) / max(abs(a) for a, _ in pairs)


def main(first, second):
    first, second = read(first), read(second)
    if first.keys() != second.keys() or not first:
        print(f"FAILED the same lines: {len(first)} and {len(second)}")
        sys.exit(1)
    failed = False
    for dtype, tolerance in TOLERANCES.items():
        worst = max(difference(key, first[key], second[key]) for key in first if key[1] == dtype)
        failed |= not worst <= tolerance
        print(f"{'ok' if worst <= tolerance else 'FAILED'} {dtype} training, {worst:.1g}")
    sys.exit(failed)


main(*sys.argv[1:])
