// SPDX-License-Identifier: MIT
//
// The text format of values that ranks send each other: one field per line, so no field may
// contain a newline. Numbers are written as in C, whatever the program's locale is, since a rank on
// another host may have a different one.
#pragma once

#include <concepts>
#include <iterator>
#include <locale>
#include <sstream>
#include <string>

namespace ddp {

class FieldWriter {
 public:
  FieldWriter() { text_.imbue(std::locale::classic()); }

  template <class T>
  FieldWriter& operator<<(const T& field) {
    text_ << field << '\n';
    return *this;
  }

  [[nodiscard]] std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
};

// Reads the fields that a FieldWriter wrote. Like a std::istream, it converts to false once a field
// was missing or was not a number where one was requested.
class FieldReader {
 public:
  explicit FieldReader(const std::string& text) : lines_(text) {}

  FieldReader& operator>>(std::string& field) {
    std::getline(lines_, field);
    return *this;
  }
  template <std::integral T>
  FieldReader& operator>>(T& field) {
    std::string line;
    std::getline(lines_, line);
    std::istringstream number(line);
    number.imbue(std::locale::classic());
    if (!(number >> field) || number.peek() != std::istringstream::traits_type::eof()) {
      lines_.setstate(std::ios::failbit);
    }
    return *this;
  }

  // What follows the fields that were read; it may contain newlines.
  [[nodiscard]] std::string rest() { return {std::istreambuf_iterator<char>(lines_), {}}; }
  [[nodiscard]] bool has_more() { return lines_.peek() != std::istringstream::traits_type::eof(); }
  explicit operator bool() const { return !lines_.fail(); }

 private:
  std::istringstream lines_;
};

}  // namespace ddp
