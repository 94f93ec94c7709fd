// SPDX-License-Identifier: MIT
#include "support/command_line.h"

#include <fmt/ranges.h>

#include <cstdio>
#include <cxxopts.hpp>
#include <functional>
#include <optional>
#include <vector>

namespace ddp::bench {
namespace {

template <class T>
std::string text_of(const T& value) {
  return fmt::format("{}", value);
}
template <class T>
std::string text_of(const std::vector<T>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}
std::string text_of(const std::optional<int>& value) { return value ? text_of(*value) : ""; }

}  // namespace

struct CommandLine::Parser {
  cxxopts::Options options;
  std::vector<std::function<void(const cxxopts::ParseResult&)>> setters = {};
};

CommandLine::CommandLine(const std::string& program, const std::string& about)
    : parser_(new Parser{cxxopts::Options(program, about)}) {
  parser_->options.add_options()("h,help", "print this help");
}

CommandLine::~CommandLine() = default;

template <class T>
void CommandLine::add(const std::string& name, const std::string& help, T& variable,
                      const std::string& value_name) {
  const auto value = cxxopts::value<T>();
  if (const std::string text = text_of(variable); !text.empty()) value->default_value(text);
  parser_->options.add_options()(name, help, value, value_name);
  const std::string long_name = name.substr(name.find(',') + 1);
  parser_->setters.push_back([long_name, &variable](const cxxopts::ParseResult& parsed) {
    if (parsed.count(long_name) > 0) variable = parsed[long_name].as<T>();
  });
}

template void CommandLine::add(const std::string&, const std::string&, bool&, const std::string&);
template void CommandLine::add(const std::string&, const std::string&, int&, const std::string&);
template void CommandLine::add(const std::string&, const std::string&, std::size_t&,
                               const std::string&);
template void CommandLine::add(const std::string&, const std::string&, double&, const std::string&);
template void CommandLine::add(const std::string&, const std::string&, std::string&,
                               const std::string&);
template void CommandLine::add(const std::string&, const std::string&, std::optional<int>&,
                               const std::string&);
template void CommandLine::add(const std::string&, const std::string&, std::vector<int>&,
                               const std::string&);
template void CommandLine::add(const std::string&, const std::string&, std::vector<std::size_t>&,
                               const std::string&);
template void CommandLine::add(const std::string&, const std::string&, std::vector<std::string>&,
                               const std::string&);

bool CommandLine::parse(int argc, char** argv) {
  const cxxopts::ParseResult parsed = parser_->options.parse(argc, argv);
  if (parsed.count("help") > 0) {
    std::puts(parser_->options.help().c_str());
    return false;
  }
  for (const auto& set : parser_->setters) set(parsed);
  return true;
}

}  // namespace ddp::bench
