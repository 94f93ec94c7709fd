// SPDX-License-Identifier: MIT
//
// What the command-line programs of this folder do alike.
#pragma once

#include <ddp/base/error.h>
#include <ddp/base/error_record.h>
#include <ddp/base/system/standard_descriptors.h>

#include <cstdio>
#include <exception>
#include <stdexcept>

// Throws FileError if something printed has not arrived, as on a full disk. A stdout that was
// closed from the start takes all (occupy_standard_descriptors()).
inline void check_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw ddp::FileError("cannot write to standard output");
}

// Returns the exit code: that of body(), or after an error, which is printed and told to the
// launcher, 2 for wrong arguments (std::invalid_argument) and 1 for anything else.
template <class Body>
int run_tool(const char* name, const Body& body) {
  ddp::occupy_standard_descriptors();
  const auto fail = [name](const std::exception& error, int exit_code) {
    ddp::record_error(error);
    std::fprintf(stderr, "%s: %s\n", name, ddp::describe(error).c_str());
    return exit_code;
  };
  try {
    const int exit_code = body();
    check_output();
    return exit_code;
  } catch (const std::invalid_argument& error) {
    return fail(error, 2);
  } catch (const std::exception& error) {
    return fail(error, 1);
  }
}
