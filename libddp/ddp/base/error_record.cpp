// SPDX-License-Identifier: MIT
#include "ddp/base/error_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ddp/base/error.h"
#include "ddp/base/file_descriptor.h"
#include "ddp/base/printable.h"
#include "ddp/base/system/worker_slot.h"
#include "ddp/base/system/write_all.h"

namespace ddp {
namespace {

using Json = nlohmann::ordered_json;

// A byte takes at most six in JSON, and ddp-launch reads a record of at most 1 MiB.
constexpr std::size_t kLongestText = 64 << 10;
constexpr std::size_t kLongestHang = 16 << 10;

// The file must never be incomplete: it is written under a temporary name and gets its own when it
// is complete, unless another record has that name by then. False if it cannot be written.
bool publish(const std::string& path, std::string_view text) {
  std::string temporary = path + ".XXXXXX";
  const FileDescriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!file.is_open()) return false;
  bool is_there = write_all(file.get(), text) == 0;
  if (is_there && ::link(temporary.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    is_there = std::rename(temporary.c_str(), path.c_str()) == 0;  // there are no hard links
  }
  ::unlink(temporary.c_str());
  return is_there;
}

bool contains_peer_error(const std::exception& error) {
  if (dynamic_cast<const PeerError*>(&error) != nullptr) return true;
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& inner) {
    return contains_peer_error(inner);
  } catch (...) {
  }
  return false;
}

}  // namespace

std::string to_json(const ErrorRecord& record, std::time_t timestamp) {
  const std::string message = shortened(record.message, kLongestText);
  Json extra = {{"py_callstack", message}, {"timestamp", std::to_string(timestamp)}};
  if (record.step) extra["step"] = std::to_string(*record.step);
  if (!record.hang.empty()) extra["hang"] = shortened(record.hang, kLongestHang);
  if (record.tells_cause) extra["caused_by_peer"] = record.caused_by_peer ? "true" : "false";
  const Json json = {{"message", {{"message", message}, {"extraInfo", extra}}}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool is_caused_by_peer(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return contains_peer_error(caught);
  } catch (...) {
  }
  return false;
}

ErrorFile ErrorFile::from_environment() {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  return ErrorFile(path == nullptr ? "" : path);  // "": the slot alone
}

void ErrorFile::keep(const ErrorRecord& record) const noexcept {
  if (!path_ || (!path_->empty() && ::access(path_->c_str(), F_OK) == 0)) return;
  try {
    if (!path_->empty() && publish(*path_, to_json(record, std::time(nullptr)))) return;
    WorkerSlot::from_environment().keep(record);
  } catch (const std::exception&) {  // thrown if there is no memory left
  }
}

void ErrorFile::clear() const noexcept {
  if (!path_) return;
  if (!path_->empty()) ::unlink(path_->c_str());
  try {
    WorkerSlot::from_environment().clear_error();
  } catch (const std::exception&) {  // thrown if there is no memory left
  }
}

void record_error(const std::exception& error) noexcept {
  try {
    ErrorFile::from_environment().keep(
        {.message = describe(error), .caused_by_peer = contains_peer_error(error)});
  } catch (const std::exception&) {  // thrown if there is no memory left
  }
}

}  // namespace ddp
