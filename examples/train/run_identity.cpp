// SPDX-License-Identifier: MIT
#include "run_identity.h"

#include <optional>
#include <span>

#include "ddp/base/env_reader.h"
#include "ddp/io/sha256.h"

namespace train {
namespace {

// What a run has for itself, beside its id.
std::string own_part(const ddp::WorkerEnv& env, const ddp::EnvReader& reader) {
  if (const auto launch = reader.text("DDP_LAUNCH_ID")) return *launch;
  const std::string file = reader.text("TORCHELASTIC_ERROR_FILE").value_or("");
  const std::size_t end = file.rfind("/attempt_");  // FOLDER/attempt_1/0/error.json
  return env.node_count > 1 || end == std::string::npos ? "" : file.substr(0, end);
}

}  // namespace

// As a hash, since metadata are UTF-8, and a path need not be.
std::string run_identity(const ddp::WorkerEnv& env, const ddp::WorkerEnv::Lookup& lookup) {
  if (env.max_restarts == 0) return "";
  const std::string text = env.run_id + " " + own_part(env, ddp::EnvReader(lookup));
  ddp::Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  constexpr std::size_t kDigits = 16;
  return hash.finish().substr(0, kDigits);
}

}  // namespace train
