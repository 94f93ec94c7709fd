// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

namespace ddp::bench {

// The flags of a program, including --help. Each flag sets a variable, whose initial value is the
// flag's default. All programs share one compiled parser, because its header takes seconds to
// compile.
class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& about);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // T is bool (a flag without a value), int, std::size_t, double, std::string, std::optional<int>,
  // or a vector of int, std::size_t or std::string, whose elements are separated by commas. `name`
  // may be "n,iterations". The variable must outlive parse().
  template <class T>
  void add(const std::string& name, const std::string& help, T& variable,
           const std::string& value_name = "");

  // Sets the variables of the given flags. Returns false after --help, whose text it prints.
  [[nodiscard]] bool parse(int argc, char** argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace ddp::bench
