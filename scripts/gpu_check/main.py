# SPDX-License-Identifier: MIT
"""Runs the phases of scripts/gpu_check.sh, which docs/gpu/README.md describes."""
import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import sys
import tarfile

import machine
import report
import results
from build import (BUILD, ROOT, build_command, configure_command, pack, provide_fashion_mnist,
                   read_libraries, unpack, use_libraries_of_this_machine)
from runner import PASSED, SKIPPED, TIMED_OUT, Runner

WORK = os.path.join(BUILD, "report")
BENCHMARKS = os.path.join(ROOT, "scripts", "gpu_benchmarks.txt")
CASE_COUNTS = os.path.join(ROOT, "tests", "gpu", "case_counts.txt")
PACKED = "build-gpu.tar.xz"
CACHE = os.path.join(BUILD, "CMakeCache.txt")
TESTS, SHARING, TESTS_OF_RANKS = "tests", "sharing", "tests of ranks"
# Tells in the log where memory could not be registered and a slower way was taken. Not for the
# tests, some of which read what a program logs.
VERBOSE = {"DDP_LOG_LEVEL": "info"}
PARTS = ("tests", "ranks", "benchmarks")
# These are the tests of our own kernels. The others spend most of their time in NVIDIA's kernels,
# which we cannot mend. racecheck examines shared memory, which only the kernels of
# gpu_kernels_test use.
KERNELS = ("gpu_kernels_test", "~[gemm]~[conv2d]~[nn]~[amp]")
SANITIZED = (("memcheck", "gpu_buffer_ops_test"), ("memcheck", *KERNELS), ("racecheck", *KERNELS))


def parse():
    parser = argparse.ArgumentParser(
        prog="gpu_check.sh", description="Builds, tests and measures on a machine with a GPU.",
        epilog="Exit status: 0 all is well, 1 something failed, 2 bad usage, 77 there is no GPU.")
    parser.add_argument("out", help="the folder for gpu-report.md, .json and gpu-logs.tar.gz")
    parser.add_argument("--dry-run", action="store_true", help="continue without a GPU")
    parser.add_argument("--only", choices=PARTS, action="append",
                        help="leave out the other parts; may be given twice")
    parser.add_argument("--benchmark", type=int, action="append", metavar="N",
                        help="of the benchmarks, run only number N; may be given several times")
    parser.add_argument("--pack", action="store_true",
                        help="only build, here, and pack what was built into OUT/%s" % PACKED)
    parser.add_argument("--packed", metavar="FILE", help="unpack this instead of building")
    parser.add_argument("--seconds", type=float, default=530, help="for everything (%(default)s)")
    return parser.parse_args()


def benchmarks():
    """Returns (limit in seconds, command) for each line."""
    with open(BENCHMARKS, encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
    return [(float(limit), command) for limit, command in (line.split(None, 1) for line in lines)]


def sanitize(run, content, tool, program, *filters):
    name = f"{tool} {program}"
    if not shutil.which("compute-sanitizer"):
        run(name, "echo SKIPPED: there is no compute-sanitizer; exit 77", 5)
        return
    outcome = run(name, ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1",
                         "--report-api-errors", "no", os.path.join(BUILD, "bin", program),
                         *filters], 80)
    was_cut_off = outcome.status == TIMED_OUT and outcome.limit > 0  # 0 if it was not started
    if outcome.status == SKIPPED and content["has_gpu"]:
        content["complaints"].append(f"{name} saw no GPU, though there is one")
    elif results.sanitizer_refuses_device(outcome.log):
        content["excused"][name] = "checked nothing: compute-sanitizer does not support this device"
    elif was_cut_off and not results.sanitizer_errors(outcome.log):
        content["excused"][name] = "was cut off, without an error until then"


def go_through(runner, content):
    run = runner.run
    has_tests = bool({"tests", "ranks"} & set(content["parts"]))
    commands = benchmarks() if "benchmarks" in content["parts"] else []
    if content["packed"]:
        tools = unpack(content["packed"])
        provide_fashion_mnist()
        use_libraries_of_this_machine()
        content["machine"] = {**machine.facts(CACHE), **tools, "build": "made on another machine"}
    elif build(run, (["gpu_tests"] if has_tests else []) + programs_of(commands), 300):
        content["machine"] = machine.facts(CACHE)
    else:
        return
    if has_tests:
        test(run, content)
    measure(run, content, commands)


def build(run, targets, limit):
    """True if the targets could be configured; those that are not built cause failures later."""
    provide_fashion_mnist()
    if run("configure", configure_command(), 100).status != PASSED:
        return False
    run("build", build_command(targets), limit)
    return True


def build_and_pack(archive):
    runner = Runner(WORK, 3600)
    build(runner.run, ["gpu_tests", *programs_of(benchmarks())], 3600)
    failed = [each for each in runner.outcomes if each.status != PASSED]
    for each in failed:
        print(results.tail(each.log), file=sys.stderr)
    if not failed:
        pack(archive, machine.tools())
        print(f"gpu_check: packed into {archive}")
    return 1 if failed else 0


def test(run, content):
    """Runs tests of one process concurrently, then tests whose ranks share the GPU one by one. What
    NCCL needs for the ranks, it may need for one process, too."""
    environment = {"DDP_TEST_LOG": WORK, "NCCL_DEBUG": "WARN",
                   "NCCL_DEBUG_FILE": os.path.join(WORK, "nccl-%p.log")}
    sharing = run(SHARING, [os.path.join(BUILD, "bin", "gpu_sharing_test")], 75, **environment,
                  **VERBOSE)
    remedy = results.remedy_for_sharing(sharing.log)
    if remedy:
        content["warnings"].append(f"tests ran with {remedy}; ranks cannot share the GPU without")
        environment.update(each.split("=") for each in remedy.split())
    ctest = ["ctest", "--test-dir", BUILD, "--output-on-failure", "--no-tests=error"]
    if "tests" in content["parts"]:
        command = [*ctest, "-L", "^gpu$", "-LE", "^gpu_ranks$", "-j", "8"]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            tasks = [pool.submit(run, TESTS, command, 300, **environment)]
            tasks += [pool.submit(sanitize, run, content, *words) for words in SANITIZED]
        for task in tasks:
            task.result()
    if "ranks" not in content["parts"]:
        return
    if sharing.status not in (PASSED, SKIPPED) and not remedy:
        content["complaints"].append("tests of ranks that share the GPU did not run")
        return
    run(TESTS_OF_RANKS, [*ctest, "-L", "^gpu_ranks$", "-FS", "^nccl_sharing$"], 380, **environment)


def programs_of(commands):
    return sorted({name for _, command in commands
                   for name in re.findall(r"\$\{?BIN\}?/([\w-]+)", command)})


def measure(run, content, commands):
    for number, (limit, command) in enumerate(commands, 1):
        if content["chosen"] and number not in content["chosen"]:
            continue
        outcome = run(f"benchmark {number}", command, limit, BIN=os.path.join(BUILD, "bin"),
                      **VERBOSE)
        figures, complaints = results.figures(outcome.log)
        content["benchmarks"].append((outcome.name, command))
        content["figures"] += [{**figure, "from": outcome.name} for figure in figures]
        content["complaints"] += complaints
        content["warnings"] += [f"{outcome.name}: {figure['warning']}" for figure in figures
                                if "warning" in figure]
        if outcome.status == SKIPPED and content["has_gpu"]:
            content["warnings"].append(f"{outcome.name}: {results.tail(outcome.log, 1)}")
        if outcome.status == PASSED and not figures:
            content["complaints"].append(f"benchmark {number} gave no figure: {command}")


def tail_of(outcome, lines):
    """The end of a log, without the place of this checkout."""
    return results.tail(outcome.log, lines).replace(ROOT + os.sep, "")


def conclude(runner, content, out):
    content["packed"] = bool(content["packed"])
    content["gpu_states"] += machine.gpu_state("end")
    content["phases"] = [{"name": each.name, "status": each.status, "seconds": each.seconds,
                          "limit": each.limit} for each in runner.outcomes]
    content["tests"] = [each for phase in (TESTS, TESTS_OF_RANKS)
                        for each in results.tests(os.path.join(WORK, phase + ".log"))]
    content["cases"] = results.cases(WORK)
    content["tails"] = {each.name: tail_of(each, 60) for each in runner.outcomes
                        if each.status != PASSED}
    content["tails"].update({each.name: tail_of(each, 1000) for each in runner.outcomes
                             if each.name == SHARING})
    with open(CASE_COUNTS, encoding="utf-8") as file:
        content["failures"] = report.verdict(content, results.case_counts(file.read()))
    report.write(content, out)
    with tarfile.open(os.path.join(out, "gpu-logs.tar.gz"), "w:gz") as archive:
        archive.add(WORK, "gpu-logs")
    for failure in content["failures"]:
        print(f"gpu_check: {failure}", file=sys.stderr)
    print(f"gpu_check: the report is {os.path.join(out, 'gpu-report.md')}")
    return 1 if content["failures"] else 0


def main():
    arguments = parse()
    out = os.path.abspath(arguments.out)
    os.environ["PATH"] = ":".join([os.environ["PATH"], *sorted(glob.glob("/usr/local/cuda*/bin")),
                                   "/usr/local/nvidia/bin"])
    os.chdir(ROOT)
    has_gpu = bool(machine.gpus())
    if not has_gpu and not (arguments.dry_run or arguments.pack):
        print("gpu_check: nvidia-smi shows no GPU here (--dry-run goes on without)",
              file=sys.stderr)
        return SKIPPED
    shutil.rmtree(WORK, ignore_errors=True)
    for folder in (WORK, out):  # fails at once, not only after nine minutes
        os.makedirs(folder, exist_ok=True)
    if arguments.pack:
        return build_and_pack(os.path.join(out, PACKED))
    content = {"has_gpu": has_gpu, "parts": arguments.only or PARTS, "packed": arguments.packed,
               "chosen": arguments.benchmark or [], "machine": {},
               "gpu_states": machine.gpu_state("start"),
               "figures": [], "benchmarks": [], "complaints": [], "excused": {},
               "warnings": list(machine.warnings())}
    for warning in content["warnings"]:
        print(f"gpu_check: {warning}", file=sys.stderr)
    runner = Runner(WORK, arguments.seconds)
    reader = read_libraries() if has_gpu else None
    try:
        go_through(runner, content)
    except Exception as error:  # the report must be written in any case
        content["complaints"].append(repr(error))
    if reader:
        reader.kill()
        reader.wait()
    return conclude(runner, content, out)


if __name__ == "__main__":
    sys.exit(main())
