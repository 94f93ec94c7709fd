// SPDX-License-Identifier: MIT
#include "ddp/engine/statistics/step_svg.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>

namespace ddp {
namespace {

// All lengths are in pixels.
constexpr double kWidth = 960;
constexpr double kLeft = 84;  // left end of the time axis
constexpr double kRight = kWidth - 24;
constexpr double kTop = 44;
constexpr double kBar = 24;       // height of a bar
constexpr double kReadyGap = 16;  // between a rank's two bars, for the ready marks
constexpr double kRankHeight = 2 * kBar + kReadyGap + 34;
constexpr double kAxis = 26;
constexpr double kLegend = 30;
constexpr double kCharacter = 6.3;  // approximate width of a character in a bar's label

struct Style {
  std::string_view name;
  std::string_view fill;
};
constexpr Style kData{"data wait", "#c9b458"};
constexpr Style kForward{"forward", "#8fb8de"};
constexpr Style kBackward{"backward", "#5b8fc9"};
constexpr Style kStraggler{"waits for the slowest rank", "#b9a5d6"};
constexpr Style kExposed{"exposed reductions", "#e08e6d"};
constexpr Style kOptimizer{"optimizer", "#b4bac2"};
constexpr Style kAllReduce{"all_reduce of a bucket", "#7fb99a"};
constexpr std::array kStyles = {kData,    kForward,   kBackward, kStraggler,
                                kExposed, kOptimizer, kAllReduce};

double ms(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

double ms(const Interval& interval) { return ms(interval.end - interval.begin); }

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

// The interval that the whole picture spans.
Interval extent(std::span<const RankStep> ranks) {
  Interval all{ranks[0].engine.begin, ranks[0].engine.end};
  const auto include = [&](const Interval& part) {
    all = {std::min(all.begin, part.begin), std::max(all.end, part.end)};
  };
  for (const RankStep& rank : ranks) {
    include({rank.engine.begin, rank.engine.end});
    for (const auto& part : {rank.data, rank.forward, rank.optimizer}) {
      if (part) include(*part);
    }
  }
  return all;
}

// The distance between ticks: 1, 2 or 5 times a power of ten, so that there are about ten.
double tick_length(double whole) {
  const double power = std::pow(10, std::floor(std::log10(whole / 10)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (10 * factor * power >= whole) return factor * power;
  }
  return 10 * power;
}

class Drawing {
 public:
  Drawing(std::span<const RankStep> ranks, std::string_view caption)
      : ranks_(ranks),
        extent_(extent(ranks)),
        whole_ms_(std::max(ms(extent_), 1e-6)),
        axis_y_(kTop + kRankHeight * static_cast<double>(ranks.size())) {
    for (const RankStep& rank : ranks) slowest_ = std::max(slowest_, rank.engine.backward_end);
    open(caption);
    draw_axis();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      draw_rank(ranks[i], kTop + kRankHeight * static_cast<double>(i));
    }
    draw_legend();
    svg_ += "</svg>\n";
  }

  [[nodiscard]] std::string take() { return std::move(svg_); }

 private:
  [[nodiscard]] double x(Clock::time_point time) const {
    return kLeft + (kRight - kLeft) * ms(time - extent_.begin) / whole_ms_;
  }

  void open(std::string_view caption) {
    const double height = axis_y_ + kAxis + kLegend;
    svg_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
        "height=\"{1}\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#24292f\">\n"
        "<rect width=\"{0}\" height=\"{1}\" rx=\"6\" fill=\"#f4f5f7\"/>\n"
        "<text x=\"16\" y=\"26\" font-size=\"13\">{2}</text>\n",
        kWidth, height, escaped(caption));
  }

  void text(double left, double y, std::string_view what, std::string_view attributes = "") {
    svg_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", left, y, attributes, what);
  }

  void line(double x1, double y1, double x2, double y2, std::string_view color) {
    svg_ += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1,
        x2, y2, color);
  }

  void draw_axis() {
    const double tick = tick_length(whole_ms_);
    for (int i = 0; i * tick <= whole_ms_; ++i) {
      const double at = kLeft + (kRight - kLeft) * i * tick / whole_ms_;
      line(at, kTop - 4, at, axis_y_, "#dfe2e6");
      text(at, axis_y_ + 14, fmt::format("{:g}", i * tick), " text-anchor=\"middle\"");
    }
    text(16, axis_y_ + 14, "ms");
  }

  // Draws a bar with the first of the labels that fits into it; labels come longest first.
  void bar(const Interval& interval, double y, const Style& style,
           std::initializer_list<std::string> labels) {
    if (interval.end <= interval.begin) return;
    const double left = x(interval.begin);
    const double width = x(interval.end) - left;
    svg_ += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\" "
        "stroke=\"#f4f5f7\" stroke-width=\"0.6\"><title>{} {:.3f} ms</title></rect>\n",
        left, y, std::max(width, 1.0), kBar, style.fill, style.name, ms(interval));
    for (const std::string& label : labels) {
      if (static_cast<double>(label.size()) * kCharacter + 4 > width) continue;
      text(left + width / 2, y + kBar / 2 + 4, label, " text-anchor=\"middle\"");
      return;
    }
  }

  void activity(const std::optional<Interval>& interval, double y, const Style& style,
                std::string_view name) {
    if (!interval) return;
    const std::string length = fmt::format("{:.2f}", ms(*interval));
    bar(*interval, y, style, {fmt::format("{} {} ms", name, length), length});
  }

  void draw_rank(const RankStep& rank, double y) {
    const StepTimes& engine = rank.engine;
    text(16, y + kBar / 2 + 4, fmt::format("rank {}", rank.rank), " font-weight=\"bold\"");
    text(16, y + kBar + kReadyGap + kBar / 2 + 4, "all_reduce");
    activity(rank.data, y, kData, "data");
    activity(rank.forward, y, kForward, "forward");
    activity(Interval{engine.begin, engine.backward_end}, y, kBackward, "backward");
    const Clock::time_point joined = std::min(slowest_, engine.end);
    activity(Interval{engine.backward_end, joined}, y, kStraggler, "waits");
    activity(Interval{joined, engine.end}, y, kExposed, "exposed");
    activity(rank.optimizer, y, kOptimizer, "optimizer");
    draw_buckets(engine, y + kBar);
  }

  // `y` is the lower end of the bar above. A line connects the moment at which a bucket is ready
  // with its reduction.
  void draw_buckets(const StepTimes& engine, double y) {
    const double bars = y + kReadyGap;
    double label_end = 0;
    for (std::size_t b = 0; b < engine.buckets.size(); ++b) {
      const StepTimes::Bucket& bucket = engine.buckets[b];
      const double ready = x(bucket.ready);
      svg_ += fmt::format(
          "<path d=\"M{:.1f} {:.1f}l-3 -6h6z\"><title>bucket {} is ready</title>"
          "</path>\n",
          ready, y + 7, b);
      if (!bucket.reduction) continue;
      const double begin = x(bucket.reduction->begin);
      line(ready, y + 7, begin, bars, "#8a929c");
      bar(*bucket.reduction, bars, kAllReduce, {fmt::format("{:.2f} ms", ms(*bucket.reduction))});
      const double middle = (begin + x(bucket.reduction->end)) / 2;
      const std::string label = fmt::format("{}", b);
      if (middle < label_end) continue;
      text(middle, bars + kBar + 11, label, " text-anchor=\"middle\" font-size=\"10\"");
      label_end = middle + kCharacter * static_cast<double>(label.size()) + 1;
    }
  }

  void draw_legend() {
    const double y = axis_y_ + kAxis + 8;
    double left = 16;
    for (const Style& style : kStyles) {
      svg_ +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"{}\"/>\n",
                      left, y, style.fill);
      text(left + 14, y + 9, style.name, " font-size=\"10\"");
      left += 32 + 5.1 * static_cast<double>(style.name.size());
    }
    svg_ += fmt::format("<path d=\"M{:.1f} {:.1f}l-3 -6h6z\"/>\n", left + 4, y + 8);
    text(left + 12, y + 9, "a bucket is ready", " font-size=\"10\"");
  }

  std::span<const RankStep> ranks_;
  Interval extent_;
  double whole_ms_;
  double axis_y_;
  Clock::time_point slowest_ = {};  // the end of the slowest rank's backward
  std::string svg_;
};

}  // namespace

std::string draw_step(std::span<const RankStep> ranks, std::string_view caption) {
  if (ranks.empty()) return "";
  return Drawing(ranks, caption).take();
}

}  // namespace ddp
