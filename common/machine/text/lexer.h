// PTX text as words. It knows nothing of what they mean.
#pragma once

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string>
#include <string_view>

#include "common/machine/run/error.h"

namespace machine {

inline bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%';
}

// Words are identifiers with their dots (%tid.x, add.s32); one that begins with a dot ends before the
// next, since .reg.b32 says the same as .reg .b32. Everything else is one character, an operator of
// two, or a string.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) { advance(); }

  std::string_view token() const { return token_; }
  uint32_t line() const { return token_line_; }
  bool at_end() const { return token_.empty(); }
  bool is(std::string_view expected) const { return token_ == expected; }

  std::string_view take() {
    const std::string_view taken = token_;
    advance();
    return taken;
  }

  bool accept(std::string_view expected) {
    if (token_ != expected) return false;
    advance();
    return true;
  }

  void expect(std::string_view expected) {
    if (!accept(expected)) fail("expected '" + std::string(expected) + "'");
  }

  template <class T = uint64_t>
  T number() {
    const bool minus = accept("-");
    std::string_view word = token_;
    if (word.ends_with('U')) word.remove_suffix(1);
    const bool hex = word.starts_with("0x") || word.starts_with("0X");
    const bool binary = word.starts_with("0b") || word.starts_with("0B");
    const int base = hex ? 16 : binary ? 2 : word.size() > 1 && word[0] == '0' ? 8 : 10;
    if (hex || binary) word.remove_prefix(2);
    uint64_t value = 0;
    const char* end = word.data() + word.size();
    if (std::from_chars(word.data(), end, value, base).ptr != end || word.empty()) {
      fail("expected a number");
    }
    advance();
    return static_cast<T>(minus ? -value : value);
  }

  // Up to the end of { ... }, or of what ends with a semicolon before any brace.
  void skip_definition() {
    while (!at_end() && !is("{") && !is(";")) advance();
    size_t depth = 0;
    do {
      depth += is("{");
      depth -= is("}");
      advance();
    } while (!at_end() && depth > 0);
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Error::Kind::refused,
                joined("PTX line ", token_line_, ": ", what, ", found '", token_, "'"));
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (c == '/' && text_.substr(at_, 2) == "//") {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '/' && text_.substr(at_, 2) == "/*") {
        const size_t end = std::min(text_.find("*/", at_), text_.size() - 2);
        for (; at_ < end + 2; ++at_) line_ += text_[at_] == '\n';
      } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\0') {
        ++at_;
      } else {
        return;
      }
    }
  }

  void advance() {
    skip_blanks();
    token_line_ = line_;
    const size_t start = at_;
    if (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') {
        while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
        at_ = std::min(at_ + 1, text_.size());
      } else if (is_word(c) || c == '.') {
        while (at_ < text_.size() && (continues_word(c) || is_exponent(start))) ++at_;
      } else if (at_ < text_.size() && is_operator(text_.substr(start, 2))) {
        ++at_;
      }
    }
    token_ = text_.substr(start, at_ - start);
  }

  // Dots and double colons belong to the word: mbarrier.init.shared::cta.b64.
  bool continues_word(char first) const {
    const char c = text_[at_];
    if (is_word(c)) return true;
    if (c == '.') return first != '.';
    if (c != ':') return false;
    if (at_ > 0 && text_[at_ - 1] == ':') return true;
    return text_.substr(at_, 2) == "::";
  }

  // The sign in 2.5e-3; there is none in 0x1e-3.
  bool is_exponent(size_t start) const {
    if (text_[at_] != '-' && text_[at_] != '+') return false;
    const std::string_view word = text_.substr(start, at_ - start);
    return (word.back() == 'e' || word.back() == 'E') &&
           word.find_first_not_of("0123456789.") == word.size() - 1;
  }

  static bool is_operator(std::string_view two) {
    if (two[0] == two[1]) return std::string_view("<>=&|").find(two[0]) != std::string_view::npos;
    return two[1] == '=' && std::string_view("<>!").find(two[0]) != std::string_view::npos;
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  std::string_view token_;
  uint32_t token_line_ = 1;
};

}  // namespace machine
