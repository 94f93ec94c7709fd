// SPDX-License-Identifier: MIT
//
// The C++ counterpart of tests/reference/reference.py: the samples on which PyTorch was trained,
// and the lines of numbers that it printed.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "ddp/base/random.h"
#include "ddp/nn/context.h"
#include "ddp/nn/tensor.h"
#include "support/differences.h"

namespace ddp::test {

// The numbers of each line, by the words before them, such as "lenet5 grad 3 fc1.bias".
using Reference = std::map<std::string, std::vector<double>>;

// Reads a reference. The first `key_words` words of a line, and a name that follows them, are its
// key.
inline Reference read_reference(const std::string& path, std::size_t key_words) {
  std::ifstream file(path);
  Reference reference;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string key, word;
    for (std::size_t i = 0; line >> word; ++i) {
      const bool is_name = i == key_words && std::isalpha(word.front()) != 0;
      if (i >= key_words && !is_name) break;
      key += (key.empty() ? "" : " ") + word;
    }
    std::vector<double>& numbers = reference[key];
    numbers.push_back(std::stod(word));
    for (double number = 0; line >> number;) numbers.push_back(number);
  }
  return reference;
}

// The largest difference between a tensor and its line: of elements, relative to the largest
// element; of sum and norm, relative to the norm.
inline double difference(const std::vector<double>& tensor, const std::vector<double>& line) {
  const auto step = static_cast<std::size_t>(line.front());
  const std::size_t sampled = line.size() - 3;
  double largest = 0, worst = 0, sum = 0, squares = 0;
  for (std::size_t i = 0; i < sampled; ++i) {
    largest = std::max(largest, std::abs(line[1 + i]));
    worst = larger(worst, std::abs(tensor.at(i * step) - line[1 + i]));
  }
  for (const double element : tensor) {
    sum += element;
    squares += element * element;
  }
  const double norm = line.back();
  const double of_sum = std::abs(sum - line[1 + sampled]) / norm;
  const double of_norm = std::abs(std::sqrt(squares) - norm) / norm;
  return larger(worst / largest, larger(of_sum, of_norm));
}

inline std::vector<double> to_doubles(nn::Context& context, const nn::Tensor& tensor) {
  if (tensor.dtype() == DType::kFloat64) return context.to_host<double>(tensor);
  const std::vector<float> elements = context.to_host<float>(tensor);
  return {elements.begin(), elements.end()};
}

// Images first, first + 1, ... of the stream "input", and their labels.
inline nn::Tensor reference_images(nn::Context& context, std::uint64_t seed, std::size_t first,
                                   std::size_t rows, DType dtype) {
  constexpr std::size_t kPixels = 784;
  std::vector<double> values(rows * kPixels);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 2 * ddp::random_unit(seed, ddp::stream_of("input"), first * kPixels + i) - 1;
  }
  if (dtype == DType::kFloat64) return context.from_host<double>(values, {rows, kPixels});
  return context.from_host<float>(std::vector<float>(values.begin(), values.end()),
                                  {rows, kPixels});
}

inline nn::Tensor reference_labels(nn::Context& context, std::uint64_t seed, std::size_t first,
                                   std::size_t rows) {
  std::vector<std::int64_t> labels(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::uint64_t bits = ddp::random_bits(seed, ddp::stream_of("label"), first + row);
    labels[row] = static_cast<std::int64_t>(bits % 10);
  }
  return context.from_host<std::int64_t>(labels, {rows});
}

}  // namespace ddp::test
