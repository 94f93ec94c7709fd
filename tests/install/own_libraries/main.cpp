// SPDX-License-Identifier: MIT
#include <ddp/base/log.h>
#include <ddp/ddp.h>
#include <ddp/io/sha256.h>

#include <cstdio>

#if !defined(OWN_fmt) || !defined(OWN_spdlog) || !defined(OWN_nlohmann_json)
#error "the project's own libraries are replaced"
#endif

int main() {
  const auto group = ddp::init_process_group({.device = ddp::DeviceChoice::kCpu});
  group->barrier().wait();
  ddp::logging::warning("from libddp, hash " + ddp::sha256({}).substr(0, 8));
}
