// SPDX-License-Identifier: MIT
#include "ddp/io/checkpoint_writer.h"

#include <string>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/threads/background_thread.h"

namespace ddp {

CheckpointWriter::~CheckpointWriter() {
  try {
    finish();
  } catch (const std::exception& error) {
    logging::error("[checkpoint] the last checkpoint was not saved: " + describe(error));
  }
}

void CheckpointWriter::save(CheckpointInfo info, std::span<const NamedBuffer> tensors,
                            Stream stream) {
  finish();
  copy_.take(tensors, stream);
  thread_ = start_background_thread("ddp-checkpoint", [this, info = std::move(info)] {
    try {
      directory_.save(info, copy_.tensors());
    } catch (...) {
      error_ = std::current_exception();
      has_failed_.store(true, std::memory_order_release);
    }
  });
}

void CheckpointWriter::finish() {
  if (thread_.joinable()) thread_.join();
  has_failed_.store(false, std::memory_order_relaxed);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void CheckpointWriter::check() {
  if (has_failed_.load(std::memory_order_acquire)) finish();
}

}  // namespace ddp
