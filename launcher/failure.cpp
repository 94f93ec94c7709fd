// SPDX-License-Identifier: MIT
#include "launcher/failure.h"

#include <nlohmann/json.hpp>

namespace ddp::launcher {
namespace {

using Json = nlohmann::json;

Json json_of(const OutOfMemory& event) {
  Json json = {{"resident_bytes", event.resident_bytes}};
  if (event.limit_bytes) json["limit_bytes"] = *event.limit_bytes;
  return json;
}

OutOfMemory out_of_memory_of(const Json& json) {
  OutOfMemory event{.resident_bytes = json.at("resident_bytes")};
  if (json.contains("limit_bytes")) event.limit_bytes = json["limit_bytes"].get<std::int64_t>();
  return event;
}

Failure failure_of(const Json& json) {
  Failure failure;
  failure.first = {.rank = json.at("rank"), .pid = json.at("pid"), .status = json.at("status")};
  failure.others = json.at("others");
  failure.after = std::chrono::duration<double>(json.at("after_seconds").get<double>());
  failure.host = json.at("host");
  failure.message = json.at("message");
  if (json.contains("step")) failure.step = json["step"].get<std::int64_t>();
  failure.caused_by_peer = json.at("caused_by_peer");
  failure.when_asked_to_stop = json.at("when_asked_to_stop");
  if (json.contains("out_of_memory"))
    failure.out_of_memory = out_of_memory_of(json["out_of_memory"]);
  failure.hint = json.at("hint");
  failure.last_lines = json.at("last_lines").get<std::vector<std::string>>();
  failure.log_file = json.at("log_file");
  return failure;
}

}  // namespace

Failure node_failure(const std::string& sentence, int status) {
  return {.first = {.rank = Failure::kNoRank, .status = status}, .message = sentence};
}

std::string to_json(const Failure& failure) {
  Json json = {{"rank", failure.first.rank},
               {"pid", failure.first.pid},
               {"status", failure.first.status},
               {"others", failure.others},
               {"after_seconds", failure.after.count()},
               {"host", failure.host},
               {"message", failure.message},
               {"caused_by_peer", failure.caused_by_peer},
               {"when_asked_to_stop", failure.when_asked_to_stop},
               {"hint", failure.hint},
               {"last_lines", failure.last_lines},
               {"log_file", failure.log_file}};
  if (failure.step) json["step"] = *failure.step;
  if (failure.out_of_memory) json["out_of_memory"] = json_of(*failure.out_of_memory);
  // Workers write what bytes they like.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Failure> failure_from_json(std::string_view text) {
  try {
    return failure_of(Json::parse(text));
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace ddp::launcher
