// SPDX-License-Identifier: MIT
//
// The launcher's flags as data, and the split between them and the worker's command line. The split
// comes before any option parser, which would consume the worker's flags.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/launch_error.h"
#include "launcher/options/flag_value.h"

namespace ddp::launcher {

struct Draft;

struct Flag {
  // Where --help lists it. kRefused: torchrun has it, we do not.
  enum class Group { kFrequent, kTorchrun, kOwn, kRefused };

  Group group;
  const char* name;                                 // with underscores, without the leading "--"
  char short_name;                                  // '\0' = none
  const char* value_name;                           // nullptr = a switch
  const char* help;                                 // of kRefused: what to do instead
  void (*set)(Draft&, const FlagValue&) = nullptr;  // of kRefused: none
  const char* empty_value = nullptr;                // torchrun's default, if it counts as not given

  [[nodiscard]] bool takes_value() const { return value_name != nullptr; }
};

[[nodiscard]] std::span<const Flag> all_flags();

struct GivenFlag {
  const Flag& flag;
  FlagValue value;
};

struct CommandLine {
  std::vector<GivenFlag> flags;      // in the order of the arguments
  std::vector<std::string> command;  // PROGRAM and its arguments, untouched
};

class UnknownFlag : public LaunchError {
 public:
  UnknownFlag(std::string_view name, const std::string& message)
      : LaunchError(message), name_(name) {}
  // Without dashes before it, and with underscores.
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
};

// `args` is argv without argv[0]. The command starts at the first argument that is neither a flag
// nor a flag's value, or after "--". Flags may have '-' for '_', be given as "--flag value", or be
// abbreviated if that is unambiguous; short ones may be "-n4". Throws UnknownFlag, which names the
// nearest one, and LaunchError for an ambiguous abbreviation, naming the candidates, and for a flag
// without its value, which a known flag or "--" cannot be, unless written as "--flag=value".
[[nodiscard]] CommandLine cut_at_program(std::span<const std::string> args);

// The flag with the smallest edit distance; if none is close, the only one that `name` without its
// last letter abbreviates, as "nprocs" does; else nullptr.
[[nodiscard]] const Flag* nearest_flag(std::string_view name);

}  // namespace ddp::launcher
