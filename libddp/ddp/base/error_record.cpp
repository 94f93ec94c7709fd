// SPDX-License-Identifier: MIT
#include "ddp/base/error_record.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "ddp/base/error.h"
#include "ddp/base/socket.h"

namespace ddp {
namespace {

// How many bytes a UTF-8 sequence has that begins like this; 0: none begins so.
std::size_t announced_length(unsigned first) {
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

// The length of the well-formed UTF-8 sequence that `text` begins with, or 0 (The Unicode Standard
// 15.0, table 3-7).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [text](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const std::size_t length = announced_length(byte(0));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool is_overlong =
      (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  const bool is_no_character =
      (byte(0) == 0xed && byte(1) > 0x9f) || (byte(0) == 0xf4 && byte(1) > 0x8f);
  return is_overlong || is_no_character ? 0 : length;
}

std::string escaped(char c) {
  if (c == '"' || c == '\\') return {'\\', c};
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  char code[8];
  std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(c));
  return code;
}

std::string json_string(std::string_view text) {
  std::string result = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text.front();
    if (length == 0) {
      result += '?';
    } else if (length == 1 && (c == '"' || c == '\\' || (c >= 0 && c < 0x20))) {
      result += escaped(c);
    } else {
      result += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return result + '"';
}

bool write_all(const FileDescriptor& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// A file is there whole or not at all: it gets its name when it is complete, unless that has been
// given away.
void publish(const std::string& path, std::string_view text) {
  std::string temporary = path + ".XXXXXX";
  const FileDescriptor file(::mkstemp(temporary.data()));
  if (!file.is_open()) return;
  const bool is_whole = write_all(file, text);
  if (is_whole && ::link(temporary.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    std::rename(temporary.c_str(), path.c_str());  // a file system without links
  }
  ::unlink(temporary.c_str());
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
  const std::string text = json_string(record.message);
  std::string json = "{\"message\": {\"message\": " + text +
                     ", \"extraInfo\": {\"py_callstack\": " + text + ", \"timestamp\": \"" +
                     std::to_string(timestamp) + '"';
  if (record.step) json += ", \"step\": \"" + std::to_string(*record.step) + '"';
  if (record.caused_by_peer) json += ", \"caused_by_peer\": \"true\"";
  return json + "}}}\n";
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
  return ErrorFile(path == nullptr ? "" : path);
}

void ErrorFile::keep(const ErrorRecord& record) const noexcept {
  if (path_.empty() || ::access(path_.c_str(), F_OK) == 0) return;
  try {
    publish(path_, to_json(record, std::time(nullptr)));
  } catch (const std::exception&) {  // no memory
  }
}

void ErrorFile::clear() const noexcept {
  if (!path_.empty()) ::unlink(path_.c_str());
}

void record_error(const std::exception& error) noexcept {
  try {
    ErrorFile::from_environment().keep(
        {.message = describe(error), .caused_by_peer = contains_peer_error(error)});
  } catch (const std::exception&) {  // no memory
  }
}

}  // namespace ddp
