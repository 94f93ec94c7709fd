// SPDX-License-Identifier: MIT
//
// The server's state alone: which clients are answered, and when.
#include "ddp/store/store_state.h"

#include <catch2/catch.hpp>

#include <string_view>
#include <vector>

using namespace ddp;
using wire::Opcode;

namespace {

using Client = StoreState::ClientId;

// A state that notes who is answered.
struct State {
  void request(Client client, Opcode opcode, std::vector<std::string_view> keys,
               std::vector<std::string_view> values = {}) {
    wire::Request request;
    request.opcode = opcode;
    request.keys = std::move(keys);
    request.values = std::move(values);
    state.handle(client, request);
  }

  std::vector<Client> answered;
  StoreState state{[this](Client client, std::string_view) { answered.push_back(client); }};
};

}  // namespace

TEST_CASE("an element wakes the first client that waits for nothing else", "[store]") {
  State store;
  store.request(1, Opcode::kWait, {"/queue", "/other"});
  store.request(2, Opcode::kWait, {"/queue"});
  store.request(3, Opcode::kWait, {"/queue"});
  store.request(9, Opcode::kQueuePush, {"/queue"}, {"element"});
  CHECK(store.answered == std::vector<Client>{2});

  SECTION("the rest of a wait ends while the queue has elements") {
    store.request(9, Opcode::kSet, {"/other"}, {""});
    CHECK(store.answered == std::vector<Client>{2, 1});
    store.request(9, Opcode::kQueuePush, {"/queue"}, {"element"});
    CHECK(store.answered == std::vector<Client>{2, 1, 3});
  }
  SECTION("it does not while the queue is empty") {
    store.request(2, Opcode::kQueuePop, {"/queue"});
    store.answered.clear();
    store.request(9, Opcode::kSet, {"/other"}, {""});
    CHECK(store.answered.empty());
    store.request(9, Opcode::kQueuePush, {"/queue"}, {"element"});
    CHECK(store.answered == std::vector<Client>{1});
  }
  SECTION("another client is woken if that one goes without the element") {
    store.state.forget(2);
    CHECK(store.answered == std::vector<Client>{2, 3});
  }
  SECTION("no other client is woken if that one has taken the element, or a stranger goes") {
    store.request(8, Opcode::kWait, {"/elsewhere"});
    store.state.forget(8);
    CHECK(store.answered == std::vector<Client>{2});
    store.request(9, Opcode::kQueuePush, {"/queue"}, {"element"});
    CHECK(store.answered == std::vector<Client>{2, 3});
    store.request(4, Opcode::kWait, {"/later"});
    store.request(2, Opcode::kQueuePop, {"/queue"});
    store.answered.clear();
    store.request(5, Opcode::kWait, {"/queue", "/later"});
    store.state.forget(2);
    CHECK(store.answered.empty());
  }
}

TEST_CASE("a key that is named twice is waited for once", "[store]") {
  State store;
  store.request(1, Opcode::kWait, {"/queue", "/queue"});
  store.request(2, Opcode::kWait, {"/value", "/other", "/value"});
  store.request(9, Opcode::kQueuePush, {"/queue"}, {"element"});
  CHECK(store.answered == std::vector<Client>{1});
  store.request(9, Opcode::kSet, {"/value"}, {""});
  CHECK(store.answered == std::vector<Client>{1});
  store.request(9, Opcode::kSet, {"/other"}, {""});
  CHECK(store.answered == std::vector<Client>{1, 2});
}

TEST_CASE("a wait for a barrier's key ends when the first client comes to the barrier", "[store]") {
  State store;
  store.request(1, Opcode::kWait, {"/barrier"});
  wire::Request barrier;
  barrier.opcode = Opcode::kBarrier;
  barrier.keys = {"/barrier"};
  barrier.number = 2;
  store.state.handle(2, barrier);
  CHECK(store.answered == std::vector<Client>{1});
  store.state.handle(3, barrier);
  CHECK(store.answered.size() == 3);
}
