// SPDX-License-Identifier: MIT
//
// There are two kinds of failure. A bad call or a broken invariant throws std::invalid_argument or
// std::logic_error. A failure of the world outside (a peer, the network, a file, CUDA) throws a
// subclass of ddp::Error. Callers add context by nesting (std::throw_with_nested); describe() turns
// the chain into one sentence.
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

// A connection could not be made, broke, or carried bytes that violate the protocol.
class NetworkError : public Error {
 public:
  using Error::Error;
};

// The environment variables of the launcher are incomplete or contradict each other.
class EnvironmentError : public Error {
 public:
  using Error::Error;
};

// A peer died, left or failed, or some rank called abort(). See ProcessGroup for which error the
// ranks of a broken group throw.
class PeerError : public Error {
 public:
  using Error::Error;
};

// Ranks called different collectives, hold different models, or differ in something else that must
// be equal.
class MismatchError : public Error {
 public:
  using Error::Error;
};

// Gradients became infinite or NaN.
class NonFiniteError : public Error {
 public:
  using Error::Error;
};

// CUDA or NCCL returned an error or computed wrong values.
class CudaError : public Error {
 public:
  using Error::Error;
};

// A file is missing, damaged, or cannot be written.
class FileError : public Error {
 public:
  using Error::Error;
};

// A system call failed. The message is "action: strerror".
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
