// SPDX-License-Identifier: MIT
//
// The record that a worker leaves for its launcher when it ends by an error: a file at
// TORCHELASTIC_ERROR_FILE, one line in torchrun's format, so that ddp-launch and torchrun can both
// quote it:
//   {"message":{"message":TEXT,"extraInfo":{"py_callstack":TEXT,"timestamp":"1700000000",
//                                           "step":"457","caused_by_peer":"true","hang":TEXT}}}
// torchrun requires py_callstack and timestamp, and prints the former. step and hang, which may be
// missing, and caused_by_peer are additions of libddp.
//
// A process group records the error that breaks it, and init_process_group records why it failed.
// Programs report errors that neither of them sees by record_error(). If the file cannot be
// written, as on a full disk, ddp-launch learns the beginning from the worker's slot
// (worker_slot.h). A worker that ends in another way is judged by its launcher from its exit
// status; a crash is recorded by crash_record.h.
#pragma once

#include <cstdint>
#include <ctime>
#include <exception>
#include <optional>
#include <string>

namespace ddp {

struct ErrorRecord {
  std::string message;
  std::optional<std::int64_t> step = std::nullopt;  // the last step that has begun
  bool caused_by_peer = false;                      // a failure on another rank led to this one
  std::string hang = {};    // for whom this rank has waited until a timeout; else empty
  bool tells_cause = true;  // false in a record of PyTorch, which does not say whether one did
};

// The line as it is in the file, of less than 1 MiB: a message above 64 KiB is cut. Bytes that are
// not UTF-8 become U+FFFD.
[[nodiscard]] std::string to_json(const ErrorRecord& record, std::time_t timestamp);

// True if a PeerError is among the nested exceptions.
[[nodiscard]] bool is_caused_by_peer(const std::exception_ptr& error);

// The file for this process's record. Only the first record is kept: later errors follow from it.
// Where there is no file, or no room for it, a record's beginning is kept in the process's
// WorkerSlot, if it has one.
class ErrorFile {
 public:
  ErrorFile() = default;  // keeps nothing
  // "": no file, but perhaps a slot.
  explicit ErrorFile(std::string path) : path_(std::move(path)) {}

  // The file that TORCHELASTIC_ERROR_FILE names, if it does.
  static ErrorFile from_environment();

  // These never fail: an error here would hide the one that is being reported.
  void keep(const ErrorRecord& record) const noexcept;
  void clear() const noexcept;

 private:
  std::optional<std::string> path_;
};

// For the last catch of a program:
//   } catch (const std::exception& error) {
//     ddp::record_error(error);
//     …
//     return 1;
// Does nothing if an error is recorded already, or if TORCHELASTIC_ERROR_FILE is not set.
void record_error(const std::exception& error) noexcept;

}  // namespace ddp
