// SPDX-License-Identifier: MIT
#include "all_reduce/options.h"

#include <algorithm>
#include <charconv>
#include <cxxopts.hpp>
#include <stdexcept>
#include <string>

#include "support/program.h"

namespace ddp::bench {
namespace {

// The value whose name is `name`; the message lists the others.
template <class Values>
auto named(const char* flag, const std::string& name, const Values& values) {
  std::string known;
  for (const auto value : values) {
    if (name == to_string(value)) return value;
    known += (known.empty() ? "" : ", ") + std::string(to_string(value));
  }
  throw std::invalid_argument("--" + std::string(flag) + "=" + name + " is not one of " + known);
}

ReduceOp parse_op(const std::string& name) {
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax,
                               ReduceOp::kAverage};
  return named("op", name, kOps);
}

constexpr double kMaxUnits = 1e9;  // so that no size overflows

std::optional<std::size_t> unit_bytes(std::string_view unit) {
  if (unit.empty()) return 1;
  const std::size_t index = std::string_view("KMG").find(unit);
  if (index == std::string_view::npos || unit.size() > 1) return std::nullopt;
  return std::size_t{1024} << (10 * index);
}

cxxopts::Options make_parser() {
  cxxopts::Options parser("bench_all_reduce",
                          "Time and bandwidth of all_reduce over message sizes:\n"
                          "  ddp-launch --nproc_per_node=2 bench_all_reduce -b 8 -e 64M -f 2\n");
  const auto text = [](const char* value) {
    return cxxopts::value<std::string>()->default_value(value);
  };
  auto add = parser.add_options();
  add("b,begin", "smallest size (K, M, G: powers of 1024)", text("1K"), "BYTES");
  add("e,end", "largest size", text("16M"), "BYTES");
  add("f,factor", "from one size to the next", cxxopts::value<std::size_t>()->default_value("4"));
  add("sizes", "these sizes, ascending, in place of -b, -e and -f",
      cxxopts::value<std::vector<std::string>>(), "BYTES,...");
  add("n,iterations", "calls in one sample (--compare: as many as take some ms)",
      cxxopts::value<int>()->default_value("20"));
  add("compare", "shm, gloo, Open MPI and the bound of this host's memory, interleaved");
  add("samples", "samples of each size, interleaved", cxxopts::value<int>()->default_value("7"));
  add("backend", "auto, nccl, shm or gloo", text("auto"));
  add("dtype", "float32, float64, float16, bfloat16, int32, int64 or uint8", text("float32"));
  add("op", "sum, product, min, max or average", text("sum"));
  return parser;
}

std::vector<std::size_t> range_of_sizes(const cxxopts::ParseResult& parsed) {
  const std::size_t begin = parse_bytes(parsed["begin"].as<std::string>());
  const std::size_t end = parse_bytes(parsed["end"].as<std::string>());
  const auto factor = parsed["factor"].as<std::size_t>();
  if (begin < 1 || begin > end || factor < 2) {
    throw std::invalid_argument("-b " + std::to_string(begin) + " -e " + std::to_string(end) +
                                " -f " + std::to_string(factor) +
                                ": sizes need 1 <= begin <= end and a factor of at least 2");
  }
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = begin; bytes <= end; bytes *= factor) sizes.push_back(bytes);
  return sizes;
}

std::vector<std::size_t> parse_sizes(const cxxopts::ParseResult& parsed) {
  if (parsed.count("sizes") == 0) return range_of_sizes(parsed);
  std::vector<std::size_t> sizes;
  for (const std::string& text : parsed["sizes"].as<std::vector<std::string>>()) {
    sizes.push_back(parse_bytes(text));
  }
  return sizes;
}

void check(const AllReduceOptions& options) {
  const std::size_t element = size_of(options.dtype);
  if (options.sizes.front() < element ||
      !std::is_sorted(options.sizes.begin(), options.sizes.end())) {
    throw std::invalid_argument("sizes ascend from one element, " + std::to_string(element) +
                                " bytes");
  }
  if (options.iterations < 1 || options.samples < 1) {
    throw std::invalid_argument("-n " + std::to_string(options.iterations) + " --samples " +
                                std::to_string(options.samples) + ": both must be positive");
  }
  if (options.compare && (options.dtype != DType::kFloat32 || options.op != ReduceOp::kSum)) {
    throw std::invalid_argument("--compare knows only float32 sums");
  }
}

}  // namespace

std::size_t parse_bytes(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::optional<std::size_t> unit = unit_bytes({rest, static_cast<std::size_t>(end - rest)});
  if (error != std::errc() || value < 0 || value > kMaxUnits || !unit) {
    throw std::invalid_argument("'" + std::string(text) + "' is not a size such as 8, 64K or 1.5M");
  }
  return static_cast<std::size_t>(value * static_cast<double>(*unit));
}

std::optional<AllReduceOptions> parse_all_reduce_options(int argc, char** argv) {
  const auto given = parse_command_line(make_parser(), argc, argv);
  if (!given) return std::nullopt;
  const cxxopts::ParseResult& parsed = *given;
  const AllReduceOptions options{
      .compare = parsed.count("compare") > 0,
      .sizes = parse_sizes(parsed),
      .iterations = parsed["iterations"].as<int>(),
      .samples = parsed["samples"].as<int>(),
      .backend = parse_backend(parsed["backend"].as<std::string>()),
      .dtype = named("dtype", parsed["dtype"].as<std::string>(), kAllDTypes),
      .op = parse_op(parsed["op"].as<std::string>()),
  };
  check(options);
  return options;
}

}  // namespace ddp::bench
