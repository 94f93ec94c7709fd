// SPDX-License-Identifier: MIT
#include "ddp/data/dataset.h"

#include <cxxabi.h>
#include <fmt/format.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "ddp/base/demangle.h"
#include "ddp/base/error.h"

namespace ddp {
namespace {

void check_buffer(const char* what, const Buffer& buffer, std::size_t count, DType dtype) {
  if (buffer.count == count && buffer.dtype == dtype && buffer.device == kCpuDevice) return;
  const Buffer expected(nullptr, count, dtype);
  throw std::invalid_argument(fmt::format("[dataset] {} are {} instead of {}", what,
                                          to_string(buffer), to_string(expected)));
}

void check_gather(const Dataset& dataset, std::span<const std::int64_t> indices,
                  const Buffer& inputs, const Buffer& labels) {
  check_indices("[dataset]", indices, dataset.size());
  const auto check = [&](const char* what, const Buffer& buffer,
                         std::span<const std::int64_t> shape, DType dtype) {
    check_buffer(what, buffer, elements_of(shape, indices.size(), dtype), dtype);
  };
  check("inputs", inputs, dataset.input_shape(), inputs.dtype);
  check("labels", labels, dataset.label_shape(), dataset.label_dtype(inputs.dtype));
}

// Of the exception that is being handled.
std::string name_of_type() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  return type == nullptr ? "unknown" : demangle(type->name());
}

// The usual mistake of a program is another type than read() writes. And describe() knows nothing
// of what is no std::exception.
std::string hint(const std::exception_ptr& error, DType dtype) {
  try {
    std::rethrow_exception(error);
  } catch (const std::logic_error&) {
    return fmt::format(", its inputs as {} (DataLoaderOptions::dtype)", to_string(dtype));
  } catch (const std::exception&) {
    return "";
  } catch (const std::string& text) {
    return fmt::format(", where read() threw a std::string, \"{}\"", text);
  } catch (const char* text) {
    return fmt::format(", where read() threw a const char*, \"{}\"", text);
  } catch (...) {
    return ", where read() threw an object of the type " + name_of_type();
  }
}

}  // namespace

void Dataset::gather(std::span<const std::int64_t> indices, const Buffer& inputs,
                     const Buffer& labels, std::int64_t epoch,
                     const std::stop_token& cancelled) const {
  check_gather(*this, indices, inputs, labels);
  const std::size_t input = elements_of(input_shape());
  const std::size_t label = elements_of(label_shape());
  for (std::size_t i = 0; i < indices.size() && !cancelled.stop_requested(); ++i) {
    try {
      read(indices[i], epoch, inputs.slice(i * input, input), labels.slice(i * label, label));
    } catch (...) {
      std::throw_with_nested(
          Error(fmt::format("[dataset] cannot read sample {} of {} in epoch {}{}", indices[i],
                            size(), epoch, hint(std::current_exception(), inputs.dtype))));
    }
  }
}

std::size_t elements_of(std::span<const std::int64_t> shape) {
  std::size_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size >= 0 && !__builtin_mul_overflow(elements, static_cast<std::size_t>(size), &elements)) {
      continue;
    }
    throw std::invalid_argument(
        fmt::format("[dataset] no sample can have the shape [{}]", fmt::join(shape, ", ")));
  }
  return elements;
}

std::size_t elements_of(std::span<const std::int64_t> shape, std::size_t samples, DType dtype) {
  std::size_t elements = elements_of(shape);
  std::size_t size_bytes = 0;
  if (!__builtin_mul_overflow(elements, samples, &elements) &&
      !__builtin_mul_overflow(elements, size_of(dtype), &size_bytes)) {
    return elements;
  }
  throw std::invalid_argument(
      fmt::format("[dataset] no batch can have {} samples of the shape [{}] in {}", samples,
                  fmt::join(shape, ", "), to_string(dtype)));
}

void check_indices(std::string_view origin, std::span<const std::int64_t> indices,
                   std::int64_t size) {
  for (const std::int64_t index : indices) {
    if (index >= 0 && index < size) continue;
    throw std::invalid_argument(fmt::format("{} index {} is not in [0, {})", origin, index, size));
  }
}

}  // namespace ddp
