#include "common/host/text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>

namespace ladder {
namespace {

char small(char letter) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

// Levenshtein distance, one row of its matrix at a time. Capitals are small letters; a word that is
// cut short, or goes on behind the other's end, is one edit away.
size_t edits(const std::string& from, const std::string& to) {
  const size_t shorter = std::min(from.size(), to.size());
  if (shorter >= 3 && from.size() != to.size() && from.compare(0, shorter, to, 0, shorter) == 0) {
    return 1;
  }
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= to.size(); ++j) {
      const size_t replaced = diagonal + (small(from[i - 1]) == small(to[j - 1]) ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[to.size()];
}

std::string quoted(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += '\\';
      json += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += format("\\u%04x", static_cast<unsigned>(c));
    } else {
      json += c;
    }
  }
  return json + '"';
}

size_t width(const std::string& utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;  // not a continuation byte
  }));
}

// Whether column i, below its heading, has nothing but numbers, with units or arrows.
bool numeric(const std::vector<std::vector<std::string>>& rows, size_t i) {
  return rows.size() > 1 && std::all_of(rows.begin() + 1, rows.end(), [i](const auto& row) {
           return row.at(i).find_first_not_of("0123456789.-+%/> ") == std::string::npos;
         });
}

}  // namespace

std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, pattern, arguments);
  va_end(arguments);
  std::string text(static_cast<size_t>(std::max(length, 0)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, pattern, again);
  va_end(again);
  return text;
}

std::string nearest(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  std::pair fewest = {std::numeric_limits<size_t>::max(), size_t{0}};
  for (const std::string& candidate : candidates) {
    const size_t longer = std::max(word.size(), candidate.size());
    // Of two that begin alike, the one that differs least in length.
    const std::pair distance = {edits(word, candidate),
                                longer - std::min(word.size(), candidate.size())};
    if (distance < fewest) {
      fewest = distance;
      best = candidate;
    }
  }
  return best;
}

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  // What others call it.
  static const std::pair<const char*, const char*> NAMES[] = {
      {"none", "nothing"}, {"swish", "silu"},   {"int8", "s8"},   {"fp8", "e4m3"},
      {"half", "fp16"},    {"float16", "fp16"}, {"fp32", "tf32"}, {"float32", "tf32"}};
  for (const auto& [theirs, ours] : NAMES) {
    if (word == theirs && std::count(candidates.begin(), candidates.end(), ours) > 0) {
      return std::string("did you mean ") + ours + "?";
    }
  }
  const std::string best = nearest(word, candidates);
  if (2 * edits(word, best) <= std::max(word.size(), best.size())) {
    return "did you mean " + best + "?";
  }
  return "try " + candidates.front() + ".";
}

std::string join(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < rows[r].size(); ++i) {
      const std::string& cell = rows[r][i];
      const std::string blanks(widths[i] - width(cell), ' ');
      line += (i == 0 ? "" : "  ") + (numeric(rows, i) ? blanks + cell : cell + blanks);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + '\n';
    if (r == 0) {
      std::string rule;
      for (size_t i = 0; i < widths.size(); ++i) {
        rule += (i == 0 ? "" : "  ") + std::string(widths[i], '-');
      }
      text += rule + '\n';
    }
  }
  return text;
}

std::string duration_text(double seconds) {
  constexpr double MINUTE = 60, HOUR = 60 * MINUTE, DAY = 24 * HOUR, YEAR = 365 * DAY;
  if (seconds < 100) return format("%.0f s", seconds);
  if (seconds < 2 * HOUR) return format("%.0f minutes", seconds / MINUTE);
  if (seconds < 2 * DAY) return format("%.0f hours", seconds / HOUR);
  if (seconds < 2 * YEAR) return format("%.0f days", seconds / DAY);
  return format("%.0f years", seconds / YEAR);
}

JsonObject& JsonObject::add_raw(const std::string& key, const std::string& json) {
  members_ += (members_.empty() ? "" : ", ") + quoted(key) + ": " + json;
  return *this;
}

JsonObject& JsonObject::add(const std::string& key, const std::string& value) {
  return add_raw(key, quoted(value));
}

JsonObject& JsonObject::add(const std::string& key, const char* value) {
  return add_raw(key, quoted(value));
}

JsonObject& JsonObject::add(const std::string& key, double value) {
  return add_raw(key, std::isfinite(value) ? format("%.7g", value) : "null");
}

JsonObject& JsonObject::add(const std::string& key, long long value) {
  return add_raw(key, std::to_string(value));
}

JsonObject& JsonObject::add(const std::string& key, int value) {
  return add_raw(key, std::to_string(value));
}

JsonObject& JsonObject::add(const std::string& key, bool value) {
  return add_raw(key, value ? "true" : "false");
}

JsonObject& JsonObject::add(const std::string& key, const std::vector<std::string>& values) {
  std::vector<std::string> items;
  for (const std::string& value : values) items.push_back(quoted(value));
  return add_raw(key, "[" + join(items) + "]");
}

JsonObject& JsonObject::add(const std::string& key, const JsonObject& value) {
  return add_raw(key, value.line());
}

JsonObject& JsonObject::add_null(const std::string& key) {
  return add_raw(key, "null");
}

std::string JsonObject::line() const {
  return "{" + members_ + "}";
}

}  // namespace ladder
