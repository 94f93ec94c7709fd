// SPDX-License-Identifier: MIT
#include "ddp/base/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace ddp {

std::string demangle(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? text.get() : name;
}

}  // namespace ddp
