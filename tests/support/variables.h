// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <string>

#include "ddp/base/env_reader.h"

namespace ddp::test {

// A process's environment, by name.
using Variables = std::map<std::string, std::string>;

// `variables` must outlive what is returned.
inline EnvReader::Lookup lookup_in(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

}  // namespace ddp::test
