// SPDX-License-Identifier: MIT
//
// Two kinds of failure. A bad call or a broken invariant is std::invalid_argument or
// std::logic_error. The world failing is a subclass of ddp::Error. Context is added by nesting
// (std::throw_with_nested); describe() turns the chain into one sentence.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace ddp {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A deadline passed.
class TimeoutError : public Error {
 public:
  using Error::Error;
};

// A connection could not be made, broke, or spoke nonsense.
class NetworkError : public Error {
 public:
  using Error::Error;
};

// The environment contract is incomplete or contradicts itself.
class EnvironmentError : public Error {
 public:
  using Error::Error;
};

// A peer died, left or failed, or somebody called abort(). See ProcessGroup for which error the
// ranks of a broken group throw.
class PeerError : public Error {
 public:
  using Error::Error;
};

// Ranks called different collectives, own different models, or differ in what else must be equal.
class MismatchError : public Error {
 public:
  using Error::Error;
};

// Gradients became infinite or no numbers.
class NonFiniteError : public Error {
 public:
  using Error::Error;
};

// CUDA or NCCL returned an error, or wrong values.
class CudaError : public Error {
 public:
  using Error::Error;
};

// A file is missing, damaged, or cannot be written.
class FileError : public Error {
 public:
  using Error::Error;
};

// A system call failed: "action: strerror".
class SystemError : public Error {
 public:
  SystemError(const std::string& action, int error_number);
  [[nodiscard]] int error_number() const { return error_number_; }

 private:
  int error_number_;
};

// "outer: inner: innermost" along the chain of nested exceptions.
[[nodiscard]] std::string describe(const std::exception& error);
[[nodiscard]] std::string describe(const std::exception_ptr& error);

// The text of an errno value; thread-safe.
[[nodiscard]] std::string error_text(int error_number);

}  // namespace ddp
