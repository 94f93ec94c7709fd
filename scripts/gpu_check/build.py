# SPDX-License-Identifier: MIT
"""Configures and builds the project for a check."""
import glob
import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import tarfile

import machine

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.path.join(ROOT, "build-gpu")
TOOLS = os.path.join(BUILD, "built-with.json")
VENDORED = os.path.join(ROOT, "third_party", "vendored")
# Libraries of the distribution. A machine without packages may have only parts of them, so a build
# with vendored headers does without them.
LEFT_OUT = ("ONEDNN", "OPENBLAS", "IMAGES", "LIBTORCH", "MPI", "ZLIB")


def provide_fashion_mnist():
    """Unpacks gzipped data for everything that runs later, since the build has no zlib."""
    folder = os.path.join(BUILD, "fashion-mnist")
    packed = glob.glob(os.path.join(VENDORED, "fashion-mnist", "*.gz"))
    if packed:
        os.makedirs(folder, exist_ok=True)
    elif not os.path.isdir(folder):  # it may come from an archive of pack()
        return
    for path in packed:
        target = os.path.join(folder, os.path.basename(path)[:-len(".gz")])
        with gzip.open(path) as source, open(target, "wb") as file:
            shutil.copyfileobj(source, file)
    os.environ["DDP_FASHION_MNIST"] = folder


def library_folders():
    """Lists where NVIDIA's libraries may be: those of a Python package first, which PyTorch uses."""
    folders = []
    for package, libraries in (("nvidia", "*/lib"), ("torch", "lib")):
        found = importlib.util.find_spec(package)
        folders += [folder for place in (found.submodule_search_locations if found else [])
                    for folder in glob.glob(os.path.join(place, libraries))]
    return folders + glob.glob("/usr/local/cuda*/lib*") + glob.glob("/usr/lib/*-linux-gnu")


def read_libraries():
    """Reads the libraries that tests and benchmarks load, in the background while the build runs. A
    machine that has just started has none of them in memory, and loading gigabytes would count
    against limits of seconds."""
    files = [path for name in ("libnccl", "libcublas", "libcudnn", "libtorch_cuda")
             for folder in library_folders()
             for path in glob.glob(os.path.join(folder, name + "*.so*"))]
    return subprocess.Popen(["cat", *dict.fromkeys(map(os.path.realpath, files))],
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def configure_command():
    options = {"CMAKE_BUILD_TYPE": "Release", "DDP_CUDA": "ON", "DDP_WARNINGS_AS_ERRORS": "OFF",
               "DDP_CUDA_ARCHITECTURES": machine.architecture() + "-real",
               "CMAKE_CUDA_FLAGS": "-lineinfo"}  # for compute-sanitizer; the code stays the same
    if os.path.isdir(VENDORED):
        options["DDP_VENDORED_HEADERS"] = VENDORED
        options.update({"DDP_" + name: "OFF" for name in LEFT_OUT})
    if shutil.which("ccache"):
        options.update({f"CMAKE_{name}_COMPILER_LAUNCHER": "ccache" for name in ("CXX", "CUDA")})
    else:
        options["CMAKE_UNITY_BUILD"] = "ON"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    return ["cmake", "-S", ROOT, "-B", BUILD, *generator,
            *(f"-D{name}={value}" for name, value in options.items())]


def build_command(targets):
    keep_going = ["-k", "0"] if shutil.which("ninja") else ["-k"]
    return ["cmake", "--build", BUILD, "--parallel", str(machine.cpus()), "--target", *targets,
            "--", *keep_going]


def pack(archive, tools):
    """Packs the programs, what CTest, the report and training read, and what it was built with."""
    with open(TOOLS, "w", encoding="utf-8") as file:
        json.dump(tools, file)
    patterns = ("bin/*", "CMakeCache.txt", "**/CTestTestfile.cmake", "fashion-mnist/*",
                os.path.basename(TOOLS))
    with tarfile.open(archive, "w:xz", preset=2) as tar:
        for pattern in patterns:
            for path in sorted(glob.glob(os.path.join(BUILD, pattern), recursive=True)):
                tar.add(path, os.path.relpath(path, ROOT))


def unpack(archive):
    """Returns what it was built with."""
    with tarfile.open(archive) as tar:
        tar.extractall(ROOT)
    with open(TOOLS, encoding="utf-8") as file:
        return json.load(file)


def use_libraries_of_this_machine():
    """For programs that were built on another one, where the libraries lie elsewhere."""
    folders = [*library_folders(), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, folders))
