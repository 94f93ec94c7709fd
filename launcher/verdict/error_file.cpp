// SPDX-License-Identifier: MIT
#include "launcher/verdict/error_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>

#include "ddp/base/file_descriptor.h"
#include "ddp/base/number_in.h"
#include "ddp/base/system/regular_file.h"
#include "ddp/base/system/write_all.h"

namespace ddp::launcher {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestRecord = 1 << 20;
constexpr int kDeepestRecord = 32;  // torchrun's has three levels

// nlohmann's parser takes any depth, but its writer calls itself for each level and would overflow
// the stack. The parser's callback could count, too, but searches a whole object for each member.
bool is_nested_too_deeply(std::string_view json) {
  int depth = 0;
  bool is_in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') is_in_string = !is_in_string;
    if (is_in_string && c == '\\') ++i;
    if (is_in_string) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDeepestRecord) return true;
  }
  return false;
}

// Values may be numbers or, with torchrun, texts. Empty for what has values of its own.
std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_structured()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

std::optional<std::int64_t> number_of(const Json& object, const char* key) {
  return number_in<std::int64_t>(text_of(object, key));
}

ErrorRecord record_of(const Json& json) {
  const Json& message = json.at("message");
  if (message.is_string()) return {.message = message.get<std::string>(), .tells_cause = false};
  ErrorRecord record{.message = message.at("message").get<std::string>(), .tells_cause = false};
  const auto extra = message.find("extraInfo");
  if (extra == message.end() || !extra->is_object()) return record;
  record.step = number_of(*extra, "step");
  if (record.step && *record.step < 0) record.step.reset();
  record.caused_by_peer = text_of(*extra, "caused_by_peer") == "true";
  if (const auto hang = extra->find("hang"); hang != extra->end() && hang->is_string()) {
    record.hang = hang->get<std::string>();
  }
  record.tells_cause = extra->contains("caused_by_peer");
  return record;
}

// Empty if there is no valid JSON, or if it is nested too deeply for a record.
Json read_json(const std::string& path) {
  if (path.empty()) return {};
  try {
    const std::string text = read_beginning(path, kLongestRecord);
    return is_nested_too_deeply(text) ? Json() : Json::parse(text);
  } catch (const Json::exception&) {
    return {};
  }
}

// Nothing else is written: the open of a named pipe would wait for a reader, perhaps for ever.
void write_if_regular(const std::string& path, const std::string& text) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const FileDescriptor file(::open(path.c_str(), kFlags, 0666));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (::ftruncate(file.get(), 0) == 0) static_cast<void>(write_all(file.get(), text));
}

// Nothing if it is not a record.
std::optional<ErrorRecord> find_record(const Json& json) {
  try {
    return record_of(json);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<ErrorRecord> read_error_record(const std::string& path) {
  return find_record(read_json(path));
}

void pass_on_error_record(const std::string& from, const std::string& to,
                          const std::string& sentence, int exit_code) {
  if (to.empty()) return;
  Json json = read_json(from);
  if (!find_record(json)) {
    json = Json::parse(ddp::to_json({.message = sentence}, std::time(nullptr)));
  }
  if (json["message"].is_object()) json["message"]["errorCode"] = exit_code;
  write_if_regular(to, json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace ddp::launcher
