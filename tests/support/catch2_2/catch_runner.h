// SPDX-License-Identifier: MIT
//
// Catch2's session and listeners for sources with a main(), under the names of Catch2 3. Include
// this before <catch2/catch.hpp>.
#pragma once

#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

namespace Catch {

struct EventListenerBase : TestEventListenerBase {
  using TestEventListenerBase::TestEventListenerBase;
};

}  // namespace Catch
