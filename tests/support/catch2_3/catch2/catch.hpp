// SPDX-License-Identifier: MIT
//
// What Catch2 2 has under this name, for Catch2 3: those of its many headers that our tests need,
// and what it calls otherwise.
#pragma once

#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <catch2/matchers/catch_matchers_vector.hpp>
#include <string>

namespace Catch {
namespace Matchers {

inline StringContainsMatcher Contains(const std::string& text) { return ContainsSubstring(text); }

}  // namespace Matchers

using namespace Matchers;

}  // namespace Catch

using Catch::Approx;
