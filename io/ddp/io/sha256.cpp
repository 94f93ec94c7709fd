// SPDX-License-Identifier: MIT
#include "ddp/io/sha256.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace ddp {
namespace {

constexpr std::array<std::uint32_t, 64> kRoundConstants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t load_big_endian(const std::byte* bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

// The message schedule, section 6.2.2 step 1.
std::array<std::uint32_t, 64> expand(const std::byte* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t t = 0; t < 16; ++t) w[t] = load_big_endian(block + 4 * t);
  for (std::size_t t = 16; t < 64; ++t) {
    const std::uint32_t a = w[t - 15];
    const std::uint32_t b = w[t - 2];
    w[t] = w[t - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[t - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  return w;
}

}  // namespace

// Steps 2 to 4, with the standard's names.
void Sha256::compress(const std::byte* block) {
  const auto w = expand(block);
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t t = 0; t < 64; ++t) {
    const std::uint32_t choice = (e & f) ^ (~e & g);
    const std::uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
    const std::uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + choice +
                             kRoundConstants[t] + w[t];
    const std::uint32_t t2 = (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + majority;
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> sum = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < state_.size(); ++i) state_[i] += sum[i];
}

void Sha256::update(std::span<const std::byte> bytes) {
  std::size_t filled = size_bytes_ % kBlockBytes;
  size_bytes_ += bytes.size();
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), kBlockBytes - filled);
    std::copy_n(bytes.begin(), n, pending_.begin() + static_cast<std::ptrdiff_t>(filled));
    bytes = bytes.subspan(n);
    filled += n;
    if (filled < kBlockBytes) return;
    compress(pending_.data());
    filled = 0;
  }
}

// Section 5.1.1: a one bit, zeros, and the length in bits as the last eight bytes of a block.
std::string Sha256::finish() {
  const std::uint64_t size_bits = size_bytes_ * 8;
  std::array<std::byte, kBlockBytes + 8> padding{std::byte{0x80}};
  const std::size_t zeros_end =
      (2 * kBlockBytes - 8 - size_bytes_ % kBlockBytes - 1) % kBlockBytes + 1;
  for (std::size_t i = 0; i < 8; ++i) {
    padding[zeros_end + i] = static_cast<std::byte>(size_bits >> (56 - 8 * i));
  }
  update(std::span(padding).first(zeros_end + 8));
  std::string digest;
  for (const std::uint32_t word : state_) digest += fmt::format("{:08x}", word);
  return digest;
}

std::string sha256(std::span<const NamedBuffer> tensors) {
  Sha256 hash;
  for (const NamedBuffer& tensor : tensors) {
    if (tensor.buffer.device != kCpuDevice) {
      throw std::invalid_argument("[sha256] tensor \"" + tensor.name +
                                  "\": " + to_string(tensor.buffer) + ", not in CPU memory");
    }
    hash.update({static_cast<const std::byte*>(tensor.buffer.data), tensor.buffer.size_bytes()});
  }
  return hash.finish();
}

}  // namespace ddp
