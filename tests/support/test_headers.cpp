// SPDX-License-Identifier: MIT
//
// See tests/CMakeLists.txt.
int main() {}
