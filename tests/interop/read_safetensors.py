# SPDX-License-Identifier: MIT
"""Reads what train writes with the safetensors package itself, and lets train read what that writes.

    read_safetensors.py TRAIN CHECKPOINTS_MD

Also runs the function checksum() of docs/checkpoints.md. Exits with 77 if this Python has no
safetensors or no numpy.
"""
import json
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

try:
    from safetensors import safe_open
    from safetensors.numpy import load_file, save_file
except ImportError:
    print("SKIPPED: no safetensors in " + sys.executable +
          " (scripts/interop_python.sh makes one that has it)")
    sys.exit(77)

TRAIN, DOCUMENT = sys.argv[1:]
SHAPES = {"fc1.weight": (256, 784), "fc1.bias": (256,), "fc2.weight": (128, 256), "fc2.bias": (128,),
          "fc3.weight": (10, 128), "fc3.bias": (10,)}


def train(*flags):
    subprocess.run([TRAIN, "--device", "cpu", "--model", "mlp", "--log-every", "0", *flags],
                   check=True, capture_output=True)


def checksum_of(path):
    code = re.search("```python\n(def checksum.*?)```", Path(DOCUMENT).read_text(), re.DOTALL)
    names = {"json": json, "struct": struct, "zlib": zlib}
    exec(code.group(1), names)
    return names["checksum"](path)


def is_same(a, b):
    return a.keys() == b.keys() and all(a[name].dtype == b[name].dtype and (a[name] == b[name]).all()
                                        for name in a)


with tempfile.TemporaryDirectory() as directory:
    model, checkpoints = directory + "/model.safetensors", directory + "/run"
    train("--max-steps", "3", "--save", model, "--checkpoint-dir", checkpoints)
    weights = load_file(model)
    assert {name: tensor.shape for name, tensor in weights.items()} == SHAPES

    path = checkpoints + "/model_epoch_0_step_3.safetensors"
    state = load_file(path)
    momenta = {f"optimizer.{name}.momentum_buffer": shape for name, shape in SHAPES.items()}
    assert {name: tensor.shape for name, tensor in state.items()} == SHAPES | momenta
    assert is_same({name: state[name] for name in weights}, weights)
    with safe_open(path, "numpy") as file:
        metadata = file.metadata()
    assert (metadata["model"], metadata["epoch"], metadata["step"]) == ("mlp", "0", "3"), metadata
    assert metadata["checksum"] == checksum_of(path), metadata["checksum"]
    assert len(metadata["checksums"]) == 8 * (1 + len(state))

    # A step too small to change a bit.
    written, copy = directory + "/written.safetensors", directory + "/copy.safetensors"
    doubled = {name: 2 * tensor for name, tensor in weights.items()}
    save_file(doubled, written)
    train("--max-steps", "1", "--lr", "1e-35", "--init", written, "--save", copy)
    assert is_same(load_file(copy), doubled)
print("safetensors reads what train writes, and train what safetensors writes")
