// SPDX-License-Identifier: MIT
#include "launcher/verdict/failure.h"

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

Json json_of(const ErrorRecord& record) {
  return {{"message", record.message},
          {"caused_by_peer", record.caused_by_peer},
          {"hang", record.hang}};
}

ErrorRecord error_record_of(const Json& json) {
  return {.message = json.at("message"),
          .caused_by_peer = json.at("caused_by_peer"),
          .hang = json.at("hang")};
}

Json json_of(const Finished& finished) {
  Json json = {{"rank", finished.rank}};
  if (finished.step) json["step"] = *finished.step;
  return json;
}

Finished finished_of(const Json& json) {
  Finished finished{.rank = json.at("rank")};
  if (json.contains("step")) finished.step = json["step"].get<std::int64_t>();
  return finished;
}

Json json_of(const WorkerFailure& failure) {
  const Ending& first = failure.first;
  Json json = {{"rank", first.rank},           {"pid", first.pid},
               {"status", first.status},       {"hint", first.hint},
               {"others", failure.others},     {"after_seconds", failure.after.count()},
               {"host", failure.host},         {"when_asked_to_stop", failure.when_asked_to_stop},
               {"frames", failure.frames},     {"last_lines", failure.last_lines},
               {"log_file", failure.log_file}, {"alike", failure.alike}};
  if (first.record) json["record"] = json_of(*first.record);
  if (first.out_of_memory) json["out_of_memory"] = json_of(*first.out_of_memory);
  if (failure.step) json["step"] = *failure.step;
  json["finished"] = Json::array();
  for (const Finished& each : failure.finished) json["finished"].push_back(json_of(each));
  return json;
}

WorkerFailure worker_failure_of(const Json& json) {
  WorkerFailure failure;
  failure.first = {.rank = json.at("rank"), .pid = json.at("pid"), .status = json.at("status")};
  failure.first.hint = json.at("hint");
  if (json.contains("record")) failure.first.record = error_record_of(json["record"]);
  if (json.contains("out_of_memory"))
    failure.first.out_of_memory = out_of_memory_of(json["out_of_memory"]);
  failure.alike = json.at("alike");
  failure.others = json.at("others");
  failure.after = std::chrono::duration<double>(json.at("after_seconds").get<double>());
  failure.host = json.at("host");
  if (json.contains("step")) failure.step = json["step"].get<std::int64_t>();
  for (const Json& each : json.at("finished")) failure.finished.push_back(finished_of(each));
  failure.when_asked_to_stop = json.at("when_asked_to_stop");
  failure.frames = json.at("frames").get<std::vector<std::string>>();
  failure.last_lines = json.at("last_lines").get<std::vector<std::string>>();
  failure.log_file = json.at("log_file");
  return failure;
}

Json json_of(const NodeFailure& failure) {
  return {{"sentence", failure.sentence}, {"exit_code", failure.exit_code}};
}

NodeFailure node_failure_of(const Json& json) {
  return {.sentence = json.at("sentence"), .exit_code = json.at("exit_code")};
}

}  // namespace

std::string to_json(const Failure& failure) {
  const Json json = std::visit([](const auto& each) { return json_of(each); }, failure);
  // Workers may write any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<Failure> failure_from_json(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    if (json.contains("sentence")) return node_failure_of(json);
    return worker_failure_of(json);
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace ddp::launcher
