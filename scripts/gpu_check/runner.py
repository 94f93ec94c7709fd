# SPDX-License-Identifier: MIT
"""Runs commands, with a time limit for each and one for all of them together."""
import collections
import os
import signal
import subprocess
import time

PASSED, TIMED_OUT, SKIPPED = 0, 124, 77

# `log` is the file with the command's output.
Outcome = collections.namedtuple("Outcome", "name status seconds limit log")


class Runner:
    def __init__(self, folder, seconds):
        self.folder = folder
        self.deadline = time.monotonic() + seconds
        self.outcomes = []

    def run(self, name, command, limit, **environment):
        """Runs a list of words, or a string by the shell. Several threads may call this at once."""
        begin = time.monotonic()
        limit = max(0, min(limit, self.deadline - begin))
        log = os.path.join(self.folder, name + ".log")
        print(f"== {name}, up to {limit:.0f} s", flush=True)
        with open(log, "wb") as output:
            status = _run(command, limit, output, {**os.environ, **environment})
        outcome = Outcome(name, status, time.monotonic() - begin, limit, log)
        self.outcomes.append(outcome)
        print(f"   {name}: exit status {status} after {outcome.seconds:.0f} s", flush=True)
        return outcome


def _run(command, limit, output, environment):
    if limit == 0:
        output.write(b"There was no time left for it.\n")
        return TIMED_OUT
    shell = ["bash", "-c", command] if isinstance(command, str) else command
    try:
        process = subprocess.Popen(shell, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, env=environment,
                                   start_new_session=True)
    except OSError as error:
        output.write(f"{error}\n".encode())
        return 127
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        _end(process)
        return TIMED_OUT


def _end(process):
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass
