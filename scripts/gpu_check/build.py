# SPDX-License-Identifier: MIT
"""How the project is configured and built for a check."""
import glob
import gzip
import os
import shutil

import machine

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.path.join(ROOT, "build-gpu")
VENDORED = os.path.join(ROOT, "third_party", "vendored")
# Libraries of the distribution, of which a machine without packages may have a half.
LEFT_OUT = ("GLOO", "ONEDNN", "OPENBLAS", "IMAGES", "LIBTORCH", "MPI", "ZLIB")


def provide_fashion_mnist():
    """Unpacks what was carried along, since the build has no zlib, for all that runs later."""
    folder = os.path.join(BUILD, "fashion-mnist")
    packed = glob.glob(os.path.join(VENDORED, "fashion-mnist", "*.gz"))
    if not packed:
        return
    os.makedirs(folder, exist_ok=True)
    for path in packed:
        target = os.path.join(folder, os.path.basename(path)[:-len(".gz")])
        with gzip.open(path) as source, open(target, "wb") as file:
            shutil.copyfileobj(source, file)
    os.environ["DDP_FASHION_MNIST"] = folder


def configure_command():
    options = {"CMAKE_BUILD_TYPE": "Release", "DDP_CUDA": "ON", "DDP_WARNINGS_AS_ERRORS": "OFF",
               "DDP_CUDA_ARCHITECTURES": machine.architecture() + "-real"}
    if os.path.isdir(VENDORED):
        options["DDP_VENDORED_HEADERS"] = VENDORED
        options.update({"DDP_" + name: "OFF" for name in LEFT_OUT})
    if shutil.which("ccache"):
        options.update({f"CMAKE_{name}_COMPILER_LAUNCHER": "ccache" for name in ("CXX", "CUDA")})
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    return ["cmake", "-S", ROOT, "-B", BUILD, *generator,
            *(f"-D{name}={value}" for name, value in options.items())]


def build_command(targets):
    keep_going = ["-k", "0"] if shutil.which("ninja") else ["-k"]
    return ["cmake", "--build", BUILD, "--parallel", str(machine.cpus()), "--target", *targets,
            "--", *keep_going]
