// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "ddp/io/text_file.h"

namespace ddp {

// Scalars for TensorBoard, as torch.utils.tensorboard's SummaryWriter writes them: `tensorboard
// --logdir DIR` shows them, also while the training runs. Meant for rank 0 alone. Each scalar is
// written at once; a failure (a full disk) does not end the training: see TextFile. Not
// thread-safe.
class SummaryWriter {
 public:
  // Makes the directory if need be, and in it a file of its own:
  // events.out.tfevents.TIME.HOST.PID.N. Throws FileError that names it and the reason.
  explicit SummaryWriter(const std::filesystem::path& log_dir);

  // A slash in the tag makes groups: "Loss/train". TensorBoard keeps 32 bits of the value.
  void add_scalar(std::string_view tag, double value, std::int64_t step);

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] bool failed() const { return file_.failed(); }

 private:
  std::filesystem::path path_;
  TextFile file_;
};

}  // namespace ddp
