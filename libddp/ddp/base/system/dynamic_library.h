// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

namespace ddp {

// A shared library that is opened when it is needed: a program starts without loading it, and runs
// where it is missing.
class DynamicLibrary {
 public:
  enum class Lifetime {
    kProcess,  // its code stays until the process ends: for what starts threads or hands out code
    kThis,     // it may be unloaded when this object goes, and the functions with it
    kThisIfThere,  // likewise, and it is opened only if the process has loaded it before
  };

  DynamicLibrary(std::string name, Lifetime lifetime);

  [[nodiscard]] bool is_open() const { return handle_ != nullptr; }
  // Why it is not open, in the dynamic linker's words.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  // Sets `function` to the one of that name. False, and null, if there is none.
  template <class Function>
  [[nodiscard]] bool find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(symbol(name));
    return function != nullptr;
  }
  // The same for one that must be there: throws Error if it is not.
  template <class Function>
  void load(const char* name, Function*& function) const {
    if (!find(name, function)) throw_missing(name);
  }

 private:
  struct Close {
    void operator()(void* handle) const;
  };

  [[nodiscard]] void* symbol(const char* name) const;
  [[noreturn]] void throw_missing(const char* name) const;

  std::string name_;
  std::unique_ptr<void, Close> handle_;
  std::string problem_;
};

}  // namespace ddp
