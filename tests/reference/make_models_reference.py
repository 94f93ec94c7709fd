#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The first ten losses of convnet, resnet18 and unet in training with real PyTorch, in float32;
models_test replays them.

    python3 tests/reference/make_models_reference.py > tests/reference/models_reference.txt

Initial values are those of ddp/nn/random.h under seed 11, as for make_training_reference.py. Step s
trains on ROWS images of 3 x SIDE x SIDE drawn from stream "input" at indices from s * (elements of a
batch), and labels drawn from stream "label" at indices from s * ROWS, or, for unet, masks: 1 where
the draw of stream "mask" at the same index as the image's first channel's would have is positive.
SGD with momentum 0.9. Lines, with M for the model:
    M loss STEP VALUE       the loss before the step is taken
    M eval 9 VALUE          the loss of the last batch in evaluation mode, after all steps
"""
import torch

from reference import ConvNet, ResNet18, UNet, class_labels, draws, set_initial_values

SEED, STEPS, ROWS = 11, 10, 8


def classify(model, x, step):
    labels = class_labels(SEED, step * ROWS, ROWS)
    return torch.nn.functional.cross_entropy(model(x), labels)


def segment(model, x, step):
    shape = (ROWS, 1, x.shape[2], x.shape[3])
    mask = (draws(SEED, "mask", step * ROWS * x[0, 0].numel(), shape) > 0).float()
    return torch.nn.functional.binary_cross_entropy_with_logits(model(x), mask)


def train(title, model, side, loss_of, lr):
    set_initial_values(model, SEED)
    sgd = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for step in range(STEPS):
        x = draws(SEED, "input", step * ROWS * 3 * side * side, (ROWS, 3, side, side)).float()
        loss = loss_of(model, x, step)
        print(f"{title} loss {step} {loss.item():.8g}")
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    model.eval()
    print(f"{title} eval {STEPS - 1} {loss_of(model, x, STEPS - 1).item():.8g}")


torch.set_num_threads(1)
train("convnet", ConvNet(), 32, classify, 0.01)
train("resnet18", ResNet18(), 64, classify, 0.001)
train("unet", UNet(), 32, segment, 0.05)
