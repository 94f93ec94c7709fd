// SPDX-License-Identifier: MIT
#include "launcher/output/log_route.h"

#include <algorithm>

namespace ddp::launcher {
namespace {

bool is_shown(const LogOptions& options, int rank, Channel channel) {
  const Show& show = options.show;
  if (options.local_ranks_filter && show.kind == Show::Kind::kDefault) return true;
  return channel == Channel::kOut ? show.shows_stdout(rank) : show.shows_stderr(rank);
}

bool is_let_through(const LogOptions& options, int local_rank) {
  const auto& filter = options.local_ranks_filter;
  return !filter || std::ranges::find(*filter, local_rank) != filter->end();
}

bool names_any(const StreamSelection& selection) {
  return selection.everybody != StreamSelection::kNone || !selection.by_local_rank.empty();
}

}  // namespace

Route route(const LogOptions& options, int rank, int local_rank, Channel channel) {
  const auto stream =
      channel == Channel::kOut ? StreamSelection::kStdout : StreamSelection::kStderr;
  const bool is_teed = options.tee.has(stream, local_rank);
  const bool is_redirected = options.redirects.has(stream, local_rank);
  const bool is_wanted = is_teed || (is_shown(options, rank, channel) && !is_redirected);
  return {.to_console = is_wanted && is_let_through(options, local_rank),
          .to_file = is_teed || is_redirected || options.directory.has_value()};
}

bool has_files(const LogOptions& options) {
  return options.directory || names_any(options.redirects) || names_any(options.tee);
}

}  // namespace ddp::launcher
