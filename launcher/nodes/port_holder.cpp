// SPDX-License-Identifier: MIT
#include "launcher/nodes/port_holder.h"

#include <dirent.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <utility>

#include "ddp/base/error.h"
#include "ddp/base/field_lines.h"
#include "ddp/base/net/resolve.h"
#include "ddp/base/system/process_status.h"
#include "launcher/processes/process_tree.h"

namespace ddp::launcher {
namespace {

constexpr Timeout kSearchTimeout{250};
constexpr std::string_view kListenState = "0A";  // TCP_LISTEN

// "0100007F:7148".
bool parse_address(std::string_view text, TcpEntry& entry) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  entry.address = text.substr(0, colon);
  const char* end = text.data() + text.size();
  return std::from_chars(text.data() + colon + 1, end, entry.port, 16).ptr == end;
}

// "sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …"
std::optional<TcpEntry> parse_tcp_line(const std::string& line) {
  WordReader words(line);
  std::string skipped;
  std::string local;
  std::string state;
  TcpEntry entry;
  words >> skipped >> local >> skipped >> state >> skipped >> skipped >> skipped >> entry.user >>
      skipped >> entry.inode;
  if (!words || !parse_address(local, entry)) return std::nullopt;
  entry.listens = state == kListenState;
  return entry;
}

bool is_wildcard(std::string_view address) {
  return address.find_first_not_of('0') == std::string_view::npos;
}

// "All addresses" of IPv6 includes IPv4, whose addresses are the ends of IPv6 addresses.
bool overlap(std::string_view a, std::string_view b) {
  if (a.size() < b.size()) std::swap(a, b);
  return is_wildcard(a) || a.ends_with(b) || (is_wildcard(b) && a.size() == b.size());
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The kernel prints addresses as 32-bit words of this machine.
std::string address_digits(const addrinfo& address) {
  std::array<std::uint32_t, 4> words{};
  std::size_t count = 1;
  if (address.ai_family == AF_INET6) {
    count = 4;
    std::memcpy(words.data(), &reinterpret_cast<const sockaddr_in6*>(address.ai_addr)->sin6_addr,
                sizeof(in6_addr));
  } else {
    words[0] = reinterpret_cast<const sockaddr_in*>(address.ai_addr)->sin_addr.s_addr;
  }
  std::string digits;
  for (std::size_t i = 0; i < count; ++i) digits += fmt::format("{:08X}", words[i]);
  return digits;
}

bool has_open(pid_t pid, const std::string& link) {
  const std::string path = fmt::format("/proc/{}/fd", pid);
  const auto close = [](DIR* folder) { ::closedir(folder); };
  const std::unique_ptr<DIR, decltype(close)> folder(::opendir(path.c_str()), close);
  if (!folder) return false;
  while (const dirent* entry = ::readdir(folder.get())) {
    std::array<char, 64> target;
    const ssize_t size =
        ::readlinkat(::dirfd(folder.get()), entry->d_name, target.data(), target.size());
    if (size > 0 && link == std::string_view(target.data(), static_cast<std::size_t>(size))) {
      return true;
    }
  }
  return false;
}

std::string describe_owner(const TcpEntry& entry) {
  const std::string link = fmt::format("socket:[{}]", entry.inode);
  const Deadline deadline = Deadline::after(kSearchTimeout);
  for (const pid_t pid : all_pids()) {
    if (deadline.passed()) break;
    if (has_open(pid, link)) return describe_process(pid);
  }
  return fmt::format("a process of user {}", entry.user);
}

}  // namespace

std::vector<TcpEntry> parse_tcp_table(std::string_view text) {
  std::vector<TcpEntry> entries;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (auto entry = parse_tcp_line(line)) entries.push_back(std::move(*entry));
  }
  return entries;
}

const TcpEntry* find_holder(std::span<const TcpEntry> entries, std::string_view address,
                            std::uint16_t port) {
  const TcpEntry* holder = nullptr;
  for (const TcpEntry& entry : entries) {
    if (entry.port != port || entry.inode == 0 || !overlap(entry.address, address)) continue;
    if (entry.listens) return &entry;
    if (holder == nullptr) holder = &entry;
  }
  return holder;
}

std::optional<std::string> describe_port_holder(const Endpoint& endpoint) try {
  const AddressList addresses = resolve(endpoint, AI_PASSIVE, Deadline::after(kSearchTimeout));
  const std::vector<TcpEntry> entries =
      parse_tcp_table(read_text("/proc/net/tcp") + read_text("/proc/net/tcp6"));
  const TcpEntry* holder = find_holder(entries, address_digits(*addresses), endpoint.port);
  if (holder == nullptr) return std::nullopt;
  return describe_owner(*holder);
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace ddp::launcher
