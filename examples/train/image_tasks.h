// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "task.h"

namespace train {

// Classification of the images of Fashion-MNIST or CIFAR-10, or segmentation of a folder's.
[[nodiscard]] std::unique_ptr<Task> make_image_task(const DatasetChoice& choice,
                                                    double label_smoothing);

}  // namespace train
