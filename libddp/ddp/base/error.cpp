// SPDX-License-Identifier: MIT
#include "ddp/base/error.h"

#include <new>
#include <system_error>

namespace ddp {

SystemError::SystemError(const std::string& action, int error_number)
    : Error(action + ": " + error_text(error_number)), error_number_(error_number) {}

std::string describe(const std::exception& error) {
  std::string text = error.what();
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) text = "out of memory (" + text + ")";
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& inner) {
    text += ": " + describe(inner);
  } catch (...) {
    text += ": unknown error";
  }
  return text;
}

std::string describe(const std::exception_ptr& error) {
  if (!error) return "no error";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& caught) {
    return describe(caught);
  } catch (...) {
    return "unknown error";
  }
}

std::string error_text(int error_number) { return std::generic_category().message(error_number); }

}  // namespace ddp
