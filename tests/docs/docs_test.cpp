// SPDX-License-Identifier: MIT
//
// README.md and docs/ are true: their C++ code appears word for word in sources that are compiled
// and run, and the flags that they name are in the programs' --help.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/child_process.h"

namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

const fs::path kRoot = DDP_SOURCE_DIR;

Lines lines_of(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE(file);
  Lines lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

void append_without_indents(const fs::path& path, Lines& lines) {
  for (const std::string& line : lines_of(path)) {
    const std::size_t begin = line.find_first_not_of(' ');
    lines.push_back(begin == std::string::npos ? "" : line.substr(begin));
  }
}

std::vector<fs::path> files_in(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  return files;
}

std::vector<fs::path> documents() {
  std::vector<fs::path> files = files_in(kRoot / "docs", ".md");
  files.push_back(kRoot / "README.md");
  return files;
}

// "--nproc_per_node" and "--nproc-per-node" are one flag.
std::string flag_name(std::string flag) {
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

// A flag in a text. "--rdzv-*" stands for all flags with that prefix.
const std::regex kFlag(R"((--[a-z][a-z0-9_-]*)(\*?))");

using Flags = std::set<std::string>;

Flags flags_in_help_of(const std::string& program) {
  ddp::test::ChildProcess help({program, "--help"});
  REQUIRE(help.wait() == 0);
  const std::string& text = help.out();
  Flags flags;
  for (std::sregex_iterator match(text.begin(), text.end(), kFlag), end; match != end; ++match) {
    flags.insert(flag_name((*match)[1]));
  }
  return flags;
}

bool has_prefix(const Flags& flags, const std::string& prefix) {
  const auto first = flags.lower_bound(prefix);
  return first != flags.end() && first->starts_with(prefix);
}

// Flags that appear without a program's name and are in no --help.
const Flags kOthers = {
    // flags of torchrun that ddp-launch refuses, or accepts with one value only
    "--duplicate-stderr-filters", "--duplicate-stdout-filters", "--event-log-handler",
    "--log-line-prefix-template", "--logs-specs", "--print-completion", "--run-path",
    "--signals-to-handle", "--start-method", "--use-env", "--virtual-local-rank",
    // flags of the benchmarks and of mpirun
    "--backends", "--compare", "--parts", "--samples", "--sizes", "--bind-to",
    // examples of how flags are written
    "--flag", "--nproc"};

// Commands and `quoted` text.
Lines code_in(const fs::path& document) {
  Lines code;
  std::string fence, paragraph;
  const auto end_paragraph = [&] {
    std::istringstream parts(paragraph);
    bool is_code = false;
    for (std::string part; std::getline(parts, part, '`'); is_code = !is_code) {
      if (is_code) code.push_back(part);
    }
    paragraph.clear();
  };
  for (const std::string& line : lines_of(document)) {
    if (line.starts_with("```")) {
      end_paragraph();
      fence = fence.empty() ? line : "";
    } else if (!fence.empty()) {
      if (fence == "```console") code.push_back(line);
    } else if (line.starts_with("    ")) {
      code.push_back(line);
    } else if (line.empty() || line.starts_with("|") || line.starts_with("- ")) {
      end_paragraph();
      paragraph = line;
    } else {
      paragraph += " " + line;
    }
  }
  end_paragraph();
  return code;
}

}  // namespace

TEST_CASE("the C++ code in README.md and docs/ is taken from tested sources", "[docs]") {
  Lines source;
  for (const fs::path& file : files_in(kRoot / "examples", ".cpp")) {
    append_without_indents(file, source);
  }
  for (const char* file : {"docs/docs_code_test.cpp", "jobs/training_recipe_test.cpp",
                           "jobs/training_recipe_parts_test.cpp"}) {
    append_without_indents(kRoot / "tests" / file, source);
  }
  int blocks = 0;
  for (const fs::path& document : documents()) {
    Lines text;
    append_without_indents(document, text);
    for (auto at = text.begin(); (at = std::find(at, text.end(), "```cpp")) != text.end();) {
      const auto begin = at + 1;
      at = std::find(begin, text.end(), "```");
      INFO(document << ", block at line " << begin - text.begin());
      CHECK(std::search(source.begin(), source.end(), begin, at) != source.end());
      ++blocks;
    }
  }
  CHECK(blocks >= 18);
}

TEST_CASE("headers that README.md and docs/ name exist", "[docs]") {
  const std::regex header(R"([^/\w](ddp/[\w/]+\.h)\b)");  // in the form of an #include
  int headers = 0;
  for (const fs::path& document : documents()) {
    for (const std::string& line : lines_of(document)) {
      for (std::sregex_iterator match(line.begin(), line.end(), header), end; match != end;
           ++match) {
        INFO(document << ": " << (*match)[1]);
        const auto is_in = [&](const char* root) {
          return fs::exists(kRoot / root / (*match)[1].str());
        };
        const auto roots = {"libddp", "samplers", "data", "io", "kernels", "nn", "nn/parallel"};
        CHECK(std::ranges::any_of(roots, is_in));
        ++headers;
      }
    }
  }
  CHECK(headers >= 30);
}

TEST_CASE("flags that README.md and docs/ name are in --help", "[docs]") {
  const std::map<std::string, Flags> ours = {
      {"ddp-launch", flags_in_help_of(DDP_LAUNCH_PATH)},
      {"ddp-prove", flags_in_help_of(DDP_PROVE_PATH)},
      {"generate", flags_in_help_of(DDP_GENERATE_PATH)},
      {"train", flags_in_help_of(DDP_TRAIN_PATH)},
      {"make_crack_set", flags_in_help_of(DDP_MAKE_CRACK_SET_PATH)}};
  Flags any = kOthers;
  for (const auto& [_, flags] : ours) any.insert(flags.begin(), flags.end());

  // The beginning of a command. Programs that are not ours may have any flags.
  const std::regex program(R"((build/bin/)?(ddp-launch|ddp-prove|generate|train|make_crack_set))");
  const std::regex other_program(
      R"(\./.*|scripts/.*|.*bench_.*|.*\.py|package\.train|PROGRAM|#SBATCH|)"
      "cmake|mpirun|python3|srun|tar|tensorboard|torchrun");
  for (const fs::path& document : documents()) {
    for (const std::string& code : code_in(document)) {
      const Flags* known = &any;
      std::istringstream words(code);
      for (std::string word; words >> word;) {
        std::smatch match;
        if (std::regex_match(word, other_program)) {
          known = nullptr;
        } else if (std::regex_match(word, match, program)) {
          known = &ours.at(match[2]);
        } else if (known != nullptr && word.starts_with("--") &&
                   std::regex_search(word, match, kFlag)) {
          INFO(document << ": " << match[1] << " in `" << code << "`");
          const std::string flag = flag_name(match[1]);
          const bool is_cut_short = match[2].length() > 0 || known == &ours.at("ddp-launch");
          CHECK((known->contains(flag) || (is_cut_short && has_prefix(*known, flag))));
        }
      }
    }
  }
}
