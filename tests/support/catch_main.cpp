// SPDX-License-Identifier: MIT
#include "catch_runner.h"

int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
