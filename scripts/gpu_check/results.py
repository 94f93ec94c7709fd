# SPDX-License-Identifier: MIT
"""Reads the files that tests and benchmarks left in the work folder."""
import glob
import json
import os
import re

# A line of ctest's output: "3/9 Test #81: gpu_data_test .... Passed 1.23 sec".
TEST_LINE = re.compile(r"^ *\d+/\d+ Test +#\d+: (\S+) \.*\s*(?:\*\*\*)?(.*?) +([\d.]+) sec",
                       re.MULTILINE)


def tests(log):
    """Returns a dictionary for each test that ctest ran."""
    return [{"test": name, "result": result.lower(), "seconds": float(seconds)}
            for name, result, seconds in TEST_LINE.findall(_text(log))]


def cases(folder):
    """Returns a dictionary for each test case in the log of tests/gpu/case_log.h. The result of a
    case that did not end is "begun"."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.cases"))):
        program = os.path.basename(path)[:-len(".cases")]
        for line in _text(path).splitlines():
            if line.count("\t") < 2:
                continue  # incomplete, because the program was killed
            result, seconds, name = line.split("\t", 2)
            found[program, name] = {"program": program, "case": name, "result": result,
                                    "seconds": float(seconds)}
    return list(found.values())


def case_counts(text):
    """Returns (part, program, number of its test cases) for each line of case_counts.txt."""
    lines = (line.split() for line in text.splitlines())
    return [(part, program, int(cases)) for part, program, cases in lines]


def ran_alone(all_cases, program):
    """Counts the cases that the program ran to their end by itself: under ddp-launch, the name in
    its log goes on with the rank."""
    return sum(each["program"] == program and each["result"] in ("passed", "failed")
               for each in all_cases)


def remedy_for_sharing(log):
    """Returns the variables, such as "A=0 B=0", that ranks need in order to share a GPU."""
    found = re.search(r"^Sharing a GPU works with (.*)", _text(log), re.MULTILINE)
    return found.group(1) if found else ""


def figures(log):
    """Returns the lines of JSON that a benchmark printed, and complaints about bad ones."""
    found, complaints = [], []
    for line in _text(log).splitlines():
        if not line.startswith("{"):
            continue
        try:
            figure = json.loads(line)
            figure.update(median=float(figure["median"]), spread=float(figure["spread"]))
            found.append({"figure": figure["figure"], "unit": figure["unit"], **figure})
        except (ValueError, KeyError, TypeError) as error:
            complaints.append(f"{os.path.basename(log)}: no figure ({error!r}): {line}")
    return found, complaints


def rivals(all_figures):
    """Pairs each training step of ours with the same one of PyTorch."""
    same = ("model", "batch", "image", "precision", "ranks")
    steps = [each for each in all_figures if each["figure"] == "training step"]
    return [(ours, other) for ours in steps for other in steps
            if ours["by"] == "libddp" and other["by"] != "libddp" and
            all(ours[label] == other[label] for label in same)]


def sanitizer_errors(log):
    """Returns the first lines of compute-sanitizer's reports, even if the run was cut off, without
    those about itself, such as that the program ended early."""
    return re.findall(r"^=+ ((?:Invalid|Misaligned|Race|Barrier|Program hit|"
                      r"Error(?!: (?:process|Target application|No attachable))).*)", _text(log),
                      re.MULTILINE)


def sanitizer_refuses_device(log):
    """True in some virtual machines, for example."""
    return bool(re.search(r"^=+ .*Device not supported", _text(log), re.MULTILINE))


def tail(log, lines=60):
    return "\n".join(_text(log).splitlines()[-lines:])


def _text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
