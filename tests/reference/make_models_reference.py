#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The first ten losses of convnet, resnet18 and unet in training with real PyTorch, in float32 and
float64; models_test replays them.

    python3 tests/reference/make_models_reference.py > tests/reference/models_reference.txt

Initial values are those of ddp/base/random.h under seed 11, as for make_training_reference.py. Step s
trains on ROWS images of 3 x SIDE x SIDE drawn from stream "input" at indices from s * (elements of a
batch), and labels drawn from stream "label" at indices from s * ROWS, or, for unet, masks: 1 where
the draw of stream "mask" at the same index as the image's first channel's would have is positive.
SGD with momentum 0.9. With the rate 0.001 float32 and float64 of PyTorch itself differ by 0.009
in the ninth step of resnet18, since ReLUs flip; with 5e-5 by less than 1e-4. Lines, with M for the
model and T for float32 or float64:
    M T STEP VALUE     the loss before the step is taken
    M T eval VALUE     the loss of the last batch in evaluation mode, after all steps
"""
import torch

from reference import ConvNet, ResNet18, UNet, class_labels, draws, set_initial_values

SEED, STEPS, ROWS = 11, 10, 8


def classify(model, x, step):
    labels = class_labels(SEED, step * ROWS, ROWS)
    return torch.nn.functional.cross_entropy(model(x), labels)


def segment(model, x, step):
    shape = (ROWS, 1, x.shape[2], x.shape[3])
    mask = (draws(SEED, "mask", step * ROWS * x[0, 0].numel(), shape) > 0).to(x.dtype)
    return torch.nn.functional.binary_cross_entropy_with_logits(model(x), mask)


def train(name, make_model, dtype, side, loss_of, lr):
    title = f"{name} {str(dtype).removeprefix('torch.')}"
    model = make_model().to(dtype)
    set_initial_values(model, SEED)
    sgd = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    for step in range(STEPS):
        x = draws(SEED, "input", step * ROWS * 3 * side * side, (ROWS, 3, side, side)).float().to(dtype)
        loss = loss_of(model, x, step)
        print(f"{title} {step} {loss.item():.14g}")
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    model.eval()
    print(f"{title} eval {loss_of(model, x, STEPS - 1).item():.14g}")


torch.set_num_threads(1)
for dtype in (torch.float32, torch.float64):
    train("convnet", ConvNet, dtype, 32, classify, 0.01)
    train("resnet18", ResNet18, dtype, 64 if dtype == torch.float32 else 32, classify, 5e-5)
    train("unet", UNet, dtype, 32, segment, 0.05)
