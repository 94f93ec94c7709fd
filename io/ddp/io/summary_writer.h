// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "ddp/io/text_file.h"

namespace ddp {

// Writes scalars for TensorBoard, as torch.utils.tensorboard's SummaryWriter does: `tensorboard
// --logdir DIR` shows them, also while the training runs. For rank 0 only. Each scalar is written
// at once. A failure (a full disk) does not end the training: see TextFile. Not thread-safe.
class SummaryWriter {
 public:
  // Creates the directory if necessary, and a new file in it: events.out.tfevents.TIME.HOST.PID.N.
  // Throws FileError that names the file and the reason.
  explicit SummaryWriter(const std::filesystem::path& log_dir);

  // Tags are grouped by slashes: "Loss/train". TensorBoard stores the value as float32.
  void add_scalar(std::string_view tag, double value, std::int64_t step);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] bool failed() const { return file_.failed(); }

 private:
  std::filesystem::path path_;
  TextFile file_;
};

}  // namespace ddp
