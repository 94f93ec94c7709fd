// SPDX-License-Identifier: MIT
//
// Catch2's session and listeners for sources with a main(). Other sources do without these headers,
// which are slow to compile.
#pragma once

#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
