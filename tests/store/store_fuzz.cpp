// SPDX-License-Identifier: MIT
//
// A libFuzzer target for the bytes that an untrusted client can send to the store's server: tests
// the parser and the state behind it, without sockets. The input controls four clients, which send
// well-formed requests or raw bytes in pieces of any size, disconnect, and reconnect.
// scripts/fuzz_store.sh builds and runs it.
//
// Besides no crash, no leak and no undefined behaviour, these must hold:
//   parser  a complete request has 1 .. given bytes, an incomplete one needs more than given, and
//           views point into the input; cutting a complete request makes it incomplete, never
//           malformed, and the cut one does not ask for more than the whole
//   state   only connected clients get replies; a client that did not just ask gets nothing but the
//           end of a wait of its own
#include <fuzzer/FuzzedDataProvider.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ddp/base/error.h"
#include "ddp/store/store_state.h"
#include "ddp/store/wire.h"

namespace {

using ddp::StoreState;
using ddp::wire::Opcode;
using ddp::wire::ParseResult;
using ddp::wire::ParseStatus;
using ddp::wire::Request;
using ddp::wire::Writer;

constexpr std::size_t kClients = 4;

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "store_fuzz: violated: %s\n", what);
  std::abort();
}

bool lies_within(std::string_view view, std::span<const std::byte> bytes) {
  const char* begin = reinterpret_cast<const char*>(bytes.data());
  return view.data() >= begin && view.data() + view.size() <= begin + bytes.size();
}

void check_cut(std::span<const std::byte> whole, std::size_t cut) {
  Request request;
  const ParseResult result = ddp::wire::parse_request(whole.first(cut), request);
  require(result.status == ParseStatus::kIncomplete, "a cut request is incomplete");
  require(result.size_bytes > cut, "an incomplete request needs more than given");
  require(result.size_bytes <= whole.size(), "a cut request needs no more than the whole");
}

ParseResult checked_parse(std::span<const std::byte> input, Request& request) {
  const ParseResult result = ddp::wire::parse_request(input, request);
  if (result.status == ParseStatus::kMalformed) {
    require(*result.reason != '\0', "a malformed request has a reason");
  } else if (result.status == ParseStatus::kIncomplete) {
    require(result.size_bytes > input.size(), "an incomplete request needs more than given");
  } else {
    require(result.size_bytes >= 1 && result.size_bytes <= input.size(), "consumed <= given");
    for (const std::string_view key : request.keys) require(lies_within(key, input), "key inside");
    for (const std::string_view v : request.values) require(lies_within(v, input), "value inside");
    check_cut(input.first(result.size_bytes), result.size_bytes / 2);
    check_cut(input.first(result.size_bytes), result.size_bytes - 1);
  }
  return result;
}

class Session {
 public:
  Session() : state_([this](auto client, auto bytes) { on_reply(client, bytes); }) {
    for (Client& client : clients_) client.id = next_id_++;
  }

  void send(std::size_t index, std::string_view bytes) {
    clients_[index].input += bytes;
    try {
      serve(clients_[index]);
    } catch (const ddp::NetworkError&) {
      hang_up(index);
    }
  }

  void hang_up(std::size_t index) {
    state_.forget(clients_[index].id);
    clients_[index] = {.id = next_id_++};
  }

 private:
  struct Client {
    StoreState::ClientId id = 0;
    std::string input;
    int pending_waits = 0;
  };

  void serve(Client& client) {
    std::size_t used = 0;
    for (;;) {
      const auto rest = std::as_bytes(std::span(client.input)).subspan(used);
      const ParseResult parsed = checked_parse(rest, request_);
      if (parsed.status == ParseStatus::kMalformed) throw ddp::NetworkError(parsed.reason);
      if (parsed.status == ParseStatus::kIncomplete) break;
      used += parsed.size_bytes;
      handle(client);
    }
    client.input.erase(0, used);
  }

  void handle(Client& client) {
    asking_ = client.id;
    replies_to_asking_ = 0;
    const bool waits = request_.opcode == Opcode::kWait || request_.opcode == Opcode::kBarrier;
    state_.handle(client.id, request_);
    if (waits && replies_to_asking_ == 0) ++client.pending_waits;
    if (request_.opcode == Opcode::kCancelWait) client.pending_waits = 0;
    asking_ = 0;
  }

  void on_reply(StoreState::ClientId id, std::string_view bytes) {
    require(!bytes.empty(), "a reply has bytes");
    if (id == asking_) {
      ++replies_to_asking_;
      return;
    }
    for (Client& client : clients_) {
      if (client.id != id) continue;
      require(bytes.size() == 1 && bytes[0] == 0, "unasked-for replies are STOP_WAITING");
      require(client.pending_waits-- > 0, "only a waiting client is told to stop waiting");
      return;
    }
    require(false, "no reply to a client that is gone");
  }

  StoreState state_;
  std::array<Client, kClients> clients_;
  Request request_;
  StoreState::ClientId next_id_ = 1;
  StoreState::ClientId asking_ = 0;
  int replies_to_asking_ = 0;
};

std::string short_text(FuzzedDataProvider& data) {
  static constexpr std::array kTexts = {"", "k", "/q", "7", "-9223372036854775808", " 12abc"};
  return data.ConsumeBool() ? data.PickValueInArray(kTexts) : data.ConsumeRandomLengthString(20);
}

// A request that is valid or almost valid.
std::string some_request(FuzzedDataProvider& data) {
  std::string bytes;
  Writer writer(bytes);
  const auto opcode = data.ConsumeIntegralInRange<std::uint8_t>(0, 0x13);
  writer.integer(opcode);
  const auto texts = data.ConsumeIntegralInRange<std::uint64_t>(0, 4);
  if (data.ConsumeBool()) writer.integer(texts);  // as in CHECK, WAIT, MULTI_GET and MULTI_SET
  for (std::uint64_t i = 0; i < texts; ++i) writer.bytes(short_text(data));
  if (data.ConsumeBool()) writer.integer(data.ConsumeIntegral<std::int64_t>());
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  FuzzedDataProvider data(bytes, size);
  Session session;
  while (data.remaining_bytes() > 0) {
    const auto client = data.ConsumeIntegralInRange<std::size_t>(0, kClients - 1);
    switch (data.ConsumeIntegralInRange<int>(0, 7)) {
      case 0:
        session.hang_up(client);
        break;
      case 1:
        session.send(client, data.ConsumeRandomLengthString(64));
        break;
      default:
        session.send(client, some_request(data));
    }
  }
  return 0;
}
