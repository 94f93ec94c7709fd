# SPDX-License-Identifier: MIT
"""Loads the parameters that our train saved into PyTorch's LeNet-5: every name and shape must fit, and
the model must classify the test images of Fashion-MNIST as ours did.

    torch_lenet.py DIRECTORY      with model.safetensors, metrics.jsonl and the two t10k-*.gz
"""
import gzip
import json
import struct
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy, max_pool2d, relu

from checks import exit_with, expect, report

DIRECTORY = Path(sys.argv[1])


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, images):
        maps = max_pool2d(relu(self.conv1(images)), 2)
        maps = max_pool2d(relu(self.conv2(maps)), 2)
        hidden = relu(self.fc2(relu(self.fc1(maps.flatten(1)))))
        return self.fc3(hidden)


def load_safetensors(path):
    """Reads the format of https://huggingface.co/docs/safetensors: length, JSON header, bytes."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        expect(entry["dtype"] == "F32", f"F32 for {name}")
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = torch.frombuffer(bytearray(content[begin:end]), dtype=torch.float32)
        tensors[name] = values.reshape(entry["shape"])
    return tensors


def read_idx(name, header_bytes):
    content = gzip.open(DIRECTORY / name).read()[header_bytes:]
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def check_model():
    model = LeNet5()
    model.load_state_dict(load_safetensors(DIRECTORY / "model.safetensors"), strict=True)
    images = read_idx("t10k-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    labels = read_idx("t10k-labels-idx1-ubyte.gz", 8).long()
    with torch.no_grad():
        logits = model((images / 255 - 0.2860) / 0.3530)
    accuracy = (logits.argmax(1) == labels).double().mean().item()
    loss = cross_entropy(logits, labels).item()
    final = json.loads((DIRECTORY / "metrics.jsonl").read_text().splitlines()[-1])
    expect(abs(accuracy - final["test_accuracy"]) <= 2e-4,
           f"accuracy {final['test_accuracy']}, not {accuracy}")
    expect(abs(loss - final["test_loss"]) <= 1e-4, f"loss {final['test_loss']}, not {loss}")


exit_with(report("LeNet-5 loads our parameters and gives our accuracy and loss", check_model))
