// SPDX-License-Identifier: MIT
#include "ddp/collectives/shm/shm_segment.h"

#include <unistd.h>

#include <string>

#include "ddp/base/error.h"
#include "ddp/base/field_lines.h"
#include "ddp/base/round_up.h"
#include "ddp/base/system/cpu_count.h"
#include "ddp/collectives/meeting/group_start.h"

namespace ddp::shm {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// A key of the group: where rank 0's segment is.
constexpr const char* kSegment = "shm/segment";

constexpr std::size_t kPage = 4096;

constexpr std::size_t pages(std::size_t size) { return round_up(size, kPage); }

// Differs between builds with different segments, and from anything else that a reused descriptor
// may lead to.
constexpr std::uint64_t kLayout = [] {
  std::uint64_t hash = 0x6464702d73686d32;
  for (const std::uint64_t part :
       {sizeof(Header), sizeof(Progress), sizeof(RankControl), sizeof(Post), sizeof(Channel),
        std::size_t{kPosts}, kSlotBytes}) {
    hash = hash * 31 + part;
  }
  return hash;
}();

// Offsets of the parts.
struct Layout {
  explicit Layout(std::size_t ranks)
      : progress(pages(sizeof(Header))),
        controls(progress + pages(kPosts * sizeof(Progress))),
        posts(controls + pages(ranks * sizeof(RankControl))),
        channels(posts + pages(ranks * kPosts * sizeof(Post))),
        slots(channels + pages(ranks * ranks * sizeof(Channel))),
        size_bytes(slots + ranks * 2 * kSlotBytes) {}

  std::size_t progress;
  std::size_t controls;
  std::size_t posts;
  std::size_t channels;
  std::size_t slots;
  std::size_t size_bytes;
};

}  // namespace

Segment::Segment(const GroupConfig& config) : ranks_(static_cast<std::size_t>(config.world_size)) {
  config.rank == 0 ? create(config) : open(config);
  introduce(config.rank);
  await_all(config, config.start_timeout);
}

void Segment::create(const GroupConfig& config) {
  memory_ = SharedMemory::create(Layout(ranks_).size_bytes);
  find_parts();
  header().layout = kLayout;
  const SharedMemory::Name name = memory_->name();
  FieldWriter fields;
  fields << name.pid << name.fd << name.inode << name.size_bytes;
  config.store->set(kSegment, fields.text());
}

void Segment::open(const GroupConfig& config) {
  const std::string key = kSegment;
  await_start(config, *config.store, {&key, 1}, config.start_timeout);
  const std::string text = config.store->get(key);
  FieldReader fields(text);
  SharedMemory::Name name;
  fields >> name.pid >> name.fd >> name.inode >> name.size_bytes;
  if (!fields) throw NetworkError("[shm] this is not a segment's name: \"" + text + "\"");
  memory_ = SharedMemory::open(name);
  find_parts();
  if (name.size_bytes != Layout(ranks_).size_bytes || header().layout != kLayout) {
    throw MismatchError(to_string(name) + " is not the shared memory of this build of libddp");
  }
}

void Segment::introduce(int rank) const {
  control(rank).pid = ::getpid();
  control(rank).allowed_cpus = cpu_set_of(affinity_cpus());
}

void Segment::find_parts() {
  const Layout layout(ranks_);
  std::byte* begin = memory_->data();
  progress_ = reinterpret_cast<Progress*>(begin + layout.progress);
  controls_ = reinterpret_cast<RankControl*>(begin + layout.controls);
  posts_ = reinterpret_cast<Post*>(begin + layout.posts);
  channels_ = reinterpret_cast<Channel*>(begin + layout.channels);
  slots_ = begin + layout.slots;
}

}  // namespace ddp::shm
