# SPDX-License-Identifier: MIT
"""Reads what summary_events writes, and train's --log-dir, with the tensorboard package itself.

    read_events.py SUMMARY_EVENTS [TRAIN]

Exits with 77 if this Python has no tensorboard.
"""
import math
import subprocess
import sys
import tempfile

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("SKIPPED: no tensorboard in " + sys.executable +
          " (scripts/interop_python.sh makes one that has it)")
    sys.exit(77)

TRAIN_TAGS = {"Loss/train", "Accuracy/train", "Loss/test", "Accuracy/test", "learning_rate",
              "samples_per_second"}


def scalars_in(directory):
    accumulator = EventAccumulator(directory, size_guidance={"scalars": 0})
    accumulator.Reload()
    return {tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
            for tag in accumulator.Tags()["scalars"]}


def is_same(a, b):
    return a == b or math.isnan(a) and math.isnan(b)


def check_summary_events(program):
    with tempfile.TemporaryDirectory() as directory:
        printed = subprocess.run([program, directory], check=True, capture_output=True, text=True)
        expected = {}
        for line in printed.stdout.splitlines():
            tag, step, value = line.split()
            expected.setdefault(tag, []).append((int(step), float(value)))
        found = scalars_in(directory)
    assert found.keys() == expected.keys(), (found.keys(), expected.keys())
    count = 0
    for tag, events in expected.items():
        assert len(found[tag]) == len(events), tag
        for (step, value), (found_step, found_value) in zip(events, found[tag]):
            assert step == found_step, (tag, step, found_step)
            assert is_same(float("%.9g" % found_value), value), (tag, value, found_value)
            count += 1
    print(f"tensorboard reads the {count} scalars of {len(expected)} tags")


def check_train(program):
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([program, "--device", "cpu", "--max-steps", "20", "--log-every", "5",
                        "--log-dir", directory + "/runs/1"], check=True, capture_output=True)
        found = scalars_in(directory + "/runs/1")
    assert found.keys() == TRAIN_TAGS, found.keys()
    assert [step for step, _ in found["Loss/train"]] == [5, 10, 15, 20], found["Loss/train"]
    assert len(found["Accuracy/test"]) == 1
    print("tensorboard reads what train --log-dir writes")


check_summary_events(sys.argv[1])
if len(sys.argv) > 2:
    check_train(sys.argv[2])
