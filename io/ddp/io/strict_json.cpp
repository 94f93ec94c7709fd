// SPDX-License-Identifier: MIT
#include "ddp/io/strict_json.h"

#include <set>
#include <string>
#include <vector>

#include "ddp/base/error.h"
#include "ddp/base/printable.h"

namespace ddp {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLongestReason = 300;  // it quotes the file

// Refuses two equal keys, of which nlohmann would keep one, and nesting that is too deep. It reads
// the text in a pass of its own before the parser does, because the parser's callback searches a
// whole object whenever one of its members ends: that takes minutes for a hundred thousand members.
class StrictReader final : public nlohmann::json_sax<Json> {
 public:
  explicit StrictReader(std::size_t max_depth) : keys_(max_depth + 1) {}

  bool start_object(std::size_t) override {
    enter();
    keys_.at(depth_).clear();
    return true;
  }
  bool key(std::string& key) override {
    if (keys_.at(depth_).insert(key).second) return true;
    throw FileError(quoted_name(key) + " occurs twice in the header");
  }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override {
    enter();
    return true;
  }
  bool end_array() override { return leave(); }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  // The parser reports it.
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override {
    return false;
  }

 private:
  void enter() {
    if (++depth_ >= keys_.size()) throw FileError("the header is nested too deeply");
  }
  bool leave() {
    --depth_;
    return true;
  }

  std::size_t depth_ = 0;
  std::vector<std::set<std::string>> keys_;  // of the open object at each depth
};

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, std::size_t max_depth) {
  if (text.empty() || text.front() != '{') throw FileError("the header is not a JSON object");
  // nlohmann treats a zero byte as the end of the text.
  if (text.find('\0') != text.npos) throw FileError("the header contains a zero byte");
  StrictReader strict(max_depth);
  (void)Json::sax_parse(text, &strict);
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    throw FileError("the header is not JSON: " +
                    shortened(printable(error.what()), kLongestReason));
  }
}

}  // namespace ddp
