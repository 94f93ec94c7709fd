// SPDX-License-Identifier: MIT
#include "ddp/base/buffer.h"

#include <stdexcept>

namespace ddp {

void Buffer::throw_wrong_dtype(DType expected) const {
  throw std::logic_error("a buffer of " + to_string(*this) + " is read or written as " +
                         std::string(to_string(expected)));
}

}  // namespace ddp
