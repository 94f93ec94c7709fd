// SPDX-License-Identifier: MIT
#include "all_reduce/options.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string>

#include "support/command_line.h"

namespace ddp::bench {
namespace {

// Returns the value whose name is `name`. The error for an unknown name lists the known ones.
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

constexpr double kMaxUnits = 1e9;  // keeps sizes from overflowing

std::optional<std::size_t> unit_bytes(std::string_view unit) {
  if (unit.empty()) return 1;
  const std::size_t index = std::string_view("KMG").find(unit);
  if (index == std::string_view::npos || unit.size() > 1) return std::nullopt;
  return std::size_t{1024} << (10 * index);
}

// -b 1K -e 16M -f 4
struct SizeRange {
  std::string begin = "1K", end = "16M";
  std::size_t factor = 4;
};

std::vector<std::size_t> sizes_in(const SizeRange& range) {
  const std::size_t begin = parse_bytes(range.begin);
  const std::size_t end = parse_bytes(range.end);
  if (begin < 1 || begin > end || range.factor < 2) {
    throw std::invalid_argument("-b " + std::to_string(begin) + " -e " + std::to_string(end) +
                                " -f " + std::to_string(range.factor) +
                                ": sizes need 1 <= begin <= end and a factor of at least 2");
  }
  std::vector<std::size_t> sizes;
  for (std::size_t bytes = begin; bytes <= end; bytes *= range.factor) sizes.push_back(bytes);
  return sizes;
}

std::vector<std::size_t> parse_sizes(const std::vector<std::string>& texts) {
  std::vector<std::size_t> sizes;
  for (const std::string& text : texts) sizes.push_back(parse_bytes(text));
  return sizes;
}

void check(const AllReduceOptions& options) {
  const std::size_t element = size_of(options.dtype);
  if (options.sizes.front() < element ||
      !std::is_sorted(options.sizes.begin(), options.sizes.end())) {
    throw std::invalid_argument("sizes must ascend, and the first must be at least one element, " +
                                std::to_string(element) + " bytes");
  }
  if (options.iterations < 1 || options.samples < 1) {
    throw std::invalid_argument("-n " + std::to_string(options.iterations) + " --samples " +
                                std::to_string(options.samples) + ": both must be positive");
  }
  if (options.compare && (options.dtype != DType::kFloat32 || options.op != ReduceOp::kSum)) {
    throw std::invalid_argument("--compare supports only float32 sums");
  }
}

}  // namespace

std::size_t parse_bytes(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::optional<std::size_t> unit = unit_bytes({rest, static_cast<std::size_t>(end - rest)});
  const bool is_size = value >= 0 && value <= kMaxUnits;  // "nan" is a number for from_chars
  if (error != std::errc() || !is_size || !unit) {
    throw std::invalid_argument("'" + std::string(text) + "' is not a size such as 8, 64K or 1.5M");
  }
  return static_cast<std::size_t>(value * static_cast<double>(*unit));
}

std::optional<AllReduceOptions> parse_all_reduce_options(int argc, char** argv) {
  AllReduceOptions options;
  SizeRange range;
  std::vector<std::string> sizes;
  std::string backend = "auto", dtype = "float32", op = "sum";
  CommandLine line("bench_all_reduce",
                   "Time and bandwidth of all_reduce over message sizes:\n"
                   "  ddp-launch --nproc_per_node=2 bench_all_reduce -b 8 -e 64M -f 2\n");
  line.add("b,begin", "smallest size (K, M, G: powers of 1024)", range.begin, "BYTES");
  line.add("e,end", "largest size", range.end, "BYTES");
  line.add("f,factor", "from one size to the next", range.factor);
  line.add("sizes", "these sizes, ascending, in place of -b, -e and -f", sizes, "BYTES,...");
  line.add("n,iterations", "calls in one sample (--compare: as many as take some ms)",
           options.iterations);
  line.add("compare", "shm, tcp, Open MPI and the bound of this host's memory, interleaved",
           options.compare);
  line.add("samples", "samples of each size, interleaved", options.samples);
  line.add("backend", "auto, nccl, shm or tcp", backend);
  line.add("dtype", "float32, float64, float16, bfloat16, int32, int64 or uint8", dtype);
  line.add("op", "sum, product, min, max or average", op);
  if (!line.parse(argc, argv)) return std::nullopt;
  options.sizes = sizes.empty() ? sizes_in(range) : parse_sizes(sizes);
  options.backend = parse_backend(backend);
  options.dtype = named("dtype", dtype, kAllDTypes);
  options.op = parse_op(op);
  check(options);
  return options;
}

}  // namespace ddp::bench
