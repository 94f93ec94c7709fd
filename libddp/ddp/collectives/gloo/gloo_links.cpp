// SPDX-License-Identifier: MIT
#include "ddp/collectives/gloo/gloo_links.h"

#include <gloo/common/error.h>
#include <gloo/types.h>

#include <utility>

namespace ddp {
namespace {

// No rank ever sends with this prefix.
constexpr std::uint8_t kUnusedPrefix = 0x21;

// Null if the connection is already broken.
std::unique_ptr<gloo::transport::UnboundBuffer> listen_to(gloo::Context& context, int rank) {
  auto listener = context.createUnboundBuffer(nullptr, 0);
  try {
    listener->recv(rank, gloo::Slot::build(kUnusedPrefix, 0));
    return listener;
  } catch (const gloo::Exception&) {
    return nullptr;
  }
}

}  // namespace

GlooLinks::GlooLinks(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {
  for (int rank = 0; rank < context_->size; ++rank) {
    listeners_.push_back(rank == context_->rank ? nullptr : listen_to(*context_, rank));
  }
}

// A wait that is aborted before it starts returns at once, but throws if the connection has broken.
bool GlooLinks::is_broken(int rank) const {
  gloo::transport::UnboundBuffer* listener = listeners_[static_cast<std::size_t>(rank)].get();
  if (listener == nullptr) return true;
  try {
    listener->abortWaitRecv();
    listener->waitRecv();
    return false;
  } catch (const gloo::Exception&) {
    return true;
  }
}

}  // namespace ddp
