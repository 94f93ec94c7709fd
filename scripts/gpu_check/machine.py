# SPDX-License-Identifier: MIT
"""Describes the machine, its software and its state, without which a figure means little."""
import ctypes
import datetime
import glob
import os
import platform
import re
import shutil
import subprocess

UNKNOWN = "unknown"
GPU_QUERY = ("name", "driver_version", "memory.total", "compute_cap", "pstate", "clocks.sm",
             "clocks.mem", "clocks.max.sm", "clocks.max.mem", "power.draw", "power.limit",
             "temperature.gpu", "compute_mode", "mig.mode.current", "ecc.mode.current")


def output_of(*command):
    """Returns the command's output, or an empty text if it fails."""
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=60, check=True, universal_newlines=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def gpus():
    """Returns lines such as "GPU 0: NVIDIA H200", without the serial numbers of the GPUs."""
    lines = output_of("nvidia-smi", "-L").splitlines()
    return [line.partition(" (UUID")[0] for line in lines if line.startswith("GPU")]


def gpu_state(moment):
    """Returns nvidia-smi's answer for each GPU, or nothing if it fails."""
    return [{"what": f"GPU {i} at the {moment}", **answers}
            for i, answers in enumerate(_query(GPU_QUERY))]


def architecture():
    """Returns 90 for compute capability 9.0, also if there is no GPU."""
    state = _query(("compute_cap",))
    return state[0]["compute_cap"].replace(".", "") if state else "90"


def commit():
    """Runs git even if the repository belongs to another user, as a mounted one may."""
    given = os.environ.get("DDP_COMMIT", "")
    return given or output_of("git", "-c", "safe.directory=*", "describe", "--always", "--dirty",
                              "--abbrev=40") or UNKNOWN


def cpus():
    """Counts the CPUs that this process may use: a container's, not its host's."""
    return len(os.sched_getaffinity(0))


def warnings():
    """Lists what a run lacks, in a sentence each."""
    if commit() == UNKNOWN:
        yield "the commit is unknown: set DDP_COMMIT, so that the report names it"
    for program, consequence in (("nvcc", "nothing will be built"), ("ninja", "make is slower"),
                                 ("compute-sanitizer", "nothing will be checked by it")):
        if not shutil.which(program):
            yield f"there is no {program}: {consequence}"
    modes = {each["compute_mode"] for each in _query(("compute_mode",))}
    if modes - {"Default"}:
        yield f"the compute mode is {', '.join(sorted(modes))}: ranks that share a GPU need Default"
    if _shared_memory_mib() < 64:
        yield f"/dev/shm has {_shared_memory_mib()} MiB, and a rank over NCCL takes ten or more"


def tools():
    """Maps what a build depends on to texts."""
    nvcc = re.search(r"release \S+ (\S+)", output_of("nvcc", "--version"))
    return {"CUDA compiler": nvcc.group(1) if nvcc else "not found",
            "host compiler": output_of("c++", "--version").partition("\n")[0],
            "CMake": output_of("cmake", "--version").partition("\n")[0]}


def facts(cmake_cache):
    """Maps names to texts, in the order of the report."""
    return {
        "commit": commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "GPU": "; ".join(gpus()) or "none",
        **tools(),
        "NCCL": _nccl(cmake_cache),
        "cuDNN": _cudnn(cmake_cache),
        "CPU": f"{cpus()} of {_first(r'model name.*: (.*)', '/proc/cpuinfo')}",
        "memory": _first(r"MemTotal: +(.*)", "/proc/meminfo"),
        "/dev/shm": f"{_shared_memory_mib()} MiB",
        "kernel": platform.release(),
        "system": _first(r'PRETTY_NAME="?([^"\n]*)', "/etc/os-release"),
        "Python": platform.python_version(),
        "load": _first(r"(\S+ \S+ \S+)", "/proc/loadavg"),
    }


def _shared_memory_mib():
    try:
        return shutil.disk_usage("/dev/shm").total >> 20
    except OSError:
        return 0


def _query(names):
    rows = output_of("nvidia-smi", "--query-gpu=" + ",".join(names), "--format=csv,noheader")
    return [dict(zip(names, re.split(r",\s*", row))) for row in rows.splitlines()]


def _first(pattern, path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(pattern, file.read())
    except OSError:
        found = None
    return found.group(1) if found else UNKNOWN


def _library(cmake_cache, name):
    """Names the libraries that the build found, and where they come from."""
    path = _first(rf"DDP_{name}_LIBRARY:[A-Z]+=(.*)", cmake_cache)
    if not os.path.exists(path):  # built on another machine
        folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
        files = [file for folder in folders
                 for file in sorted(glob.glob(os.path.join(folder, os.path.basename(path) + "*")))]
        path = files[0] if files else path
    origin = "of a Python package" if "site-packages" in path else "of the system or the toolkit"
    return ctypes.CDLL(path), origin


def _version(code):
    """Turns 22809 into 2.28.9."""
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def _nccl(cmake_cache):
    try:
        library, origin = _library(cmake_cache, "NCCL")
        code = ctypes.c_int()
        library.ncclGetVersion(ctypes.byref(code))
    except (OSError, AttributeError) as error:
        return str(error)
    return f"{_version(code.value)}, {origin}"


def _cudnn(cmake_cache):
    try:
        library, origin = _library(cmake_cache, "CUDNN")
        code = library.cudnnGetVersion()
    except (OSError, AttributeError) as error:
        return str(error)
    return f"{_version(code)}, {origin}"
