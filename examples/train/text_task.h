// SPDX-License-Identifier: MIT
#pragma once

#include <memory>

#include "task.h"

namespace train {

// Prediction of each next byte of the texts train.txt and test.txt, or .txt.gz, in the choice's
// directory.
[[nodiscard]] std::unique_ptr<Task> make_text_task(const DatasetChoice& choice,
                                                   double label_smoothing);

}  // namespace train
