// SPDX-License-Identifier: MIT
#include "ddp/collectives/equal_on_all_ranks.h"

#include <algorithm>
#include <array>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/field_lines.h"
#include "ddp/buffer_ops/buffer_ops.h"
#include "ddp/collectives/group_state.h"
#include "ddp/collectives/host_collectives.h"

namespace ddp {
namespace {

// A field must be one line, and the message one sentence. Backslashes are doubled, so that
// different texts stay different.
std::string in_one_line(const std::string& text) {
  std::string line;
  for (const char character : text) {
    if (character == '\n') {
      line += "\\n";
    } else {
      line.append(character == '\\' ? 2 : 1, character);
    }
  }
  return line;
}

std::string serialize(std::span<const NamedValue> values) {
  FieldWriter fields;
  for (const auto& [name, value] : values) fields << in_one_line(name) << in_one_line(value);
  return fields.text();
}

std::vector<NamedValue> parse(const std::string& text) {
  FieldReader fields(text);
  std::vector<NamedValue> values;
  while (fields.has_more()) {
    NamedValue& each = values.emplace_back();
    fields >> each.name >> each.value;
  }
  return values;
}

std::int64_t hash_of(std::string text) {
  std::uint64_t hash = 0;
  const std::span bytes(reinterpret_cast<std::uint8_t*>(text.data()), text.size());
  cpu::fingerprint(buffer_of(bytes), &hash);
  return static_cast<std::int64_t>(hash ^ text.size());
}

std::vector<int> ranks_with(std::int64_t hash, const std::vector<std::int64_t>& hashes) {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hash) ranks.push_back(static_cast<int>(rank));
  }
  return ranks;
}

// "differ in lr: rank 0 has 0.1, rank 2 has 0.2"; the names are included if they differ, or if one
// rank has more values.
std::string difference(const std::vector<NamedValue>& first, const std::vector<NamedValue>& other,
                       const std::vector<int>& others, const GroupNames& names) {
  std::size_t i = 0;
  const auto has = [&i](const std::vector<NamedValue>& values) { return i < values.size(); };
  while (has(first) && has(other) && first[i].name == other[i].name &&
         first[i].value == other[i].value) {
    ++i;
  }
  const bool same_name = has(first) && has(other) && first[i].name == other[i].name;
  const auto text = [&](const std::vector<NamedValue>& values) {
    if (!has(values)) return std::string("nothing");
    return same_name ? values[i].value : values[i].name + " " + values[i].value;
  };
  return "differ" + (same_name ? " in " + first[i].name : "") + ": " + names.rank(0) + " has " +
         text(first) + ", " + names.ranks(others) + (others.size() == 1 ? " has " : " have ") +
         text(other);
}

}  // namespace

// The texts are sent only if the hashes differ: those of two ranks.
std::vector<NamedValue> named_elements(const std::string& what,
                                       std::span<const std::string> elements) {
  std::vector<NamedValue> values;
  const auto next = [&] { return what + " " + std::to_string(values.size()); };
  for (const std::string& element : elements) values.push_back({next(), element});
  values.push_back({next(), "no more " + what + "s"});
  return values;
}

void check_equal_on_all_ranks(ProcessGroup& group, std::string_view what,
                              std::span<const NamedValue> values) {
  const std::string own = serialize(values);
  const auto hashes = all_gather_on_host(group, std::array{hash_of(own)});
  const auto odd = std::ranges::find_if(hashes, [&](auto hash) { return hash != hashes[0]; });
  if (odd == hashes.end()) return;
  const std::vector<int> others = ranks_with(*odd, hashes);
  const std::vector<NamedValue> first = parse(broadcast_text(group, own, 0));
  const std::vector<NamedValue> other = parse(broadcast_text(group, own, others[0]));
  throw MismatchError(std::string(what) + " " +
                      difference(first, other, others, group.state().names));
}

}  // namespace ddp
