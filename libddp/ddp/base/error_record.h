// SPDX-License-Identifier: MIT
//
// What a worker that ends by an error leaves for the program that started it: a file at
// TORCHELASTIC_ERROR_FILE, one line in torchrun's format, so that either launcher can quote it:
//   {"message":{"message":TEXT,"extraInfo":{"py_callstack":TEXT,"timestamp":"1700000000",
//                                           "step":"457","caused_by_peer":"true"}}}
// torchrun shows py_callstack and insists on it and the timestamp; the last two are ours, and
// either may be missing.
//
// A process group records what breaks it, and init_process_group why it failed. For errors that
// they do not see there is record_error. What ends a process in other ways is seen by its launcher;
// where it crashed it may say itself (crash_record.h).
#pragma once

#include <cstdint>
#include <ctime>
#include <exception>
#include <optional>
#include <string>

namespace ddp {

struct ErrorRecord {
  std::string message;
  std::optional<std::int64_t> step = std::nullopt;  // the last one that has begun
  bool caused_by_peer = false;  // a consequence of what happened on another rank
};

// As in the file. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string to_json(const ErrorRecord& record, std::time_t timestamp);

// True if a PeerError is among the nested exceptions.
[[nodiscard]] bool is_caused_by_peer(const std::exception_ptr& error);

// The place for this process's record. Its first record stays: what follows is a consequence.
class ErrorFile {
 public:
  ErrorFile() = default;  // nowhere
  explicit ErrorFile(std::string path) : path_(std::move(path)) {}

  // TORCHELASTIC_ERROR_FILE, or nowhere.
  static ErrorFile from_environment();

  // These never fail: a worse error than the one to be told would help nobody.
  void keep(const ErrorRecord& record) const noexcept;
  void clear() const noexcept;

 private:
  std::string path_;
};

// For the last catch of a program:
//   } catch (const std::exception& error) {
//     ddp::record_error(error);
//     …
//     return 1;
// Does nothing if something has been recorded, or nobody waits for a record.
void record_error(const std::exception& error) noexcept;

}  // namespace ddp
