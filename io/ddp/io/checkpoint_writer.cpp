// SPDX-License-Identifier: MIT
#include "ddp/io/checkpoint_writer.h"

#include <unistd.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "ddp/base/busy_with.h"
#include "ddp/base/error.h"
#include "ddp/base/log.h"
#include "ddp/base/threads/background_thread.h"

namespace ddp {

CheckpointWriter::CheckpointWriter(CheckpointDirectory& directory)
    : directory_(directory), lock_(directory.path()), process_(::getpid()) {
  directory_.check_replaceable();
  directory_.reread();
}

CheckpointWriter::~CheckpointWriter() {
  if (process_ != ::getpid()) {
    if (thread_.joinable()) thread_.detach();  // it is the parent's
    return;
  }
  try {
    finish();
  } catch (const std::exception& error) {
    logging::error("[checkpoint] the last checkpoint was not saved: " + describe(error));
  }
}

void CheckpointWriter::save(CheckpointInfo info, std::span<const NamedBuffer> tensors,
                            Stream stream) {
  finish();
  saving_ = (directory_.path() / to_string(info.name)).string();
  copy_.take(tensors, stream);
  thread_ = start_background_thread("ddp-checkpoint", [this, info = std::move(info)] {
    try {
      check_lock(info.name);
      directory_.save(info, copy_.tensors());
    } catch (...) {
      error_ = std::current_exception();
      has_failed_.store(true, std::memory_order_release);
    }
  });
}

void CheckpointWriter::check_lock(const CheckpointName& name) const {
  try {
    lock_.check();
  } catch (const FileError&) {
    const std::filesystem::path file = directory_.path() / to_string(name);
    std::throw_with_nested(FileError("[checkpoint] " + file.string() + " was not saved"));
  }
}

void CheckpointWriter::finish() {
  check_process();
  if (thread_.joinable()) {
    const BusyWith busy("saving " + saving_);
    thread_.join();
  }
  has_failed_.store(false, std::memory_order_relaxed);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void CheckpointWriter::check_process() const {
  if (process_ == ::getpid()) return;
  throw std::logic_error("[checkpoint] the CheckpointWriter belongs to process " +
                         std::to_string(process_) + "; this process is a fork of it");
}

void CheckpointWriter::check() {
  if (has_failed_.load(std::memory_order_acquire)) finish();
}

}  // namespace ddp
