// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <string>

namespace ddp::bench {

// The flags of a program, --help among them. Each sets a variable, which holds the flag's default.
// One unit compiles the parser for all programs: its header takes seconds.
class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& about);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // T is bool (a flag without a value), int, std::size_t, double, std::string, std::optional<int>,
  // or a vector of int, std::size_t or std::string, which are given with commas. `name` may be
  // "n,iterations". The variable must outlive parse().
  template <class T>
  void add(const std::string& name, const std::string& help, T& variable,
           const std::string& value_name = "");

  // Sets the variables of the flags that are given. False after --help, which was printed.
  [[nodiscard]] bool parse(int argc, char** argv);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace ddp::bench
