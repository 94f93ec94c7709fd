// SPDX-License-Identifier: MIT
//
// The text format of values that ranks send each other: one field per line, so no field may
// contain a newline. Numbers are written as in C, whatever the program's locale is, since a rank on
// another host may have a different one. And a reader of the words of a line, of our own or of a
// file of the kernel, who writes as in C, too.
#pragma once

#include <concepts>
#include <iterator>
#include <locale>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "ddp/base/number_in.h"

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

// Reads numbers and words with blanks between them. A stream in the program's locale may take the
// blank for the separator of thousands, and so two numbers for one. Like a std::istream, it
// converts to false once a word was missing or was not a number where one was requested.
class WordReader {
 public:
  explicit WordReader(const std::string& text) : words_(text) {
    words_.imbue(std::locale::classic());
  }

  template <class T>
  WordReader& operator>>(T& word) {
    words_ >> word;
    return *this;
  }

  [[nodiscard]] bool is_at_end() { return words_.peek() == std::istringstream::traits_type::eof(); }
  explicit operator bool() const { return !words_.fail(); }

 private:
  std::istringstream words_;
};

// The numbers of a text that has nothing else.
template <std::integral T>
std::optional<std::vector<T>> numbers_in(const std::string& text) {
  std::vector<T> numbers;
  std::string word;
  for (WordReader words(text); words >> word;) {
    const auto number = number_in<T>(word);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

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
    WordReader number(line);
    if (!(number >> field) || !number.is_at_end()) {
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
