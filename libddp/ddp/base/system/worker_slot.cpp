// SPDX-License-Identifier: MIT
#include "ddp/base/system/worker_slot.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "ddp/base/file_descriptor.h"
#include "ddp/base/number_in.h"
#include "ddp/base/printable.h"

namespace ddp {

// All fields are in the host's byte order.
struct WorkerSlot::Memory {
  std::atomic<std::uint64_t> step;
  std::atomic<std::uint64_t> start_phase;
  std::atomic<std::uint64_t> stop_request;  // the signal, and above it the sender's pid; 0: none
  std::atomic<std::uint64_t> error;         // an ErrorKind, written after the text
  char text[960];                           // its message, up to the first 0
};

namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<std::uint64_t>) == sizeof(std::uint64_t));

enum class ErrorKind : std::uint64_t { kNone = 0, kOwn = 1, kCausedByPeer = 2, kBeingWritten = 3 };

constexpr unsigned kPidShift = 32;

std::uint64_t pack(StopRequest request) noexcept {
  const auto sender = static_cast<std::uint64_t>(static_cast<std::uint32_t>(request.sender));
  return sender << kPidShift | static_cast<std::uint32_t>(request.signal_number);
}

std::optional<StopRequest> unpack_stop_request(std::uint64_t packed) {
  if (packed == 0) return std::nullopt;
  return StopRequest{.signal_number = static_cast<int>(packed & 0xFFFFFFFFU),
                     .sender = static_cast<pid_t>(packed >> kPidShift)};
}

std::optional<int> local_rank_in_environment() {
  const char* text = std::getenv("LOCAL_RANK");
  const auto rank = number_in<int>(text == nullptr ? "" : text);
  return rank && *rank >= 0 ? rank : std::nullopt;
}

}  // namespace

// The size is checked first: touching a mapping beyond the end of its file would kill the process.
WorkerSlot::WorkerSlot(const std::string& path, int local_rank) {
  static_assert(sizeof(Memory) <= kBytes);
  const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info {};
  const std::size_t size = (static_cast<std::size_t>(local_rank) + 1) * kBytes;
  if (::fstat(file.get(), &info) != 0 || static_cast<std::size_t>(info.st_size) < size) return;
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return;
  const std::shared_ptr<void> mapping(memory, [size](void* start) { ::munmap(start, size); });
  auto* slots = static_cast<std::byte*>(memory);
  memory_ = {mapping, reinterpret_cast<Memory*>(slots + size - kBytes)};
}

WorkerSlot WorkerSlot::from_environment() {
  const char* path = std::getenv("DDP_WORKER_SLOTS");
  const std::optional<int> local_rank = local_rank_in_environment();
  return path == nullptr || *path == '\0' || !local_rank ? WorkerSlot()
                                                         : WorkerSlot(path, *local_rank);
}

std::optional<ErrorRecord> WorkerSlot::error_in(const Memory& memory) {
  const auto kind = static_cast<ErrorKind>(memory.error.load());
  if (kind != ErrorKind::kOwn && kind != ErrorKind::kCausedByPeer) return std::nullopt;
  return ErrorRecord{.message = {memory.text, ::strnlen(memory.text, sizeof(memory.text))},
                     .caused_by_peer = kind == ErrorKind::kCausedByPeer};
}

WorkerSlot::Values WorkerSlot::read(int file, int local_rank) {
  Memory memory;
  const off_t position = static_cast<off_t>(local_rank) * static_cast<off_t>(kBytes);
  if (::pread(file, static_cast<void*>(&memory), sizeof(memory), position) != sizeof(memory)) {
    return {};
  }
  const auto step = static_cast<std::int64_t>(memory.step.load());
  return {.step = step > 0 ? std::optional(step) : std::nullopt,
          .start_phase = static_cast<StartPhase>(memory.start_phase.load()),
          .stop_request = unpack_stop_request(memory.stop_request.load()),
          .error = error_in(memory)};
}

[[gnu::hot]] void WorkerSlot::set_step(std::uint64_t step) const {
  if (memory_) memory_->step.store(step, std::memory_order_relaxed);
}

void WorkerSlot::set_start_phase(StartPhase phase) const {
  if (!memory_) return;
  memory_->start_phase.store(static_cast<std::uint64_t>(phase), std::memory_order_relaxed);
}

void WorkerSlot::keep(const ErrorRecord& error) const noexcept {
  auto none = static_cast<std::uint64_t>(ErrorKind::kNone);
  const auto being_written = static_cast<std::uint64_t>(ErrorKind::kBeingWritten);
  if (!memory_ || !memory_->error.compare_exchange_strong(none, being_written)) return;
  const std::size_t size =
      utf8_beginning(error.message, sizeof(memory_->text) - 1).copy(memory_->text, kBytes);
  memory_->text[size] = '\0';
  const ErrorKind kind = error.caused_by_peer ? ErrorKind::kCausedByPeer : ErrorKind::kOwn;
  memory_->error.store(static_cast<std::uint64_t>(kind));
}

void WorkerSlot::clear_error() const noexcept {
  if (memory_) memory_->error.store(static_cast<std::uint64_t>(ErrorKind::kNone));
}

void WorkerSlot::note(StopRequest request) const noexcept {
  std::uint64_t none = 0;
  if (memory_) memory_->stop_request.compare_exchange_strong(none, pack(request));
}

}  // namespace ddp
